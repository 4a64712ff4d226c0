"""Algorithm 2, one client at a time with a stale xbar (Tran-Dinh et al. 2021, Theorem 4.1).

The active client works from xbar^{k-d} with d <= tau, its prox is exact, and in each window of T + 1 updates every
client has once a probability of at least p_hat to be the active one (uniform draws: T = 0, p_hat = 1/n; round robin:
T = n - 1, p_hat = 1). With u = L eta and c = max{0, 2 (2 tau^2 - n) / n^2}, what must be positive is

    d = 2 - (2 + c) alpha - alpha u - (2 + (1 + c) alpha) u^2,

and then, with rho = d / (alpha eta n) and the Lyapunov value

    Vt^k = V^k + tau / (n eta) sum_{l=k-tau..k-1} (l - (k - tau) + 1) ||xbar^{l+1} - xbar^l||^2,

    Vt^{k+1} <= Vt^k - (rho / 2) ||x_i^{k+1} - x_i^k||^2 surely, and
    sum_{k=0..K} E ||G_eta(xbar^k)||^2 <= C_hat gap,   C_hat = 2 (1 + u)^2 (T + 1) D / (n eta^2 rho).

See :mod:`feddr.theory` for how c, C_hat and Vt differ from the printed ones. With weights w_i other than 1/n the step
sizes stay admissible with n replaced by 1 / max_i w_i, so n need not be whole; the constants are for equal weights.
"""

import math
from dataclasses import dataclass

from feddr.theory import checks
from feddr.theory.rate import Rate


def delay_factor(n: float, tau: int) -> float:
    """Return c = max{0, 2 (2 tau^2 - n) / n^2}: what delays cost; nothing while 2 tau^2 <= n."""
    checks.clients(n)
    checks.count("tau", tau, 0)
    return max(0.0, 2 * (2 * tau**2 - n) / n**2)


def descent(alpha: float, eta: float, L: float, n: float, tau: int) -> float:
    """Return d = 2 - (2 + c) alpha - alpha L eta - (2 + (1 + c) alpha) (L eta)^2; admissible means d > 0."""
    c, u = delay_factor(n, tau), L * eta
    return 2 - (2 + c) * alpha - alpha * u - (2 + (1 + c) * alpha) * u**2


def alpha_max(n: float, tau: int) -> float:
    """Return 2 / (2 + c): below it, and only there, some eta > 0 has a positive descent."""
    return 2 / (2 + delay_factor(n, tau))


def eta_max(alpha: float, L: float, n: float, tau: int) -> float:
    """Return the largest eta for alpha: the positive root of the descent, which is always below 1/L.

    It is (sqrt(16 - 8 alpha - (7 + 12 c + 4 c^2) alpha^2) - alpha) / (2 L (2 + (1 + c) alpha)); the paper prints 4 c
    for 12 c.
    """
    checks.positive("L", L)
    checks.relaxation(alpha, alpha_max(n, tau), f" for n = {n:.6g}, tau = {tau}")
    return boundary(alpha, L, delay_factor(n, tau))


def boundary(alpha: float, L: float, c: float) -> float:
    """Return the formula of `eta_max`, also in its limits 1/L at alpha = 0 and 0 at alpha = alpha_max."""
    # The root written as 2 r / (b + sqrt(b^2 + 4 a r)): no cancellation near alpha_max, where rounding may leave r < 0.
    r = max(0.0, 2 - (2 + c) * alpha)
    return 2 * r / (L * (alpha + math.sqrt(alpha**2 + 4 * (2 + (1 + c) * alpha) * r)))


@dataclass(frozen=True)
class AsyncConstants(Rate):
    """Constants of Theorem 4.1; made by `constants`. K counts updates, one client each.

    Examples
    --------
    >>> c = constants(L=1.0, n=10, p_hat=0.1, alpha=0.5, eta=0.2, tau=2, T=0)
    >>> c.bound(K=1000, gap=1.0) < c.bound(K=100, gap=1.0)
    True
    """

    L: float
    n: float
    p_hat: float
    tau: int
    T: int
    alpha: float
    eta: float
    descent: float
    rho: float
    D: float
    C_hat: float

    def total(self, gap: float) -> float:
        """Return C_hat gap."""
        checks.nonnegative("gap", gap)
        return self.C_hat * gap


def constants(L: float, n: float, p_hat: float, alpha: float, eta: float, *, tau: int, T: int) -> AsyncConstants:
    """Return the constants of Theorem 4.1.

    Parameters
    ----------
    L, n, alpha, eta
        Smoothness of the f_i, number of clients, step sizes.
    p_hat, T
        In each window of T + 1 updates every client has once a probability of at least p_hat to be active.
    tau
        Largest delay, counted in updates of the server.

    Examples
    --------
    >>> c = constants(L=1.0, n=10, p_hat=0.1, alpha=0.5, eta=0.2, tau=2, T=0)
    >>> round(c.rho, 12)
    0.8
    """
    checks.probability(p_hat)
    checks.count("T", T, 0)
    checks.clients(n)
    # The probabilities of one update sum to 1, those of a window to T + 1, and each client has p_hat of it.
    if p_hat * n > (T + 1) * (1 + 1e-9):
        raise ValueError(
            f"p_hat must lie in (0, {(T + 1) / n:.6g}] for n = {n:.6g}, T = {T}, got {p_hat}; one client comes at a "
            "time, so uniform draws have p_hat = 1/n."
        )
    u = L * eta
    d = descent(alpha, eta, L, n, tau)
    where = f"for alpha = {alpha:.6g}, L = {L:.6g}, n = {n:.6g}, tau = {tau}"
    checks.stepsize(eta, eta_max(alpha, L, n, tau), where, d)
    rho = d / (alpha * eta * n)
    D = 8 * (1 + u**2) * (alpha**2 * tau**2 + n**2) / (p_hat * alpha**2 * n**2) + 8 * T * (2 * (1 + u**2) + n) / n
    C_hat = 2 * (1 + u) ** 2 * (T + 1) * D / (n * eta**2 * rho)
    return AsyncConstants(L, n, p_hat, tau, T, alpha, eta, d, rho, D, C_hat)
