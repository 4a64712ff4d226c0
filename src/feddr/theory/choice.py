"""Step sizes that a person has chosen, wholly or in part: checked, completed, and set beside the recommended ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from feddr.theory import asynchronous, checks, synchronous
from feddr.theory.asynchronous import AsyncConstants
from feddr.theory.relative import RelativeConstants
from feddr.theory.synchronous import Constants, Gammas
from feddr.theory.tuning import UNBOUNDED, Recommendation, minimise, recommend_for


@dataclass(frozen=True)
class _Theorem:
    """What a theorem says for (alpha, eta), and the gap and the M for which its bound is to be small."""

    eta_max: Callable[[float], float]
    descent: Callable[[float, float], float]
    constants: Callable[[float, float], Constants | AsyncConstants]
    alpha_max: float
    where: str
    L: float
    gap: float
    M: float = 0.0

    def complete(self, alpha: float | None, eta: float | None) -> tuple[float, float]:
        """Return the admissible pair with the least bound among those that have the given alpha, the given eta."""
        if alpha is not None:
            largest = self.eta_max(alpha)
            if eta is None:
                return alpha, largest * self._least(lambda t: (alpha, t * largest), 1)[0]
            checks.stepsize(eta, largest, f"for alpha = {alpha:.6g}, {self.where}", self.descent(alpha, eta))
            return alpha, eta
        if eta is not None:
            at_zero = self.descent(0.0, eta)
            checks.stepsize(eta, 1 / self.L, f"for L = {self.L:.6g}, whatever alpha is", at_zero)
            # The descent is positive at alpha = 0 and falls along a line.
            top = at_zero / (at_zero - self.descent(1.0, eta))
            return top * self._least(lambda s: (s * top, eta), 1)[0], eta

        def pair(s: float, t: float) -> tuple[float, float]:
            return s * self.alpha_max, t * self.eta_max(s * self.alpha_max)

        return pair(*self._least(pair, 2))

    def _least(self, pair: Callable[..., tuple[float, float]], dimension: int) -> tuple[float, ...]:
        return minimise(lambda *at: total(self.constants(*pair(*at)), self.gap, self.M), dimension)


def choose(
    L: float,
    n: int,
    p_hat: float,
    *,
    alpha: float | None = None,
    eta: float | None = None,
    gamma4: float | None = None,
    gap: float = 1.0,
    M: float = 0.0,
    tau: int | None = None,
    T: int | None = None,
    largest_weight: float | None = None,
) -> Recommendation:
    """Return the recommended step sizes; those that are given are kept, and the others are the best ones beside them.

    Parameters
    ----------
    L, n, p_hat, gap, tau, T, largest_weight
        As in `feddr.theory.tuning.recommend_for`.
    alpha, eta
        Refused, with the admissible range, where they are not admissible.
    gamma4
        Narrows the ranges of Algorithm 1 to leave room for errors of the prox; the other gammas are then those that
        `feddr.theory.synchronous.best_gammas` has for M, or for M = gap / L where M = 0. Without it, the best gammas.
    M
        Bound on the expected (1/n) sum_i sum_k eps_{i,k}^2; 0 for an exact prox.

    Examples
    --------
    Corollary 3.1, 160 L n / 3:

    >>> round(choose(L=1.0, n=30, p_hat=1 / 30, alpha=1.0, eta=1 / 3).constants.total(1.0), 9)
    1600.0
    """
    checks.nonnegative("M", M)
    if gamma4 is not None:
        checks.nonnegative("gamma4", gamma4)
    if tau is not None and gamma4:
        raise ValueError(f"Theorem 4.1 is for an exact prox, got gamma4 = {gamma4} with tau = {tau}; leave one out.")
    if M > 0 and gamma4 == 0:
        raise ValueError(f"gamma4 must lie in (0, inf) for a prox with errors, got 0 with M = {M}; leave it out.")
    best = recommend_for(L, n, p_hat, exact=M == 0, gap=gap, M=M, tau=tau, T=T, largest_weight=largest_weight)
    if alpha is None and eta is None and not gamma4:
        return best
    if tau is not None and T is not None:
        theorem = _delayed(L, n if largest_weight is None else 1 / largest_weight, p_hat, tau, T, gap)
    else:
        theorem = _absolute(L, p_hat, gamma4 or 0.0, gap, M)
    c = theorem.constants(*theorem.complete(alpha, eta))
    fixed = {"alpha": alpha, "eta": eta, "gamma4": gamma4}
    free = [name for name in ("alpha", "eta") if fixed[name] is None]
    largest_alpha, largest_eta = limits(c)
    bound = total(c, gap, M)
    reasons = (
        "Given: "
        + ", ".join(f"{name} = {value:.4g}" for name, value in fixed.items() if value is not None)
        + (f"; {' and '.join(free)} chosen for the least bound." if free else "."),
        f"alpha must stay below {largest_alpha:.4g}, and eta below {largest_eta:.4g} for alpha = {c.alpha:.4g}; "
        f"the descent is {c.descent:.4g} > 0.",
        UNBOUNDED
        if tau is not None and largest_weight is not None
        else f"E ||G_eta(xbar^k)||^2, averaged over k = 0..K, is at most {bound:.4g} / (K + 1) for a gap of {gap:.4g}. "
        f"That is {bound / total(best.constants, gap, M):.4g} times the bound of the recommended "
        f"alpha = {best.alpha:.4g}, eta = {best.eta:.4g}.",
    )
    return Recommendation(c.alpha, c.eta, c.gammas if isinstance(c, Constants) else Gammas(), c, reasons)


def total(c: Constants | RelativeConstants | AsyncConstants, gap: float, M: float = 0.0) -> float:
    """Return the factor of 1/(K + 1) in the bound; M is for Theorem 3.1."""
    return c.total(gap, M) if isinstance(c, Constants) else c.total(gap)


def limits(c: Constants | AsyncConstants) -> tuple[float, float]:
    """Return the bounds of alpha, and of eta for the alpha of these constants."""
    if isinstance(c, AsyncConstants):
        return asynchronous.alpha_max(c.n, c.tau), asynchronous.eta_max(c.alpha, c.L, c.n, c.tau)
    return synchronous.alpha_max(c.gammas.gamma4), synchronous.eta_max(c.alpha, c.L, c.gammas.gamma4)


def _absolute(L: float, p_hat: float, gamma4: float, gap: float, M: float) -> _Theorem:
    def constants(alpha: float, eta: float) -> Constants:
        if gamma4 == 0:
            return synchronous.constants(L, p_hat, alpha, eta, gap=gap, M=M)
        others = synchronous.best_gammas(L, p_hat, alpha, eta, gap=gap, M=M or gap / L)
        return synchronous.constants(L, p_hat, alpha, eta, replace(others, gamma4=gamma4))

    return _Theorem(
        lambda alpha: synchronous.eta_max(alpha, L, gamma4),
        lambda alpha, eta: synchronous.descent(alpha, eta, L, gamma4),
        constants,
        synchronous.alpha_max(gamma4),
        f"L = {L:.6g}, gamma4 = {gamma4:.6g}",
        L,
        gap,
        M,
    )


def _delayed(L: float, n: float, p_hat: float, tau: int, T: int, gap: float) -> _Theorem:
    return _Theorem(
        lambda alpha: asynchronous.eta_max(alpha, L, n, tau),
        lambda alpha, eta: asynchronous.descent(alpha, eta, L, n, tau),
        lambda alpha, eta: asynchronous.constants(L, n, p_hat, alpha, eta, tau=tau, T=T),
        asynchronous.alpha_max(n, tau),
        f"L = {L:.6g}, n = {n:.6g}, tau = {tau}",
        L,
        gap,
    )
