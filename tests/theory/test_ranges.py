"""Every admissible range against its positivity condition, from both sides."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr.theory import Gammas, asynchronous, region, relative, synchronous

IN, OUT = 1 - 1e-6, 1 + 1e-6
unit = st.floats(0.001, 0.999)
smoothness = st.floats(1e-3, 1e3)
some = settings(max_examples=200, deadline=None)


@some
@given(unit, smoothness, st.floats(0, 5))
def test_synchronous_range_is_where_the_descent_is_positive(s: float, L: float, gamma4: float) -> None:
    alpha = s * synchronous.alpha_max(gamma4)
    eta = synchronous.eta_max(alpha, L, gamma4)
    assert 0 < eta < 1 / L
    assert synchronous.descent(alpha, IN * eta, L, gamma4) > 0 > synchronous.descent(alpha, OUT * eta, L, gamma4)


@some
@given(unit, smoothness, st.floats(0, 5))
def test_synchronous_root_has_the_closed_form(s: float, L: float, gamma4: float) -> None:
    a = s * synchronous.alpha_max(gamma4)
    root = math.sqrt((4 - a) ** 2 - 16 * a**2 * gamma4 * (1 + 4 * gamma4))
    assert synchronous.eta_max(a, L, gamma4) == pytest.approx((root - a) / (4 * L * (1 + 2 * a * gamma4)), rel=1e-9)
    assert synchronous.eta_max(2 * s, L) == pytest.approx((2 - 2 * s) / (2 * L), rel=1e-9)


@some
@given(smoothness, st.floats(0, 5))
def test_beyond_alpha_max_no_eta_has_a_positive_descent(L: float, gamma4: float) -> None:
    largest, tiny = synchronous.alpha_max(gamma4), 1e-9 / L
    assert synchronous.descent(IN * largest, tiny, L, gamma4) > 0 > synchronous.descent(OUT * largest, tiny, L, gamma4)


def test_the_printed_range_of_alpha_excludes_the_papers_own_corollary() -> None:
    assert (math.sqrt(17) - 1) / 4 < 1 < synchronous.alpha_max()
    assert synchronous.descent(1.0, 1 / 3, 1.0) > 0


@some
@given(unit, smoothness, unit)
def test_relative_range_for_a_given_gamma4(s: float, L: float, g: float) -> None:
    gamma4 = 0.25 * g
    theta = s * gamma4 * (1 - 4 * gamma4) / 16
    eta = relative.eta_max(theta, L, gamma4)
    assert 0 < eta < 1 / (2 * L)
    assert relative.descent(IN * eta, L, theta, gamma4) > 0 > relative.descent(OUT * eta, L, theta, gamma4)
    assert relative.theta_max(eta, L, gamma4) == pytest.approx(theta, rel=1e-6, abs=1e-12)
    inside, outside = (
        relative.descent(0.9 * eta, L, f * relative.theta_max(0.9 * eta, L, gamma4), gamma4) for f in (IN, OUT)
    )
    assert inside > 0 > outside


@some
@given(unit, smoothness)
def test_relative_range_with_the_best_gamma4(s: float, L: float) -> None:
    theta = s * relative.THETA_LIMIT
    eta = relative.eta_max(theta, L)
    grid = np.linspace(0, 0.25, 801)[1:-1]
    assert relative.descent(IN * eta, L, theta, relative.best_gammas(L, 1.0, IN * eta, theta).gamma4) > 0
    assert all(relative.descent(OUT * eta, L, theta, float(gamma4)) < 0 for gamma4 in grid)


def test_no_gamma4_admits_theta_at_its_limit() -> None:
    grid = np.linspace(0, 0.25, 801)[1:-1]
    for factor, admitted in ((IN, True), (OUT, False)):
        theta = factor * relative.THETA_LIMIT
        assert any(relative.descent(1e-12, 1.0, theta, float(gamma4)) > 0 for gamma4 in grid) == admitted


@some
@given(unit, smoothness, st.integers(1, 200), st.integers(0, 60))
def test_asynchronous_range_is_where_the_descent_is_positive(s: float, L: float, n: int, tau: int) -> None:
    largest = asynchronous.alpha_max(n, tau)
    alpha, tiny = s * largest, 1e-9 / L
    eta = asynchronous.eta_max(alpha, L, n, tau)
    c = asynchronous.delay_factor(n, tau)
    assert 0 < eta < 1 / L
    assert asynchronous.descent(alpha, IN * eta, L, n, tau) > 0 > asynchronous.descent(alpha, OUT * eta, L, n, tau)
    assert (
        asynchronous.descent(IN * largest, tiny, L, n, tau) > 0 > asynchronous.descent(OUT * largest, tiny, L, n, tau)
    )
    root = math.sqrt(16 - 8 * alpha - (7 + 12 * c + 4 * c**2) * alpha**2)
    assert eta == pytest.approx((root - alpha) / (2 * L * (2 + (1 + c) * alpha)), rel=1e-8)


def test_the_printed_asynchronous_formulas_by_an_example() -> None:
    """n = 10, tau = 5, alpha = 0.5, L = 1: each of the two misprints lets in step sizes that should be out."""
    n, tau, alpha = 10, 5, 0.5
    printed = (2 * tau**2 - n) / n**2

    def printed_rho(eta: float) -> float:
        numerator = n**2 * (2 * (1 - alpha) - (2 + alpha) * eta**2 - alpha * eta)
        return (numerator - alpha * (1 + eta**2) * (2 * tau**2 - n)) / (alpha * eta * n**3)

    misprinted = (math.sqrt(16 - 8 * alpha - (7 + 4 * printed + 4 * printed**2) * alpha**2) - alpha) / (
        2 * (2 + (1 + printed) * alpha)
    )
    assert misprinted == pytest.approx(0.4839, abs=1e-4)
    assert printed_rho(misprinted) < 0
    root = asynchronous.boundary(alpha, 1.0, printed)
    assert root == pytest.approx(0.4596, abs=1e-4)
    assert printed_rho(IN * root) > 0 > printed_rho(OUT * root)
    assert asynchronous.delay_factor(n, tau) == pytest.approx(2 * printed)
    assert asynchronous.eta_max(alpha, 1.0, n, tau) == pytest.approx(0.3767, abs=1e-4)


@some
@given(unit, unit, smoothness, st.integers(1, 100), st.integers(0, 20), st.floats(0, 2))
def test_ranges_shrink_with_alpha_gamma4_delay_and_L(s: float, t: float, L: float, n: int, tau: int, g: float) -> None:
    low, high = sorted((s, t))
    largest = synchronous.alpha_max(g)
    most = 1 + 1e-12  # rounding
    assert synchronous.eta_max(high * largest, L, g) <= most * synchronous.eta_max(low * largest, L, g)
    assert synchronous.eta_max(low * largest, L, g) <= most * synchronous.eta_max(low * largest, L)
    assert synchronous.eta_max(low, 2 * L) == pytest.approx(synchronous.eta_max(low, L) / 2)
    more = asynchronous.alpha_max(n, tau + 1)
    assert more <= asynchronous.alpha_max(n, tau) <= 1
    assert asynchronous.eta_max(s * more, L, n, tau + 1) <= most * asynchronous.eta_max(s * more, L, n, tau)
    assert asynchronous.eta_max(s * more, L, n, tau) <= most * synchronous.eta_max(s * more, L)


def test_region_curves_end_on_the_axes_and_agree_with_eta_max() -> None:
    curves = region(2.0, 10, (0, 2, 5, 20), gamma4=0.1, points=51)
    assert [c.label for c in curves] == ["FedDR"] + [f"asyncFedDR, tau = {tau}" for tau in (0, 2, 5, 20)]
    for curve in curves:
        assert curve.alpha.shape == curve.eta.shape == (51,)
        assert (curve.alpha[0], curve.eta[0]) == (0.0, 0.5)
        assert curve.eta[-1] == pytest.approx(0.0, abs=1e-12)
        assert np.all(np.diff(curve.eta) < 0)
    assert curves[0].eta[20] == synchronous.eta_max(float(curves[0].alpha[20]), 2.0, 0.1)
    assert curves[3].eta[20] == asynchronous.eta_max(float(curves[3].alpha[20]), 2.0, 10, 5)
    assert np.array_equal(curves[1].eta, curves[2].eta)  # 2 tau^2 <= n costs nothing
    with pytest.raises(ValueError, match="number of clients"):
        region(1.0, taus=(3,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synchronous.constants(1.0, 0.5, 2.0, 0.1), r"alpha must lie in \(0, 2\), got 2.0"),
        (lambda: synchronous.constants(1.0, 0.5, 0.0, 0.1), r"alpha must lie in \(0, 2\), got 0.0"),
        (lambda: synchronous.constants(1.0, 0.5, math.nan, 0.1), r"alpha must lie in \(0, 2\), got nan"),
        (lambda: synchronous.constants(1.0, 0.5, 1.0, 0.0), r"eta must lie in \(0, 0.5\).*got 0.0"),
        (lambda: synchronous.constants(1.0, 0.5, 1.0, -1.0), r"eta must lie in \(0, 0.5\).*got -1.0"),
        (lambda: synchronous.constants(1.0, 0.5, 1.0, 0.5), r"eta must lie in \(0, 0.5\).*got 0.5"),
        (lambda: synchronous.constants(1.0, 0.5, 1.5, 0.1, Gammas(1.0, 1.0, 0.2)), r"alpha must lie in \(0, 1.11111\)"),
        (lambda: synchronous.constants(1.0, 0.0, 1.0, 0.1), r"p_hat must lie in \(0, 1\], got 0.0"),
        (lambda: synchronous.constants(1.0, 1.1, 1.0, 0.1), r"p_hat must lie in \(0, 1\], got 1.1"),
        (lambda: synchronous.constants(0.0, 0.5, 1.0, 0.1), r"L must lie in \(0, inf\), got 0.0"),
        (lambda: synchronous.constants(math.inf, 0.5, 1.0, 0.1), r"L must lie in \(0, inf\), got inf"),
        (lambda: synchronous.corollary(1.0, 0), r"n must be a whole number >= 1, got 0"),
        (lambda: Gammas(1.0, 0.0, 1.0), r"all in \(0, inf\), or all 0"),
        (lambda: relative.eta_max(0.004, 1.0), r"theta_hat must lie in \(0, 0.00390625\), got 0.004"),
        (lambda: relative.eta_max(1e-4, 1.0, 0.3), r"gamma4 must lie in \(0, 0.25\).*got 0.3"),
        (lambda: relative.constants(1.0, 0.5, 0.6, 1e-4), r"eta must lie in \(0, 0.41\d+\).*got 0.6"),
        (lambda: relative.constants(1.0, 0.5, 0.1, 1e-4, Gammas()), r"gammas in \(0, inf\)"),
        (lambda: asynchronous.constants(1.0, 10, 0.1, 1.0, 0.1, tau=1, T=0), r"alpha must lie in \(0, 1\).*got 1.0"),
        (
            lambda: asynchronous.constants(1.0, 10, 0.1, 0.5, 0.5, tau=5, T=0),
            r"eta must lie in \(0, 0.3767\d+\).*got 0.5",
        ),
        (
            lambda: asynchronous.constants(1.0, 10, 0.1, 0.5, 0.1, tau=-1, T=0),
            r"tau must be a whole number >= 0, got -1",
        ),
        (lambda: asynchronous.constants(1.0, 10, 0.1, 0.5, 0.1, tau=1, T=-1), r"T must be a whole number >= 0, got -1"),
        (lambda: asynchronous.constants(1.0, 0, 0.1, 0.5, 0.1, tau=1, T=0), r"n must be at least 1, got 0"),
        (lambda: asynchronous.constants(1.0, 10, 0.2, 0.5, 0.1, tau=1, T=0), r"p_hat must lie in \(0, 0.1\].*got 0.2"),
    ],
)
def test_bad_arguments_are_told_the_range_and_the_value(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()


def test_the_last_numbers_below_a_limit_are_refused_or_have_a_bound() -> None:
    """Rounding may leave a descent of zero or less there, which would divide by zero or make a negative bound."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        L, alpha, p = float(10 ** rng.uniform(-3, 3)), float(rng.uniform(0.01, 1.99)), float(rng.uniform(0.1, 1))
        sync = math.nextafter(synchronous.eta_max(alpha, L), 0.0)
        late = math.nextafter(asynchronous.eta_max(alpha / 2, L, 10, 2), 0.0)
        near = math.nextafter(relative.eta_max(1e-3 * alpha, L), 0.0)
        for constants in (
            lambda: synchronous.constants(L, p, alpha, sync),  # noqa: B023
            lambda: synchronous.constants(L, p, alpha, sync, M=1e-9),  # noqa: B023
            lambda: relative.constants(L, p, near, 1e-3 * alpha),  # noqa: B023
            lambda: asynchronous.constants(L, 10, p / 10, alpha / 2, late, tau=2, T=0),  # noqa: B023
        ):
            try:
                assert 0 < constants().total(1.0) < math.inf
            except ValueError:
                refused += 1
    assert 0 < refused < 600
