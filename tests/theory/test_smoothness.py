"""Smoothness: exact where the loss is known, an estimate within 5 % elsewhere."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import feddr
from feddr.theory import asynchronous, recommend, recommend_for, smoothness
from tests.conftest import make_classes, make_regression
from tests.nonconvex_problems import make


def hessian_eigenvalues(x: Any, scale: float = 1.0) -> Any:
    return scale * np.linalg.eigvalsh(x.T @ x / len(x))


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


@pytest.mark.parametrize("dimension", [3, 35, 120])
def test_least_squares_is_estimated_within_five_per_cent(dimension: int) -> None:
    data = make_regression((9, 200, 60), dimension, seed=0)
    found = smoothness(feddr.Problem(squares, data, np.zeros(dimension)))
    truth = [hessian_eigenvalues(data.train.client(i)["x"])[-1] for i in range(3)]
    assert not found.exact
    assert found.per_client == pytest.approx(truth, rel=0.05)
    assert pytest.approx(max(truth), rel=0.05) == found.L
    assert "estimate" in str(found)


def test_linear_models_are_known_exactly() -> None:
    regression = make_regression((9, 40), 5, seed=0)
    found = smoothness(feddr.Problem.regression(feddr.models.linear(5), regression))
    for i in range(2):
        with_bias: Any = np.column_stack(
            [regression.train.client(i)["x"], np.ones(len(regression.train.client(i)["y"]))]
        )
        assert found.per_client[i] == pytest.approx(hessian_eigenvalues(with_bias)[-1], rel=1e-12)
    assert found.exact
    assert "estimate" not in str(found)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_logistic_bounds_hold_and_are_reached(classes: int) -> None:
    """The bounds exceed the curvature wherever one looks; binary logistic regression reaches its own at zero."""
    data = make_classes((13, 30), 4, 2, seed=1)
    model = feddr.models.linear(4) if classes == 2 else feddr.models.softmax(4, classes)
    known = feddr.Problem.classification(model, data)
    unknown = feddr.Problem(known.loss, data, known.init)
    bounds = smoothness(known)
    assert bounds.exact
    estimate = smoothness(unknown, radius=1.0, draws=5)
    assert np.all(estimate.uppers <= bounds.uppers * (1 + 1e-9))
    assert np.all(estimate.lowers >= -1e-9)
    if classes == 2:
        assert smoothness(unknown).uppers == pytest.approx(bounds.uppers, rel=1e-6)
    else:
        # Two equal classes far above the third have probabilities 1/2, 1/2, 0, where the bound is reached.
        bias = np.array([0.0, 0.0, -50.0])
        at = smoothness(unknown, [{"weight": np.zeros((4, 3)), "bias": bias}])
        assert at.uppers == pytest.approx(bounds.uppers, rel=1e-6)


def test_points_and_radius_widen_an_estimate() -> None:
    problem = make(0, known=False)
    bounds = smoothness(make(0))
    start, around = smoothness(problem), smoothness(problem, [np.zeros(4)], radius=0.5, draws=6)
    assert around.L >= start.L
    assert around.lower <= start.lower
    assert np.all(around.uppers <= bounds.uppers * (1 + 1e-6))
    assert np.all(around.lowers >= bounds.lowers * (1 + 1e-6))
    with pytest.raises(ValueError, match="radius"):
        smoothness(problem, radius=-1.0)


def test_the_recommendation_for_a_problem_is_admissible_and_says_why() -> None:
    problem = make(0)
    best = recommend(problem, feddr.sampling.Uniform(2))
    L = smoothness(problem).L
    assert 0 < best.alpha < 2
    assert 0 < best.eta < feddr.theory.synchronous.eta_max(best.alpha, L)
    assert any("is known" in reason for reason in best.reasons)
    assert any("0.5" in reason for reason in best.reasons)
    assert any("estimate" in reason for reason in recommend(make(0, known=False)).reasons)


@pytest.mark.parametrize("given", [{"alpha": 0.4}, {"alpha": 1.7}, {"eta": 0.01}, {"eta": 0.04}])
def test_the_other_step_size_is_the_best_one(given: dict[str, Any]) -> None:
    problem = make(0)
    best = recommend(problem, **given, exact=True)
    L = smoothness(problem).L
    assert (best.alpha, best.eta)[0 if "alpha" in given else 1] == next(iter(given.values()))
    total = best.constants.total(1.0)
    for factor in np.linspace(0.05, 0.95, 19):
        alpha = given.get("alpha", 2 * (1 - L * best.eta) * factor)
        eta = given.get("eta", feddr.theory.synchronous.eta_max(alpha, L) * factor)
        assert total <= feddr.theory.synchronous.constants(L, 1.0, alpha, eta).total(1.0) * (1 + 1e-9)


def test_softplus_curvature_by_hand() -> None:
    """A loss of one parameter whose second derivative is known everywhere: log(1 + e^(a x)) has a^2 p (1 - p)."""
    data = feddr.FederatedData.from_clients([{"a": np.array([3.0])}])
    problem = feddr.Problem(lambda params, batch: jnp.logaddexp(0.0, batch["a"] * params), data, np.zeros(()))
    assert pytest.approx(9 / 4, rel=1e-12) == smoothness(problem).L
    assert pytest.approx(9 / 4, rel=1e-12) == smoothness(problem, [np.asarray(2.0)]).L


def test_a_loss_that_is_flat_at_the_start_is_looked_at_further_on() -> None:
    """Every residual is beyond the width of Huber's loss at the start, whose Hessian is zero there."""
    data = make_regression((20, 20), 3, seed=0)
    shifted: Any = [{"x": c["x"], "y": np.asarray(c["y"], np.float64) + 50.0} for c in map(data.train.client, range(2))]

    def huber(params: Any, batch: Any) -> Any:
        r = jnp.abs(batch["x"] @ params["w"] + params["b"] - batch["y"])
        return jnp.where(r <= 10, 0.5 * r**2, 10 * (r - 5))

    init = {"w": np.zeros(3), "b": np.zeros(())}
    problem = feddr.Problem(huber, feddr.FederatedData.from_clients(shifted), init)
    truth = [hessian_eigenvalues(np.column_stack([c["x"], np.ones(20)]))[-1] for c in shifted]
    assert smoothness(problem).uppers == pytest.approx(truth, rel=1e-6)
    best = recommend(problem)
    assert best.eta < 1 / max(truth)
    assert "estimate" in best.reasons[0]
    assert "nothing is guaranteed" in best.reasons[0]


