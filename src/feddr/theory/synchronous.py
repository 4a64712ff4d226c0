"""Algorithm 1, exact and with absolute accuracies (Tran-Dinh et al. 2021, Theorem 3.1 and Corollary 3.1).

With u = L eta, every statement rests on one number, the descent of the Lyapunov value for a step of a client,

    d = 2 - alpha (1 + u) - 2 u^2 - 4 gamma4 alpha (1 + u^2),

which must be positive. Then, with ``p_hat = min_i p_i`` and ``||x_i^k - prox_{eta f_i}(y_i^k)|| <= eps_{i,k}``,

    (beta / 2n) sum_i ||xbar^k - x_i^k||^2 <= V^k - E[V^{k+1}] + (1/n) sum_i (rho1 eps_{i,k}^2 + rho2 eps_{i,k+1}^2),
    sum_{k=0..K} E ||G_eta(xbar^k)||^2 <= C1 gap + (1/n) sum_{k=0..K} sum_i (C2 eps_{i,k}^2 + C3 eps_{i,k+1}^2).

The number of clients does not enter, except through p_hat. See :mod:`feddr.theory` for gap, for the starts that the
theorem covers, for weights, and for the places where these formulas differ from the printed ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from feddr.theory import checks, rate


@dataclass(frozen=True)
class Gammas:
    """The free constants of the analysis: all positive, or all zero where the prox is exact (gamma3 = 1 or 0).

    They weigh errors against progress in Young's inequality: gamma1 in the step of a client, gamma2 in the gradient
    mapping, gamma4 in the descent. Only gamma4 narrows the admissible step sizes.

    Examples
    --------
    >>> Gammas().exact, Gammas(1.0, 1.0, 0.1).exact
    (True, False)
    """

    gamma1: float = 0.0
    gamma2: float = 0.0
    gamma4: float = 0.0

    def __post_init__(self) -> None:
        values = (self.gamma1, self.gamma2, self.gamma4)
        if not (all(value == 0 for value in values) or all(0 < value < math.inf for value in values)):
            raise ValueError(
                f"The gammas must be all in (0, inf), or all 0 for an exact prox, got {values}; "
                "leave them out to have the best ones chosen."
            )

    @property
    def exact(self) -> bool:
        """Whether they belong to the exact prox."""
        return self.gamma4 == 0


def descent(alpha: float, eta: float, L: float, gamma4: float = 0.0) -> float:
    """Return d = 2 - alpha (1 + L eta) - 2 (L eta)^2 - 4 gamma4 alpha (1 + (L eta)^2); admissible means d > 0."""
    u = L * eta
    return 2 - alpha * (1 + u) - 2 * u**2 - 4 * gamma4 * alpha * (1 + u**2)


def alpha_max(gamma4: float = 0.0) -> float:
    """Return 2 / (1 + 4 gamma4): below it, and only there, some eta > 0 has a positive descent.

    The printed second bound (sqrt(17 + 64 gamma4) - 1) / (4 (1 + 4 gamma4)) is spurious: Corollary 3.1 has alpha = 1.
    """
    checks.nonnegative("gamma4", gamma4)
    return 2 / (1 + 4 * gamma4)


def eta_max(alpha: float, L: float, gamma4: float = 0.0) -> float:
    """Return the largest eta for alpha: the positive root of the descent, which is always below 1/L.

    It is (sqrt((4 - alpha)^2 - 16 alpha^2 gamma4 (1 + 4 gamma4)) - alpha) / (4 L (1 + 2 alpha gamma4)), which is
    (2 - alpha) / (2 L) for gamma4 = 0 (the proof prints +16 for -16). At eta = 1/L the descent is
    -2 alpha (1 + 4 gamma4), so the root also keeps the prox single-valued and the Lyapunov value above F*.

    Examples
    --------
    >>> eta_max(alpha=1.0, L=2.0)
    0.25
    """
    checks.positive("L", L)
    checks.relaxation(alpha, alpha_max(gamma4), f" for gamma4 = {gamma4:.6g}")
    return boundary(alpha, L, gamma4)


def boundary(alpha: float, L: float, gamma4: float = 0.0) -> float:
    """Return the formula of `eta_max`, also in its limits 1/L at alpha = 0 and 0 at alpha = alpha_max."""
    # The root written as 2 c / (b + sqrt(b^2 + 4 a c)): no cancellation, and exactly 0 where c is.
    c = 2 - alpha * (1 + 4 * gamma4)
    return 2 * c / (L * (alpha + math.sqrt(alpha**2 + 8 * (1 + 2 * alpha * gamma4) * c)))


@dataclass(frozen=True)
class Constants:
    """Constants of Theorem 3.1 for one choice of step sizes and gammas; made by `constants`.

    Attributes
    ----------
    descent, beta, rho1, rho2
        The descent d and the constants of the descent lemma; the rhos are 0 for an exact prox.
    C1, C2, C3
        Factors of the gap, of the errors eps_{i,k}^2 and of the errors eps_{i,k+1}^2 in the theorem.

    Examples
    --------
    >>> c = constants(L=1.0, p_hat=1.0, alpha=1.0, eta=1 / 3)
    >>> c.rounds(epsilon=0.1, gap=1.0) < c.rounds(epsilon=0.01, gap=1.0)
    True
    """

    L: float
    p_hat: float
    alpha: float
    eta: float
    gammas: Gammas
    descent: float
    beta: float
    rho1: float
    rho2: float
    C1: float
    C2: float
    C3: float

    def total(self, gap: float, M: float = 0.0) -> float:
        """Return C1 gap + (C2 + C3) M, where M bounds (1/n) sum_i sum_k E[eps_{i,k}^2] (see `error_budget`)."""
        checks.nonnegative("gap", gap)
        checks.nonnegative("M", M)
        self._allow(M > 0)
        return self.C1 * gap + (self.C2 + self.C3) * M

    def bound(self, K: int, gap: float, M: float = 0.0) -> float:
        """Return the bound on the average of E ||G_eta(xbar^k)||^2 over k = 0..K."""
        return rate.average(self.total(gap, M), K)

    def bound_for_errors(self, gap: float, errors: Sequence[float]) -> float:
        """Return the bound for K + 2 known accuracies, errors[k] = (1/n) sum_i E[eps_{i,k}^2] for k = 0..K+1."""
        checks.nonnegative("gap", gap)
        if len(errors) < 2 or not all(0 <= error < math.inf for error in errors):
            raise ValueError(f"errors must be at least two numbers in [0, inf), for k = 0..K+1, got {errors}.")
        self._allow(any(error > 0 for error in errors))
        total = self.C1 * gap + self.C2 * math.fsum(errors[:-1]) + self.C3 * math.fsum(errors[1:])
        return rate.average(total, len(errors) - 2)

    def rounds(self, epsilon: float, gap: float, M: float = 0.0) -> int:
        """Return the K after which a uniformly drawn xbar^k, k <= K, has E ||G_eta||^2 <= epsilon^2."""
        return rate.rounds(self.total(gap, M), epsilon)

    def _allow(self, inexact: bool) -> None:
        if inexact and self.gammas.exact:
            raise ValueError(
                "These constants are for an exact prox, where all errors and M are 0; got positive errors, "
                "for which constants(...) needs M > 0 or positive gammas."
            )


def constants(
    L: float,
    p_hat: float,
    alpha: float,
    eta: float,
    gammas: Gammas | None = None,
    *,
    gap: float = 1.0,
    M: float = 0.0,
) -> Constants:
    """Return the constants of Theorem 3.1.

    Parameters
    ----------
    L, p_hat, alpha, eta
        Smoothness of the f_i, smallest probability of a client, step sizes.
    gammas
        Those of the analysis; ``Gammas()`` for an exact prox. Without them, the ones with the smallest
        C1 gap + (C2 + C3) M are taken (`best_gammas`), which are all zero for M = 0.
    gap, M
        Weights of that choice; not used when gammas are given.

    Examples
    --------
    Corollary 3.1 for L = 1 and n = 10:

    >>> c = constants(L=1.0, p_hat=0.1, alpha=1.0, eta=1 / 3)
    >>> round(c.beta, 12), round(c.C1, 9)
    (0.06, 533.333333333)
    """
    checks.probability(p_hat)
    checks.relaxation(alpha)
    if gammas is None:
        gammas = best_gammas(L, p_hat, alpha, eta, gap=gap, M=M)
    u = L * eta
    d = descent(alpha, eta, L, gammas.gamma4)
    where = f"for alpha = {alpha:.6g}, L = {L:.6g}, gamma4 = {gammas.gamma4:.6g}"
    checks.stepsize(eta, eta_max(alpha, L, gammas.gamma4), where, d)
    beta = p_hat * alpha * d / (2 * eta * (1 + gammas.gamma1) * (1 + u**2))
    C1 = 2 * (1 + u) ** 2 * (1 + gammas.gamma2) / (eta**2 * beta)
    if gammas.exact:
        return Constants(L, p_hat, alpha, eta, gammas, d, beta, 0.0, 0.0, C1, 0.0, 0.0)
    rho2 = 2 * (1 + u) ** 2 / (gammas.gamma4 * eta * alpha**2) + (1 + u**2) / eta + d / (alpha * eta * gammas.gamma1)
    rho1 = rho2 + (1 + u**2) / eta
    C2 = rho1 * C1 + (1 + u) ** 2 * (1 + gammas.gamma2) / (eta**2 * gammas.gamma2)
    return Constants(L, p_hat, alpha, eta, gammas, d, beta, rho1, rho2, C1, C2, rho2 * C1)


def best_gammas(L: float, p_hat: float, alpha: float, eta: float, *, gap: float, M: float) -> Gammas:
    """Return the gammas that minimise C1 gap + (C2 + C3) M for given step sizes, all zero for M = 0.

    The minimum is explicit. In gamma1 and gamma2 the objective has the shape (1 + t) a + (1 + 1/t) b, with the
    minimum at t = sqrt(b / a); at the best gamma1 it grows with (s + r / gamma4) / (d0 - q gamma4), whose minimum
    solves a quadratic equation.
    """
    checks.probability(p_hat)
    checks.positive("gap", gap)
    checks.nonnegative("M", M)
    u = L * eta
    d0, q = descent(alpha, eta, L), 4 * alpha * (1 + u**2)
    checks.stepsize(eta, eta_max(alpha, L), f"for alpha = {alpha:.6g}, L = {L:.6g}", d0)
    if M == 0:
        return Gammas()
    # Any positive gammas are valid; those of this M, against which the gap is everything, keep clear of underflow.
    M = max(M, 1e-24 * gap * eta)
    s, r = gap + 3 * M * (1 + u**2) / eta, 4 * M * (1 + u) ** 2 / (eta * alpha**2)
    gamma4 = d0 * r / (q * r + math.sqrt((q * r) ** 2 + q * r * s * d0))
    d = d0 - q * gamma4
    a, b = s + r / gamma4, 2 * d * M / (alpha * eta)
    gamma1 = math.sqrt(b / a)
    a = 4 * (1 + u) ** 2 * (1 + u**2) * (1 + gamma1) / (p_hat * alpha * eta * d) * (a + b / gamma1)
    gamma2 = math.sqrt(M * ((1 + u) / eta) ** 2 / a)
    return Gammas(gamma1, gamma2, gamma4)


def corollary(L: float, n: int) -> Constants:
    """Return Corollary 3.1: one of n clients a round, exact prox, alpha = 1, eta = 1/(3L), C1 = 160 L n / 3."""
    checks.positive("L", L)
    checks.count("n", n, 1)
    return constants(L, 1 / n, 1.0, 1 / (3 * L), Gammas())


def error_budget(start: float, later: float, p_hat: float) -> float:
    """Return M = start / p_hat + later, a bound on the expected (1/n) sum_i sum_k eps_{i,k}^2.

    A client that is not sampled keeps its error. An error of round k >= 1 is made with probability p_i and then stays
    1/p_i rounds on average, so it counts once; the error of the start is made for certain and counts 1/p_i times.
    The printed schedule eps_{i,k}^2 = M / (2 (k+1)^2) therefore sums to (M/2) (1/p_i + pi^2/6 - 1), not to at most M,
    unless everyone takes part.

    Parameters
    ----------
    start
        (1/n) sum_i eps_{i,0}^2; for the lazy start (1/n) sum_i ||x^0 - prox_{eta f_i}(x^0)||^2.
    later
        (1/n) sum_i sum_{k >= 1} s_{i,k}, with s_{i,k} the squared accuracy that client i has to reach in round k.
    p_hat
        Smallest probability of a client.
    """
    checks.nonnegative("start", start)
    checks.nonnegative("later", later)
    checks.probability(p_hat)
    return start / p_hat + later
