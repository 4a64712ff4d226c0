"""The step sizes with the best guarantee, and the reasons for them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from feddr.theory import asynchronous, checks, relative, synchronous
from feddr.theory.asynchronous import AsyncConstants
from feddr.theory.relative import RelativeConstants
from feddr.theory.synchronous import Constants, Gammas


@dataclass(frozen=True)
class Recommendation:
    """Step sizes, the constants that they give, and why they were chosen; made by `recommend_for`.

    Examples
    --------
    >>> best = recommend_for(L=1.0, n=30, p_hat=1 / 3, exact=True)
    >>> type(best).__name__, best.eta < best.alpha, len(best.reasons) > 0
    ('Recommendation', True, True)
    """

    alpha: float
    eta: float
    gammas: Gammas
    constants: Constants | RelativeConstants | AsyncConstants
    reasons: tuple[str, ...]


def recommend_for(
    L: float,
    n: int,
    p_hat: float,
    *,
    exact: bool = False,
    gap: float = 1.0,
    M: float | None = None,
    theta_hat: float | None = None,
    tau: int | None = None,
    T: int | None = None,
    largest_weight: float | None = None,
) -> Recommendation:
    """Return the admissible (alpha, eta) with the smallest bound after any number of rounds.

    The objective is the factor of 1/(K + 1) in the theorem that applies: C1 gap + (C2 + C3) M over (alpha, eta), with
    the best gammas for each; C gap over eta for a relative accuracy; C_hat gap over (alpha, eta) for delays. Different
    eta measure different gradient mappings, but ||G_eta(x)|| never grows with eta, so each of these bounds is also a
    bound on the one measure ||G_{1/L}(x)||^2, and that is what is made small.

    Parameters
    ----------
    L, n, p_hat
        Smoothness of the f_i, number of clients, smallest probability that a client takes part (for delays: once in
        each window of T + 1 updates).
    exact
        Whether the clients' prox is exact (M = 0).
    gap
        V^0 - F*, in practice F(x^0) minus a lower bound on F. Only its ratio to M matters.
    M
        Bound on the expected (1/n) sum_i sum_k eps_{i,k}^2 (`feddr.theory.synchronous.error_budget`). Without it
        gap / L; the step sizes hardly depend on it, the bound does.
    theta_hat
        Relative accuracy instead of M; alpha is then 1.
    tau, T
        Largest delay and window of Algorithm 2, both or neither; its theorem is for an exact prox.
    largest_weight
        max_i w_i where weights differ: the step sizes for delays are those for as many clients of this weight.

    Examples
    --------
    >>> best = recommend_for(L=1.0, n=30, p_hat=1 / 3, exact=True)
    >>> round(best.alpha, 3), round(best.eta, 3), round(best.constants.total(1.0), 1)
    (0.747, 0.253, 113.3)
    """
    checks.positive("L", L)
    checks.count("n", n, 1)
    checks.probability(p_hat)
    checks.positive("gap", gap)
    if tau is not None and T is not None:
        if M or theta_hat:
            raise ValueError(f"Theorem 4.1 is for an exact prox, got M={M}, theta_hat={theta_hat}; leave them out.")
        return _delayed(L, n, p_hat, tau, T, gap, largest_weight)
    if (tau is None) != (T is None):
        raise ValueError(
            f"Delays need both tau and T, got tau={tau}, T={T}; T = 0 when every client may come next at any time."
        )
    if theta_hat is not None:
        if M or exact:
            raise ValueError(f"Give one accuracy, got theta_hat={theta_hat} with M={M}, exact={exact}; drop one.")
        return _relative(L, p_hat, theta_hat, gap)
    if exact and M:
        raise ValueError(f"An exact prox has no errors, got exact=True with M={M}; drop one.")
    return _absolute(L, p_hat, gap, 0.0 if exact else gap / L if M is None else M)


def _absolute(L: float, p_hat: float, gap: float, M: float) -> Recommendation:
    def at(s: float, t: float) -> Constants:
        alpha = s * synchronous.alpha_max()
        return synchronous.constants(L, p_hat, alpha, t * synchronous.eta_max(alpha, L), gap=gap, M=M)

    c = at(*minimise(lambda s, t: at(s, t).total(gap, M), 2))
    largest = synchronous.eta_max(c.alpha, L, c.gammas.gamma4)
    ratio = c.total(gap, M) / synchronous.constants(L, p_hat, 1.0, 1 / (3 * L), gap=gap, M=M).total(gap, M)
    accuracy = "an exact prox" if M == 0 else f"errors M = {M:.4g}, gamma4 = {c.gammas.gamma4:.4g}"
    reasons = (
        _strongly_convex(c.eta, L),
        f"With {accuracy}, alpha must stay below {synchronous.alpha_max(c.gammas.gamma4):.4g}, and eta below "
        f"{largest:.4g} for alpha = {c.alpha:.4g}; the descent is {c.descent:.4g} > 0.",
        _bound(c.total(gap, M), gap)
        + f" That is {ratio:.3g} times the bound of alpha = 1, eta = 1/(3L) (Corollary 3.1).",
        _participation(p_hat),
        _worst_case(),
    )
    return Recommendation(c.alpha, c.eta, c.gammas, c, reasons)


def _relative(L: float, p_hat: float, theta_hat: float, gap: float) -> Recommendation:
    largest = relative.eta_max(theta_hat, L)

    def at(t: float) -> RelativeConstants:
        return relative.constants(L, p_hat, t * largest, theta_hat)

    c = at(*minimise(lambda t: at(t).C, 1))
    reasons = (
        _strongly_convex(c.eta, L),
        f"The theorem on relative accuracies has alpha = 1; theta_hat = {theta_hat:.4g} is below 1/256, and eta must "
        f"stay below {largest:.4g} for it.",
        "Each client stops at ||x - prox||^2 <= theta_hat p_i ||x - x_i||^2, with x_i its last iterate.",
        _bound(c.total(gap), gap),
        _participation(p_hat),
        _worst_case(),
    )
    return Recommendation(1.0, c.eta, c.gammas, c, reasons)


def _delayed(
    L: float, clients: int, p_hat: float, tau: int, T: int, gap: float, largest_weight: float | None
) -> Recommendation:
    n = clients if largest_weight is None else 1 / largest_weight
    among = f"n = {n} clients" if largest_weight is None else f"clients with 1 / max_i w_i = n = {n:.4g}"

    def at(s: float, t: float) -> AsyncConstants:
        alpha = s * asynchronous.alpha_max(n, tau)
        eta = t * asynchronous.eta_max(alpha, L, n, tau)
        return asynchronous.constants(L, n, p_hat, alpha, eta, tau=tau, T=T)

    c = at(*minimise(lambda s, t: at(s, t).C_hat, 2))
    free = 2 * tau**2 <= n
    reasons = (
        _strongly_convex(c.eta, L),
        f"Delays of up to tau = {tau} updates among {among} "
        + ("cost no step size, because 2 tau^2 <= n" if free else "shrink the step sizes, because 2 tau^2 > n")
        + f": alpha must stay below {asynchronous.alpha_max(n, tau):.4g}, and eta below "
        f"{asynchronous.eta_max(c.alpha, L, n, tau):.4g} for alpha = {c.alpha:.4g}.",
        UNBOUNDED if largest_weight is not None else _bound(c.total(gap), gap) + " K counts updates of single clients.",
        f"In each window of {T + 1} updates every client has once a probability of at least {p_hat:.4g} to be active.",
        _worst_case(),
    )
    return Recommendation(c.alpha, c.eta, Gammas(), c, reasons)


UNBOUNDED = "The bound of Theorem 4.1 is for equal weights only; with these weights the step sizes are admissible."


def _strongly_convex(eta: float, L: float) -> str:
    return (
        f"eta = {eta:.4g} is below 1/L = {1 / L:.4g}, so a client's subproblem is strongly convex, with one solution."
    )


def _bound(total: float, gap: float) -> str:
    return f"E ||G_eta(xbar^k)||^2, averaged over k = 0..K, is at most {total:.4g} / (K + 1) for a gap of {gap:.4g}."


def _participation(p_hat: float) -> str:
    return f"A client takes part with a probability of at least {p_hat:.4g}; the factor of the gap grows like 1/p_hat."


def _worst_case() -> str:
    return (
        "The guarantee covers every L-smooth federation; on a given one larger step sizes often do better, "
        "but without a guarantee."
    )


def minimise(objective: Callable[..., float], dimension: int) -> tuple[float, ...]:
    """Return the minimiser over the open unit cube: a grid, then ever finer grids around the best point.

    The objectives are smooth, grow without bound towards the ends of the step sizes and have one valley; each grid
    keeps two cells of the last one on either side of the best point.
    """
    best, width = (0.5,) * dimension, 1.0
    for _ in range(14):
        steps = np.linspace(-0.5, 0.5, 17)[1:-1] * width
        points = itertools.product(*([b + float(step) for step in steps if 0 < b + step < 1] for b in best))
        best, width = min(points, key=lambda point: objective(*point)), width / 4
    return best