def test_points_of_an_earlier_run_count() -> None:
    problem = make(0, known=False)
    assert recommend(problem, points=[np.zeros(4)]).eta <= recommend(problem).eta


def test_delays_among_uneven_clients_are_those_of_the_largest_weight() -> None:
    """With max_i w_i = 0.91 delays of 2 updates cost almost all of the step size, which n = 10 would not show."""
    problem = make(0, sizes=(5,) * 10)
    uneven = dataclasses.replace(problem, weights=[91.0, *[1.0] * 9])
    choices: list[dict[str, Any]] = [{}, {"alpha": 0.1}, {"eta": 1e-3}]
    for given in choices:
        best = recommend(uneven, tau=2, T=9, **given)
        assert asynchronous.descent(best.alpha, best.eta, smoothness(uneven).L, 1 / 0.91, 2) > 0
        assert any("equal weights only" in reason for reason in best.reasons)
        assert not any("is at most" in reason for reason in best.reasons)
    assert "shrink the step sizes" in " ".join(recommend(uneven, tau=2, T=9).reasons)
    even = recommend(problem, tau=2, T=9)
    assert (
        even.constants
        == recommend_for(smoothness(problem).L, 10, 1.0, gap=problem.F(problem.init), tau=2, T=9).constants
    )


def test_a_start_outside_the_set_has_the_gap_of_its_prox() -> None:
    problem = dataclasses.replace(make(0), g=feddr.prox.NonNegative(), init=np.full(4, -0.3))
    inside = dataclasses.replace(problem, init=np.zeros(4))
    found, same = recommend(problem), recommend(inside)
    assert (found.alpha, found.eta) == pytest.approx((same.alpha, same.eta))
    assert any("g is infinite at x^0" in reason for reason in found.reasons)


def test_a_start_of_whole_numbers_has_its_own_gap() -> None:
    problem = make(0)
    whole = dataclasses.replace(problem, init=np.array([1, 0, -1, 2]))
    real = dataclasses.replace(problem, init=np.array([1.0, 0.0, -1.0, 2.0]))
    assert recommend(whole).reasons == recommend(real).reasons


def test_a_lower_bound_above_the_start_is_refused() -> None:
    with pytest.raises(ValueError, match="F_star must be a lower bound of F, got 100"):
        recommend(make(0), F_star=100.0)


def test_a_start_below_zero_has_no_lower_bound_by_itself() -> None:
    data = feddr.FederatedData.from_clients([{"a": np.ones(2)}])
    problem = feddr.Problem(lambda x, batch: batch["a"] * (jnp.exp(x) - 3 * x), data, np.ones(()))
    assert any("no lower bound of F is known" in reason for reason in recommend(problem).reasons)
    assert any("a gap of 9.718" in reason for reason in recommend(problem, F_star=-10.0).reasons)
    with pytest.raises(ValueError, match="F must be finite at the start, got inf"):
        recommend(dataclasses.replace(problem, init=np.asarray(1e3)))
