"""Smoothness: exact where the loss is known, an estimate within 5 % elsewhere."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import make_classes, make_regression
from tests.nonconvex import make

import feddr
from feddr.theory import recommend, smoothness


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
