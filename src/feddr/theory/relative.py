"""Algorithm 1 with relative accuracies (Tran-Dinh et al. 2021, the appendix's theorem on relative errors).

A client stops at ||x_i^{k+1} - prox_{eta f_i}(y_i^{k+1})||^2 <= theta_i ||x_i^{k+1} - x_i^k||^2 with
theta_i = theta_hat p_i; alpha = 1, and the start is exact. With u = L eta and
C_hat = max{1 + u^2, 2 (1 + u)^2 / gamma4}, the descent

    d = 1 - u - 2 u^2 - 4 gamma4 (1 + u^2) - 8 C_hat theta_hat

must be positive, and then sum_{k=0..K} E ||G_eta(xbar^k)||^2 <= C gap with

    C = 2 (1 + u)^2 / (eta d) [ 2 (1 + u^2) (1 + gamma1) (1 + 4 theta_hat / gamma1) (1 + gamma2) / p_hat
                                + theta_hat (1 + 1 / gamma2) ].

The paper takes gamma1 = gamma2 = 1; here all three gammas are free. See :mod:`feddr.theory` for how the printed
constant differs.
"""

import math
from dataclasses import dataclass

from feddr.theory import checks
from feddr.theory.rate import Rate
from feddr.theory.synchronous import Gammas

THETA_LIMIT = 1 / 256
"""Limit of theta_hat: d > 0 needs theta_hat < gamma4 (1 - 4 gamma4) / 16, which is largest at gamma4 = 1/8."""


def error_factor(eta: float, L: float, gamma4: float) -> float:
    """Return C_hat = max{1 + (L eta)^2, 2 (1 + L eta)^2 / gamma4}."""
    checks.positive("gamma4", gamma4)
    u = L * eta
    return max(1 + u**2, 2 * (1 + u) ** 2 / gamma4)


def descent(eta: float, L: float, theta_hat: float, gamma4: float) -> float:
    """Return d = 1 - u - 2 u^2 - 4 gamma4 (1 + u^2) - 8 C_hat theta_hat with u = L eta; admissible means d > 0."""
    u = L * eta
    return 1 - u - 2 * u**2 - 4 * gamma4 * (1 + u**2) - 8 * error_factor(eta, L, gamma4) * theta_hat


def theta_max(eta: float, L: float, gamma4: float) -> float:
    """Return the theta_hat at which the descent is zero; not positive where eta or gamma4 is too large already."""
    checks.positive("L", L)
    checks.positive("eta", eta)
    return descent(eta, L, 0.0, gamma4) / (8 * error_factor(eta, L, gamma4))


def eta_max(theta_hat: float, L: float, gamma4: float | None = None) -> float:
    """Return the largest eta for theta_hat: the positive root of the descent, which is below 1/(2L).

    The printed root contains C_hat and so eta itself. A positive descent needs gamma4 < 1/4, where
    C_hat = 2 (1 + u)^2 / gamma4 and the condition is quadratic in eta: with t = 16 theta_hat / gamma4,

        (2 + 4 gamma4 + t) u^2 + (1 + 2 t) u < 1 - 4 gamma4 - t.

    Without gamma4 the best one for each eta is taken, and the condition is 1 - 2 u > 16 sqrt(theta_hat (1 + u^2)).
    """
    checks.positive("L", L)
    _check_theta(theta_hat, gamma4)
    if gamma4 is None:
        s = 16 * math.sqrt(theta_hat)
        return (1 - s**2) / (L * (2 + s * math.sqrt(5 - s**2)))
    t = 16 * theta_hat / gamma4
    a, b, c = 2 + 4 * gamma4 + t, 1 + 2 * t, 1 - 4 * gamma4 - t
    return 2 * c / (L * (b + math.sqrt(b**2 + 4 * a * c)))


