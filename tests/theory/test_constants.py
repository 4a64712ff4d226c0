"""Constants, bounds, numbers of rounds and recommendations."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr.theory import Gammas, asynchronous, recommend_for, relative, synchronous

unit = st.floats(0.01, 0.99)
smoothness = st.floats(1e-2, 1e2)
some = settings(max_examples=100, deadline=None)


@some
@given(smoothness, st.integers(1, 1000))
def test_corollary_is_the_special_case(L: float, n: int) -> None:
    c = synchronous.corollary(L, n)
    assert c.beta == pytest.approx(3 * L / (5 * n), rel=1e-12)
    assert pytest.approx(160 * L * n / 3, rel=1e-12) == c.C1
    assert (c.rho1, c.rho2, c.C2, c.C3) == (0, 0, 0, 0)
    assert c.bound(9, gap=3.0) == pytest.approx(16 * L * n, rel=1e-12)


@some
@given(unit, unit, smoothness, unit, st.floats(1e-3, 1e3), st.floats(0, 10))
def test_rounds_are_enough_and_half_of_them_are_not(
    s: float, t: float, L: float, p: float, gap: float, M: float
) -> None:
    c = synchronous.constants(L, p, 2 * s, t * synchronous.eta_max(2 * s, L), gap=gap, M=M)
    epsilon = math.sqrt(c.total(gap, M) / 1234.5)
    K = c.rounds(epsilon, gap, M)
    assert K == 1234
    assert c.bound(K, gap, M) <= epsilon**2 < c.bound(K // 2, gap, M)
    assert c.rounds(epsilon / 2, gap, M) == pytest.approx(4 * K, abs=4)


def test_rounds_of_the_other_theorems() -> None:
    c = relative.constants(1.0, 0.5, 0.2, 1e-4)
    d = asynchronous.constants(1.0, 10, 0.1, 0.3, 0.2, tau=5, T=3)
    assert c.bound(c.rounds(0.1, 2.0), 2.0) <= 0.01 < c.bound(c.rounds(0.1, 2.0) // 2, 2.0)
    assert d.bound(d.rounds(0.1, 2.0), 2.0) <= 0.01 < d.bound(d.rounds(0.1, 2.0) // 2, 2.0)


@some
@given(unit, unit, smoothness, unit, st.floats(0.01, 10))
def test_constants_scale_as_their_units_demand(s: float, t: float, L: float, p: float, M: float) -> None:
    """f -> c f scales L, 1/eta, beta and the rhos by c, C1 by c, C2 and C3 by c^2; p_hat enters C1 as 1/p_hat."""
    eta = t * synchronous.eta_max(2 * s, L)
    a = synchronous.constants(L, p, 2 * s, eta, gap=1.0, M=M)
    b = synchronous.constants(3 * L, p, 2 * s, eta / 3, a.gammas)
    assert b.gammas == a.gammas
    assert (b.beta, b.rho1, b.rho2, b.C1) == pytest.approx((3 * a.beta, 3 * a.rho1, 3 * a.rho2, 3 * a.C1))
    assert pytest.approx((9 * a.C2, 9 * a.C3)) == (b.C2, b.C3)
    assert pytest.approx(2 * a.C1) == synchronous.constants(L, p / 2, 2 * s, eta, a.gammas).C1


@some
@given(unit, unit, smoothness, unit, st.floats(1e-4, 1e4), st.tuples(*[st.floats(-0.2, 0.2)] * 3))
def test_best_gammas_are_not_beaten(
    s: float, t: float, L: float, p: float, ratio: float, nudge: tuple[float, float, float]
) -> None:
    alpha = 2 * s
    eta, M = t * synchronous.eta_max(alpha, L), ratio / L
    best = synchronous.constants(L, p, alpha, eta, gap=1.0, M=M)
    g = best.gammas
    values = [gamma * math.exp(x) for gamma, x in zip((g.gamma1, g.gamma2, g.gamma4), nudge, strict=True)]
    if synchronous.descent(alpha, eta, L, values[2]) > 0:
        other = synchronous.constants(L, p, alpha, eta, Gammas(*values))
        assert best.total(1.0, M) <= other.total(1.0, M) * (1 + 1e-12)
    exact = synchronous.constants(L, p, alpha, eta)
    assert exact.total(1.0) <= best.total(1.0, M)
    vanishing = synchronous.constants(L, p, alpha, eta, gap=1.0, M=1e-14 / L)
    assert vanishing.total(1.0, 1e-14 / L) == pytest.approx(exact.total(1.0), rel=1e-3)


@some
@given(unit, unit, smoothness, unit, st.tuples(*[st.floats(-0.2, 0.2)] * 3))
def test_best_relative_gammas_are_not_beaten(
    s: float, t: float, L: float, p: float, nudge: tuple[float, float, float]
) -> None:
    theta = s * relative.THETA_LIMIT
    eta = t * relative.eta_max(theta, L)
    best = relative.constants(L, p, eta, theta)
    g = best.gammas
    values = [gamma * math.exp(x) for gamma, x in zip((g.gamma1, g.gamma2, g.gamma4), nudge, strict=True)]
    if relative.descent(eta, L, theta, values[2]) > 0:
        assert best.C <= relative.constants(L, p, eta, theta, Gammas(*values)).C * (1 + 1e-12)


@some
@given(unit, smoothness, unit)
def test_relative_accuracy_tends_to_the_exact_theorem(t: float, L: float, p: float) -> None:
    eta = t * synchronous.eta_max(1.0, L)
    exact = synchronous.constants(L, p, 1.0, eta).C1
    theta = 1e-14 * (1 - t) ** 2
    assert exact < relative.constants(L, p, eta, theta).C < exact * (1 + 1e-3)


def test_papers_gammas_give_the_reciprocal_of_the_printed_constant() -> None:
    """At p_hat = 1 and theta_hat -> 0, where the other two differences vanish."""
    L, eta, theta, gamma4 = 1.0, 0.2, 1e-12, 0.05
    c = relative.constants(L, 1.0, eta, theta, Gammas(1.0, 1.0, gamma4))
    printed = eta * c.descent / (4 * (4 * (1 + eta**2 + 2 * theta) + theta) * (1 + eta) ** 2)
    assert pytest.approx(1 / printed) == c.C


def test_errors_one_by_one_and_in_sum_agree() -> None:
    c = synchronous.constants(2.0, 0.5, 0.8, 0.1, gap=1.0, M=0.1)
    assert c.bound_for_errors(1.0, [0.0, 0.0, 0.0]) == pytest.approx(c.bound(1, 1.0))
    first, last = c.bound_for_errors(0.0, [1.0, 0.0, 0.0]), c.bound_for_errors(0.0, [0.0, 0.0, 1.0])
    assert (2 * first, 2 * last) == pytest.approx((c.C2, c.C3))
    assert c.bound_for_errors(1.0, [0.1, 0.2, 0.3]) <= c.bound(1, 1.0, 0.6)
    # The error of round k also blurs the gradient mapping of round k: this part belongs to C2.
    g = c.gammas
    assert c.rho1 * c.C1 + (1.2 / 0.1) ** 2 * (1 + g.gamma2) / g.gamma2 == pytest.approx(c.C2)
    assert c.rho2 * c.C1 == pytest.approx(c.C3)
    with pytest.raises(ValueError, match="exact prox"):
        synchronous.corollary(1.0, 3).bound(1, 1.0, M=0.1)
    with pytest.raises(ValueError, match="at least two"):
        c.bound_for_errors(1.0, [0.1])


def test_error_budget_is_the_expected_sum_when_clients_keep_their_errors() -> None:
    rng = np.random.default_rng(0)
    p, K, runs = 0.3, 400, 4000
    schedule = 0.5 / (1 + np.arange(K)) ** 2
    error, total = np.full(runs, schedule[0]), np.zeros(runs)
    for k in range(K):
        error = np.where((k > 0) & (rng.random(runs) < p), schedule[k], error)
        total += error
    budget = synchronous.error_budget(schedule[0], float(schedule[1:].sum()), p)
    assert total.mean() == pytest.approx(budget, abs=4 * total.std() / math.sqrt(runs))
    assert budget > 1.5  # the printed claim is that these accuracies, for M = 1, sum to at most 1


def test_delays_windows_and_rare_clients_cost_rounds() -> None:
    def C_hat(n: int = 20, p: float = 0.05, tau: int = 2, T: int = 0) -> float:
        return asynchronous.constants(1.0, n, p, 0.3, 0.2, tau=tau, T=T).C_hat

    assert C_hat() < C_hat(tau=3) < C_hat(tau=9)
    assert C_hat() < C_hat(T=1) < C_hat(T=5)
    assert C_hat() < C_hat(p=0.04)
    # D as printed in the main text; the two forms of the paper agree.
    c = asynchronous.constants(2.0, 20, 0.05, 0.3, 0.1, tau=9, T=5)
    u2, ap, n2 = 0.04, 0.3**2, 20**2
    numerator = 8 * ap * (1 + u2) * (81 + 2 * 5 * 20 * 0.05) + 8 * n2 * (1 + u2 + 5 * ap * 0.05)
    assert pytest.approx(numerator / (0.05 * ap * n2)) == c.D


@pytest.mark.parametrize("options", [{"exact": True}, {}, {"M": 1e-3}, {"M": 10.0, "gap": 0.1}])
def test_recommended_synchronous_pair_is_admissible_and_not_worse_than_a_grid(options: dict[str, Any]) -> None:
    L, p = 3.0, 0.4
    best = recommend_for(L, 10, p, **options)
    gap = options.get("gap", 1.0)
    M = 0.0 if "exact" in options else options.get("M", gap / L)
    assert isinstance(best.constants, synchronous.Constants)
    assert synchronous.descent(best.alpha, best.eta, L, best.gammas.gamma4) > 0
    values = [
        synchronous.constants(L, p, alpha, t * synchronous.eta_max(alpha, L), gap=gap, M=M).total(gap, M)
        for alpha in np.linspace(0, 2, 60)[1:-1].tolist()
        for t in np.linspace(0, 1, 60)[1:-1].tolist()
    ]
    assert best.constants.total(gap, M) <= min(values) <= 1.01 * best.constants.total(gap, M)
    assert len(best.reasons) >= 4
    assert any("1/L" in reason for reason in best.reasons)


def test_recommended_exact_pair_solves_the_optimality_conditions() -> None:
    """For a given u the best alpha is 1 - u, and then C1 = 4 L (1 + u)(1 + u^2) / (p u (1 - u)^2)."""
    best = recommend_for(2.0, 10, 0.1, exact=True)
    u = 2.0 * best.eta
    assert best.alpha == pytest.approx(1 - u, abs=1e-6)
    assert 1 / (1 + u) + 2 * u / (1 + u**2) - 1 / u + 2 / (1 - u) == pytest.approx(0, abs=1e-5)
    C1 = 4 * 2.0 * (1 + u) * (1 + u**2) / (0.1 * u * (1 - u) ** 2)
    assert best.constants.total(1.0) == pytest.approx(C1)
    assert best.constants.total(1.0) < 0.71 * 160 * 2.0 * 10 / 3


@pytest.mark.parametrize(("tau", "T", "p"), [(0, 0, 0.1), (2, 9, 1.0), (5, 0, 0.1), (40, 30, 0.5)])
def test_recommended_asynchronous_pair_is_admissible_and_not_worse_than_a_grid(tau: int, T: int, p: float) -> None:
    best = recommend_for(2.0, 10, p, tau=tau, T=T)
    assert asynchronous.descent(best.alpha, best.eta, 2.0, 10, tau) > 0
    alphas = asynchronous.alpha_max(10, tau) * np.linspace(0, 1, 60)[1:-1]
    values = [
        asynchronous.constants(2.0, 10, p, alpha, t * asynchronous.eta_max(alpha, 2.0, 10, tau), tau=tau, T=T).C_hat
        for alpha in alphas.tolist()
        for t in np.linspace(0, 1, 60)[1:-1].tolist()
    ]
    assert best.constants.total(1.0) <= min(values) <= 1.02 * best.constants.total(1.0)


def test_recommended_relative_pair_is_admissible_and_not_worse_than_a_grid() -> None:
    best = recommend_for(2.0, 10, 0.3, theta_hat=1e-3)
    largest = relative.eta_max(1e-3, 2.0)
    values = [relative.constants(2.0, 0.3, t * largest, 1e-3).C for t in np.linspace(0, 1, 300)[1:-1].tolist()]
    assert best.alpha == 1
    assert best.constants.total(1.0) <= min(values) <= 1.01 * best.constants.total(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 3}, "both tau and T"),
        ({"T": 3}, "both tau and T"),
        ({"tau": 3, "T": 9, "M": 0.1}, "exact prox"),
        ({"exact": True, "M": 0.1}, "no errors"),
        ({"theta_hat": 1e-3, "M": 0.1}, "one accuracy"),
        ({"gap": 0.0}, "gap must lie in"),
    ],
)
def test_recommend_refuses_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recommend_for(1.0, 10, 0.3, **options)
