"""Scaffnew: SCAFFOLD at half the bytes, control variates that sum to zero, and the rate of its theorem."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feddr
from feddr.engines.shared.state import Progress
from feddr.local import SGD, Geometric
from tests.algorithms.test_composite_methods import squares
from tests.algorithms.test_feddecoupled import Uneven
from tests.conftest import make_classes, make_regression

SIZES = (7, 40, 12, 25, 9)


def problem(sizes: tuple[int, ...] = SIZES, weights: str = "uniform") -> feddr.Problem:
    return feddr.Problem(squares, make_regression(sizes, 6, seed=1), np.zeros(6), None, weights)


def solution(p: feddr.Problem) -> NDArray[np.float64]:
    samples: Any = p.data.train.samples
    root = np.sqrt(p.sample_weights)[:, None]
    return np.asarray(np.linalg.lstsq(root * samples["x"], root[:, 0] * samples["y"], rcond=None)[0])


def controls(state: Any) -> NDArray[np.float64]:
    """The h_i that clients will have as soon as they are sent the newest xbar."""
    return np.stack([c.control + c.rate * (state.server.xbar - c.x) for _, c in sorted(state.clients.items())])


@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("solver", [Uneven(lr=0.05, batch_size=None), Geometric(lr=0.05, p=0.25)], ids=repr)
def test_the_pooled_solution_and_control_variates_that_sum_to_zero(solver: Any, weights: str) -> None:
    p = problem(weights=weights)
    settings: dict[str, Any] = {"local": solver, "precision": "float64"}
    early = feddr.simulate(p, feddr.Scaffnew(p=0.25), rounds=7, **settings)
    assert np.max(np.abs(controls(early.state))) > 0.1
    late = feddr.simulate(p, feddr.Scaffnew(p=0.25), rounds=600, evaluate_every=600, **settings)
    for result in (early, late):
        assert np.max(np.abs(p.client_weights @ controls(result.state))) < 1e-12
    assert np.max(np.abs(late.params - solution(p))) < 1e-9
    own = np.stack([p.client_value_and_gradient(i, late.params)[1] for i in range(len(SIZES))])
    assert np.max(np.abs(controls(late.state) - own)) < 1e-8


def test_with_a_fixed_number_of_steps_it_is_scaffold_at_half_the_bytes() -> None:
    p, solver = problem((20, 20, 20)), SGD(lr=0.03, epochs=2, batch_size=4)
    ours, theirs = (
        feddr.simulate(p, method, local=solver, rounds=12, precision="float64")
        for method in (feddr.Scaffnew(p=0.1), feddr.Scaffold())
    )
    assert np.max(np.abs(ours.params - theirs.params)) < 1e-12
    assert 2 * ours.history.last.bytes_up == theirs.history.last.bytes_up
    assert 2 * ours.history.last.bytes_down == theirs.history.last.bytes_down


def test_the_rate_of_the_theorem() -> None:
    """Psi = |xbar - x*|^2 + (lr / p)^2 mean |h_i - h_i*|^2 falls in expectation by 1 - mu / L with every step."""
    data, mu = make_regression(SIZES, 6, seed=1), 0.05
    p = feddr.Problem(lambda x, batch: squares(x, batch) + 0.5 * mu * (x @ x), data, np.zeros(6))
    rows: list[Any] = [data.client(i) for i in range(len(SIZES))]
    hessians = np.stack([one["x"].T @ one["x"] / len(one["x"]) + mu * np.eye(6) for one in rows])
    exact = np.linalg.solve(hessians.mean(axis=0), np.mean([one["x"].T @ one["y"] / len(one["x"]) for one in rows], 0))
    own = np.stack([p.client_value_and_gradient(i, exact)[1] for i in range(len(SIZES))])
    kappa = float(np.linalg.eigvalsh(hessians).max()) / mu
    lr, coin = 1.0 / (kappa * mu), kappa**-0.5

    def psi(xbar: Any, h: Any) -> float:
        return float(np.sum((xbar - exact) ** 2) + (lr / coin) ** 2 * np.mean(np.sum((h - own) ** 2, axis=1)))

    ratios: list[list[float]] = []
    for seed in range(6):
        course: list[float] = []

        def watch(progress: Progress, course: list[float] = course) -> None:
            if progress.row is not None and progress.row.round:
                steps = progress.row.local_steps // len(SIZES)
                bound = psi(0.0, 0.0) * (1 - 1 / kappa) ** steps
                course.append(psi(progress.state.server.xbar, controls(progress.state)) / bound)

        settings: dict[str, Any] = {"rounds": 25, "evaluate_every": 1, "precision": "float64", "callback": watch}
        feddr.simulate(p, feddr.Scaffnew(p=coin), local=Geometric(lr, coin, seed), **settings)
        ratios.append(course)
    assert np.max(np.mean(ratios, axis=0)) < 1.0


def test_a_geometric_number_of_steps_is_that_of_the_coin() -> None:
    """Its mean is 1 / p, its variance (1 - p) / p^2, and all clients of a round toss it together."""
    solver = Geometric(lr=0.1, p=0.2, seed=3)
    drawn = np.array([int(solver.steps(k)) for k in range(2000)])
    assert drawn.min() == 1
    assert abs(drawn.mean() - 5.0) < 4 * np.sqrt(20.0 / 2000)
    assert abs(drawn.var() - 20.0) < 4.0
    p = feddr.Problem.classification(feddr.models.softmax(4, 3), make_classes((6, 9, 30), 4, 3, seed=1))
    rows = feddr.simulate(p, feddr.FedAvg(), local=solver, rounds=6, evaluate_every=1).history.rows
    counts = np.diff([row.local_steps for row in rows])
    assert [3 * int(solver.steps(k)) for k in range(1, 7)] == counts.tolist()
