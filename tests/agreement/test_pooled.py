"""FedDR with a certified prox and partial participation, against other people's solvers on the pooled problem."""

from typing import Any

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Lasso, LogisticRegression

import feddr
from tests.conftest import make_regression, make_signs

Vector = NDArray[np.float64]


def solve(problem: feddr.Problem, eta: float, rounds: int, alpha: float = 1.0) -> feddr.Result:
    return feddr.simulate(
        problem,
        feddr.FedDR(eta=eta, alpha=alpha),
        local=feddr.local.Accelerated(tol=1e-11),
        sampling=feddr.sampling.Uniform(3),
        rounds=rounds,
        seed=0,
        precision="float64",
        evaluate_every=rounds,
    )


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def logistic(params: Any, batch: Any) -> Any:
    return jnp.logaddexp(0.0, -batch["sign"] * (batch["x"] @ params))


def cvxpy_squares(
    problem: feddr.Problem, dimension: int, g: Any = None, constraints: Any = None, tol: float = 1e-13
) -> Vector:
    """The pooled weighted least-squares problem with the regulariser g."""
    samples: Any = problem.data.train.samples
    u = cp.Variable(dimension)
    residuals = samples["x"] @ u - samples["y"]
    f = 0.5 * cp.sum(cp.multiply(problem.sample_weights, cp.square(residuals)))
    accuracy = {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}
    objective = cp.Minimize(f if g is None else f + g(u))
    cp.Problem(objective, constraints(u) if constraints else []).solve(solver=cp.CLARABEL, **accuracy)
    solution: Vector = np.asarray(u.value)
    return solution


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_l1_least_squares_against_scikit_learn(regression_data: feddr.FederatedData, weights: str) -> None:
    strength = 0.05
    problem = feddr.Problem(squares, regression_data, np.zeros(6), feddr.prox.L1(strength), weights)
    result = solve(problem, eta=1.0, rounds=600)

    samples: Any = problem.data.train.samples
    lasso = Lasso(alpha=strength, fit_intercept=False, tol=1e-14, max_iter=100_000)
    # scikit-learn scales the weights to sum to the number of samples, which is what its 1/(2n) divides away again.
    lasso.fit(samples["x"], samples["y"], sample_weight=problem.sample_weights)
    assert np.max(np.abs(result.params - lasso.coef_)) < 1e-6
    assert result.history.last.gradient_mapping < 1e-8


def test_l1_logistic_against_scikit_learn() -> None:
    strength, data = 0.02, make_signs()
    problem = feddr.Problem(logistic, data, np.zeros(5), feddr.prox.L1(strength), "uniform")
    result = solve(problem, eta=3.0, rounds=800)

    samples = data.train.samples
    # sum of C s_j loss_j + |x|_1 has the minimiser of sum of s_j loss_j + |x|_1 / C.
    model = LogisticRegression(
        l1_ratio=1.0, C=1.0 / strength, solver="saga", fit_intercept=False, tol=1e-12, max_iter=200_000
    )
    model.fit(samples["x"], samples["sign"], sample_weight=problem.sample_weights)
    assert np.max(np.abs(result.params - model.coef_[0])) < 1e-6
    assert result.history.last.gradient_mapping < 1e-8


def test_simplex_against_cvxpy(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem(squares, regression_data, np.full(6, 1 / 6), feddr.prox.Simplex(), "samples")
    result = solve(problem, eta=1.0, rounds=600)
    exact = cvxpy_squares(problem, 6, constraints=lambda u: [u >= 0, cp.sum(u) == 1])
    assert np.max(np.abs(result.params - exact)) < 1e-6
    assert result.history.last.gradient_mapping < 1e-8


def test_group_lasso_against_cvxpy() -> None:
    data = make_regression(sizes=(9, 33, 14, 21), dimension=8, seed=7)
    groups = [[0, 1, 2], [3, 4], [5, 6, 7]]
    problem = feddr.Problem(squares, data, np.zeros(8), feddr.prox.GroupL2(0.6, groups), "uniform")
    result = solve(problem, eta=1.0, rounds=600)
    exact = cvxpy_squares(problem, 8, lambda u: 0.6 * sum(cp.norm(u[group], 2) for group in groups))
    assert np.max(np.abs(result.params - exact)) < 1e-6
    assert np.any([np.all(result.params[group] == 0) for group in groups]), "the strength should remove a group"
    assert result.history.last.gradient_mapping < 1e-8


@pytest.mark.parametrize(("alpha", "init"), [(0.5, "full"), (1.9, "joining")])
def test_every_alpha_and_start_reaches_the_same_point(
    regression_data: feddr.FederatedData, alpha: float, init: str
) -> None:
    problem = feddr.Problem(squares, regression_data, np.zeros(6), feddr.prox.L1(0.05), "samples")
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=1.0, alpha=alpha, init=init),
        local=feddr.local.Accelerated(tol=1e-11),
        sampling=feddr.sampling.Uniform(3),
        rounds=900,
        precision="float64",
        evaluate_every=900,
    )
    assert result.history.last.gradient_mapping < 1e-8
