"""Stopping rules: each stops as soon as its test holds, and not before."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import local
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.evaluation import Evaluator
from feddr.local import Curvature, SolverContext, Subproblem
from tests.nonconvex_problems import make


def solve(stopping: local.Stopping, round_: int = 1, probability: float = 1.0, **more: Any) -> local.Solution:
    problem = make(2)
    solver = local.Accelerated(stopping=stopping, **more)
    clients = CompiledClients(problem, Evaluator(problem, np.float64).samples, solver, np.float64, False)
    sub = Subproblem(np.zeros(4), center=np.ones(4), eta=0.05)
    return clients(1, sub, np.random.default_rng(0), round_, probability)


def path(steps: int) -> local.Solution:
    return solve(local.Epochs(steps))


def first(holds: Any) -> int:
    """The number of gradients at which a test first holds along the path of the solver, beyond its start."""
    return next(t for t in range(1, 200) if holds(path(t))) + 1


def test_epochs_do_a_fixed_number_of_passes_and_still_bound_the_error() -> None:
    exact = solve(local.Tolerance(1e-13)).x
    for steps in (1, 4, 9):
        solution = path(steps)
        assert solution.steps == steps + 1  # the last gradient is for the error
        assert np.linalg.norm(solution.x - exact) <= solution.error < np.inf


def test_one_epoch_is_one_gradient_step() -> None:
    """From 0 with M = L + 1/eta, x = -grad phi(0) / M, and the momentum adds beta times as much."""
    problem = make(2)
    low, high = problem.known_curvature(1) or (np.nan, np.nan)
    mu, M = 1 / 0.05 + low, 1 / 0.05 + high
    root = np.sqrt(mu / M)
    gradient = problem.client_value_and_gradient(1, np.zeros(4))[1] - np.ones(4) / 0.05
    assert path(1).x == pytest.approx(-gradient / M * (1 + (1 - root) / (1 + root)), rel=1e-12)


@pytest.mark.parametrize("round_", [1, 3, 30])
def test_absolute_stops_at_the_first_step_that_is_good_enough(round_: int) -> None:
    solution = solve(local.Absolute(M=0.5), round_)
    wanted = np.sqrt(0.5 / (2 * (round_ + 1) ** 2))
    assert solution.error <= wanted
    assert solution.steps == first(lambda s: s.error <= wanted)


@pytest.mark.parametrize("probability", [1.0, 0.1])
def test_relative_stops_at_the_first_step_that_is_good_enough(probability: float) -> None:
    solution = solve(local.Relative(1e-2), 5, probability)

    def holds(s: local.Solution) -> bool:
        return bool(s.error**2 <= 1e-2 * probability * np.linalg.norm(s.x) ** 2)

    assert holds(solution)
    assert solution.steps == first(holds)


def test_relative_solves_the_start_up_round_exactly() -> None:
    assert solve(local.Relative(1e-2), round_=0).error <= 1e-9
    assert solve(local.Relative(1e-2, start=1e-3), round_=0).error > 1e-9


def test_rules_see_the_numbers_that_they_are_given() -> None:
    facts = SolverContext(Curvature(-1.0, 1.0), round=3, probability=0.5)
    assert local.Absolute(32.0).holds(1.0, 0.0, 1, facts)
    assert not local.Absolute(31.9).holds(1.0, 0.0, 1, facts)
    assert local.Relative(0.5).holds(1.0, 2.0, 1, facts)
    assert not local.Relative(0.49).holds(1.0, 2.0, 1, facts)


def test_history_records_errors_and_steps() -> None:
    problem = make(2)
    solver = local.Accelerated(stopping=local.Absolute(0.1))
    result = feddr.simulate(
        problem, feddr.FedDR(eta=0.05), local=solver, rounds=20, precision="float64", evaluate_every=10
    )
    # The accuracy asked for in rounds 11 to 20 is at most that of round 11.
    assert result.history.last.prox_error <= np.sqrt(0.1 / (2 * 12**2))
    assert result.history.rows[1].prox_error > result.history.rows[2].prox_error
    assert result.history.last.local_steps >= 80


@pytest.mark.parametrize(
    "make_rule",
    [
        lambda: local.Tolerance(0.0),
        lambda: local.Absolute(-1.0),
        lambda: local.Relative(float("nan")),
        lambda: local.Relative(0.1, start=0.0),
        lambda: local.Epochs(0),
    ],
)
def test_bad_rules_are_refused(make_rule: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make_rule()