def best_gammas(L: float, p_hat: float, eta: float, theta_hat: float) -> Gammas:
    """Return the gammas with the smallest C, each of them explicit.

    gamma1 = 2 sqrt(theta_hat), gamma4 = 2 (1 + u) sqrt(theta_hat / (1 + u^2)), and gamma2 balances the two terms of C.
    """
    checks.probability(p_hat)
    largest = eta_max(theta_hat, L)
    u, root = L * eta, math.sqrt(theta_hat)
    gamma4 = 2 * (1 + u) * root / math.sqrt(1 + u**2)
    d = descent(eta, L, theta_hat, gamma4)
    checks.stepsize(eta, largest, f"for L = {L:.6g}, theta_hat = {theta_hat:.6g}", d)
    progress = 2 * (1 + u**2) * (1 + 2 * root) ** 2 / p_hat
    return Gammas(2 * root, math.sqrt(theta_hat / progress), gamma4)


@dataclass(frozen=True)
class RelativeConstants(Rate):
    """Constants of the theorem on relative accuracies; made by `constants`. The errors are inside C: there is no M.

    Examples
    --------
    >>> c = constants(L=1.0, p_hat=0.5, eta=0.2, theta_hat=1e-4)
    >>> c.bound(K=1000, gap=1.0) < c.bound(K=100, gap=1.0)
    True
    """

    L: float
    p_hat: float
    alpha: float
    eta: float
    theta_hat: float
    gammas: Gammas
    C_hat: float
    descent: float
    C: float

    def total(self, gap: float) -> float:
        """Return C gap."""
        checks.nonnegative("gap", gap)
        return self.C * gap


def constants(L: float, p_hat: float, eta: float, theta_hat: float, gammas: Gammas | None = None) -> RelativeConstants:
    """Return the constants for the relative accuracy theta_i = theta_hat p_i.

    Parameters
    ----------
    L, p_hat, eta
        Smoothness of the f_i, smallest probability of a client, step size (alpha is 1).
    theta_hat
        Relative accuracy, in (0, 1/256).
    gammas
        Positive; without them those with the smallest C. The paper's are ``Gammas(1.0, 1.0, gamma4)``.

    Examples
    --------
    >>> c = constants(L=1.0, p_hat=0.5, eta=0.2, theta_hat=1e-4)
    >>> c.descent > 0
    True
    """
    if gammas is None:
        gammas = best_gammas(L, p_hat, eta, theta_hat)
    if gammas.exact:
        raise ValueError(f"Relative accuracies need gammas in (0, inf), got {gammas}; use theory.synchronous if exact.")
    checks.probability(p_hat)
    u = L * eta
    d = descent(eta, L, theta_hat, gammas.gamma4)
    where = f"for L = {L:.6g}, theta_hat = {theta_hat:.6g}, gamma4 = {gammas.gamma4:.6g}"
    checks.stepsize(eta, eta_max(theta_hat, L, gammas.gamma4), where, d)
    steps = 2 * (1 + u**2) * (1 + gammas.gamma1) * (1 + 4 * theta_hat / gammas.gamma1) / p_hat
    errors = theta_hat / gammas.gamma2
    C = 2 * (1 + u) ** 2 * (1 + gammas.gamma2) * (steps + errors) / (eta * d)
    return RelativeConstants(L, p_hat, 1.0, eta, theta_hat, gammas, error_factor(eta, L, gammas.gamma4), d, C)


def _check_theta(theta_hat: float, gamma4: float | None) -> None:
    if gamma4 is not None and not 0 < gamma4 < 0.25:
        raise ValueError(f"gamma4 must lie in (0, 0.25) for relative accuracies, got {gamma4}; take 0.125.")
    limit = THETA_LIMIT if gamma4 is None else gamma4 * (1 - 4 * gamma4) / 16
    if not 0 < theta_hat < limit:
        raise ValueError(
            f"theta_hat must lie in (0, {limit:.6g}), got {theta_hat}; a smaller one means more exact local solves."
        )
