"""Local solvers: what they must reach, and what their errors must bound."""

import itertools
from typing import Any

import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import feddr
from feddr import local, tree
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.evaluation import Evaluator
from feddr.local import Solution, Subproblem
from feddr.theory.curvature import lanczos
from tests.conftest import make_regression

Vector = NDArray[np.float64]


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def run(problem: feddr.Problem, solver: local.LocalSolver, client: int, sub: Subproblem, **kwargs: Any) -> Solution:
    samples = Evaluator(problem, np.float64).samples
    clients = CompiledClients(problem, samples, solver, np.float64, kwargs.get("needs_gradient", False))
    return clients(client, sub, np.random.default_rng(0))


def least_squares(sizes: tuple[int, ...] = (7, 300), dimension: int = 4) -> feddr.Problem:
    return feddr.Problem(squares, make_regression(sizes, dimension, seed=3), np.zeros(dimension))


def exact_prox(problem: feddr.Problem, client: int, sub: Subproblem) -> Vector:
    """Solve (H + I/eta) x = c + z/eta - v."""
    samples: Any = problem.data.train.client(client)
    x, y = samples["x"], samples["y"]
    identity = np.eye(x.shape[1]) / sub.eta
    right = (
        x.T @ y / len(y)
        + (0 if sub.center is None else sub.center / sub.eta)
        - (0 if sub.linear is None else sub.linear)
    )
    return np.asarray(np.linalg.solve(x.T @ x / len(y) + identity, right))


@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("tol", [1e-3, 1e-7, 1e-11])
def test_accelerated_is_within_its_certificate(client: int, tol: float) -> None:
    problem = least_squares()
    rng = np.random.default_rng(5)
    sub = Subproblem(start=rng.normal(size=4), center=rng.normal(size=4), eta=0.8, linear=rng.normal(size=4))
    solution = run(problem, local.Accelerated(tol=tol), client, sub)
    distance = float(np.linalg.norm(solution.x - exact_prox(problem, client, sub)))
    assert distance <= solution.error <= tol
    assert solution.steps > 1


def test_accelerated_stops_at_once_when_it_starts_at_the_solution() -> None:
    problem = least_squares()
    sub = Subproblem(start=np.zeros(4), center=np.ones(4), eta=0.8)
    sub = sub._replace(start=exact_prox(problem, 1, sub))
    assert run(problem, local.Accelerated(tol=1e-9), 1, sub).steps == 1


def test_accelerated_reports_what_it_reached_when_rounding_is_in_the_way() -> None:
    problem = least_squares()
    sub = Subproblem(start=np.zeros(4), center=np.ones(4), eta=0.8)
    solution = run(problem, local.Accelerated(tol=1e-30), 1, sub)
    assert 1e-30 < solution.error < 1e-13
    assert solution.steps < 2000


def test_accelerated_reports_an_infinite_error_when_it_runs_out_of_steps() -> None:
    solution = run(
        least_squares(), local.Accelerated(tol=1e-12, max_steps=3), 1, Subproblem(np.zeros(4), np.ones(4), 0.8)
    )
    assert solution.steps == 3
    assert solution.error == np.inf


def test_accelerated_refuses_a_subproblem_that_is_not_strongly_convex() -> None:
    problem = feddr.Problem(squares, make_regression((5,), 4, 0), np.zeros(4), curvature=(-2.0, 3.0))
    with pytest.raises(ValueError, match=r"take eta below 0\.5"):
        run(problem, local.Accelerated(), 0, Subproblem(np.zeros(4), np.zeros(4), eta=0.6))
    with pytest.raises(ValueError, match="add a proximal term"):
        run(least_squares(), local.Accelerated(), 0, Subproblem(np.zeros(4)))


@pytest.mark.parametrize(
    "solver",
    [
        local.SGD(lr=0.05, epochs=400, batch_size=None),
        local.SGD(lr=0.02, epochs=400, batch_size=None, momentum=0.8),
        local.Optax(optax.adam(0.02), epochs=1500, batch_size=None),
    ],
    ids=["gradient descent", "momentum", "adam"],
)
def test_full_batches_reach_the_prox(solver: local.LocalSolver) -> None:
    problem = least_squares()
    sub = Subproblem(np.zeros(4), center=np.ones(4), eta=0.8, linear=np.full(4, 0.3))
    solution = run(problem, solver, 0, sub)
    assert np.linalg.norm(solution.x - exact_prox(problem, 0, sub)) < 1e-6
    assert np.isnan(solution.error)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
def test_every_epoch_uses_every_sample_once(size: int, batch_size: int, epochs: int) -> None:
    solver = local.SGD(lr=0.1, epochs=epochs, batch_size=batch_size)
    batches = solver.batches(size, np.random.default_rng(0))
    assert batches is not None
    assert len(batches.rows) == len(batches.used) == solver.num_steps(size)
    rows = [row for t in range(len(batches.rows)) for row in batches.rows[t][: batches.used[t]]]
    for epoch in np.split(np.array(rows), epochs):
        assert sorted(epoch) == list(range(size))
    assert set(batches.used.tolist()) <= {batch_size, size % batch_size}


def test_each_epoch_has_a_random_order_of_its_own() -> None:
    size, epochs = 30, 200
    batches = local.SGD(lr=0.1, epochs=epochs, batch_size=10).batches(size, np.random.default_rng(0))
    assert batches is not None
    orders = batches.rows.reshape(epochs, size)
    assert len({tuple(order) for order in orders.tolist()}) == epochs
    # No place in the order prefers some rows: they are (size - 1) / 2 on average, within six standard deviations.
    spread = np.sqrt((size**2 - 1) / 12 / epochs)
    assert np.max(np.abs(np.mean(orders, axis=0) - (size - 1) / 2)) < 6 * spread


def test_the_ragged_last_batch_is_a_mean_over_its_own_samples() -> None:
    """One epoch over 7 samples in batches of 3, by hand."""
    problem = least_squares()
    solver = local.SGD(lr=0.1, epochs=1, batch_size=3)
    sub = Subproblem(np.ones(4), center=np.zeros(4), eta=2.0)
    batches = solver.batches(7, np.random.default_rng(0))
    samples: Any = problem.data.train.client(0)
    assert batches is not None
    x = np.ones(4)
    for t in range(3):
        rows = batches.rows[t][: batches.used[t]]
        assert len(rows) == (3, 3, 1)[t]
        residuals = samples["x"][rows] @ x - samples["y"][rows]
        x = x - 0.1 * (samples["x"][rows].T @ residuals / len(rows) + x / 2.0)
    assert np.max(np.abs(run(problem, solver, 0, sub).x - x)) < 1e-14


def test_mean_gradient_explains_the_path_of_sgd() -> None:
    """Without a proximal term, x = start - K lr (mean gradient + v)."""
    problem = least_squares()
    solver = local.SGD(lr=0.03, epochs=3, batch_size=5)
    sub = Subproblem(np.ones(4), linear=np.full(4, 0.2))
    solution = run(problem, solver, 1, sub, needs_gradient=True)
    assert solution.steps == 180
    assert solution.gradient is not None
    path = np.ones(4) - 180 * 0.03 * (solution.gradient + 0.2)
    assert np.max(np.abs(solution.x - path)) < 1e-12


@pytest.mark.parametrize("dimension", [1, 5, 30])
def test_lanczos_finds_the_whole_spectrum_of_small_matrices(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    a = rng.normal(size=(dimension, dimension))
    a = a + a.T
    found = lanczos(lambda v: {"x": a @ v["x"]}, {"x": np.zeros(dimension)})
    eigenvalues = np.linalg.eigvalsh(a)
    assert found.lower == pytest.approx(eigenvalues[0], abs=1e-9)
    assert found.upper == pytest.approx(eigenvalues[-1], abs=1e-9)


def test_lanczos_bounds_a_large_spectrum_from_outside() -> None:
    rng = np.random.default_rng(0)
    eigenvalues = np.sort(rng.normal(size=300))
    found = lanczos(lambda v: eigenvalues * v, np.zeros(300))
    assert eigenvalues[0] - 0.2 < found.lower <= eigenvalues[0] + 1e-6
    assert eigenvalues[-1] + 0.2 > found.upper >= eigenvalues[-1] - 1e-6


@pytest.mark.parametrize(
    "make",
    [
        lambda: local.SGD(lr=0.0),
        lambda: local.SGD(lr=float("nan")),
        lambda: local.SGD(lr=0.1, epochs=0),
        lambda: local.SGD(lr=0.1, batch_size=0),
        lambda: local.SGD(lr=0.1, momentum=1.0),
        lambda: local.Accelerated(tol=0.0),
        lambda: local.Accelerated(max_steps=0),
        lambda: local.Optax(optax.sgd(0.1), epochs=0),
    ],
)
def test_bad_settings_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()


def test_increments_of_float32_telescope() -> None:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=50).astype(np.float32) * 10.0**k for k in rng.integers(-3, 3, 200)]
    total = np.asarray(values[0], np.float64)
    for old, new in itertools.pairwise(values):
        total = total + tree.increment(new, old)
    assert np.max(np.abs(total - values[-1])) < 1e-10
