"""FedDecoupled: the proximal gradient method with one step, and the pooled solution with many steps."""

import numpy as np
import pytest

import feddr
from feddr.local import SGD
from tests.algorithms.test_composite_methods import (
    STRENGTH,
    Vector,
    batches,
    classification,
    iterates,
    l1_logistic,
    lasso,
    regression,
    run,
    soft,
    squares,
)
from tests.conftest import make_regression


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_with_one_step_it_is_the_proximal_gradient_method(weights: str) -> None:
    problem, lr, s = regression(weights=weights), 0.125, 0.5  # their product is a number of float32, as eta is
    x = np.zeros(6)
    for xbar in iterates(problem, feddr.FedDecoupled(s), SGD(lr=lr, batch_size=None), 40):
        assert np.max(np.abs(xbar - x)) < 1e-12
        x = soft(x - s * lr * problem.gradient(x), s * lr * STRENGTH)


def test_the_published_rule_by_hand() -> None:
    """Ten steps of everybody on batches of four; the corrections sum to zero."""
    lr, s = 0.03125, 0.5
    problem = feddr.Problem(squares, make_regression((20, 20, 20), 6, seed=3), np.zeros(6), feddr.prox.L1(STRENGTH))
    solver = SGD(lr, epochs=2, batch_size=4)
    steps = solver.num_steps(20)
    eta = s * lr * steps
    x, c = np.zeros(6), np.zeros((3, 6))
    for k, xbar in enumerate(iterates(problem, feddr.FedDecoupled(s), solver, 6)):
        assert np.max(np.abs(xbar - x)) < 1e-12
        ends, means = np.zeros((3, 6)), np.zeros((3, 6))
        for i in range(3):
            z = x
            for t, (a, b) in enumerate(batches(problem, solver, i, k)):
                gradient = a.T @ (a @ soft(z, t * lr * STRENGTH) - b) / len(b)
                z = z - lr * (gradient + c[i])
                means[i] += gradient / steps
            ends[i] = z
        z = x + s * (ends.mean(axis=0) - x)
        c = (x - z) / eta - means
        assert np.max(np.abs(c.mean(axis=0))) < 1e-12
        x = soft(z, eta * STRENGTH)


def test_with_a_projection_it_is_the_rule_of_the_authors_next_paper() -> None:
    """Zhang, Hu, So and Johansson (2024): the server keeps z, and every step takes the gradient at a projection."""

    def project(x: Vector) -> Vector:
        return np.maximum(x, 0.0)

    lr, s = 0.03125, 0.5
    data = make_regression((20, 20, 20), 6, seed=3)
    problem = feddr.Problem(squares, data, np.full(6, 0.25), feddr.prox.NonNegative())
    solver = SGD(lr, epochs=2, batch_size=4)
    steps = solver.num_steps(20)
    z = np.full(6, 0.25)
    c = np.zeros((3, 6))
    bound = False
    for k, xbar in enumerate(iterates(problem, feddr.FedDecoupled(s), solver, 8)):
        assert np.max(np.abs(xbar - project(z))) < 1e-12
        bound = bound or bool((z < 0).any())
        ends, means = np.zeros((3, 6)), np.zeros((3, 6))
        for i in range(3):
            ends[i] = project(z)
            for a, b in batches(problem, solver, i, k):
                gradient = a.T @ (a @ project(ends[i]) - b) / len(b)
                ends[i] -= lr * (gradient + c[i])
                means[i] += gradient / steps
        after = (1 - s) * project(z) + s * ends.mean(axis=0)
        c = (project(z) - after) / (s * lr * steps) - means
        z = after
    assert bound  # or nothing was projected


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_many_steps_reach_the_pooled_lasso_where_others_do_not(weights: str) -> None:
    problem, solver = regression(weights=weights), SGD(lr=0.03, epochs=5, batch_size=None)
    exact = lasso(problem, STRENGTH)
    found = run(problem, feddr.FedDecoupled(), solver, 400)
    assert np.max(np.abs(found.params - exact)) < 1e-9
    assert np.array_equal(found.params != 0, exact != 0)
    for other in (feddr.FedMid(proximal="server"), feddr.FedDualAvg()):
        assert np.max(np.abs(run(problem, other, solver, 400).params - exact)) > 1e-2


class Uneven(SGD):
    """One to five steps on all rows, by the number of rows."""

    def num_steps(self, size: int) -> int:
        return 1 + size % 5


def test_unequal_numbers_of_steps_reach_the_pooled_lasso() -> None:
    problem, solver = regression(weights="samples"), Uneven(lr=0.03, batch_size=None)
    assert {solver.num_steps(int(size)) for size in problem.data.sizes} == {1, 3, 5}
    found = run(problem, feddr.FedDecoupled(), solver, 600)
    assert np.max(np.abs(found.params - lasso(problem, STRENGTH))) < 1e-9


def test_l1_logistic_reaches_the_pooled_solution() -> None:
    strength = 0.02
    problem = classification(strength)
    result = run(problem, feddr.FedDecoupled(), SGD(lr=0.25, epochs=4, batch_size=None), 900)
    assert np.max(np.abs(result.params - l1_logistic(problem, strength))) < 1e-6
    assert result.history.last.gradient_mapping < 1e-7


def test_a_constraint_holds_from_a_start_outside_of_it() -> None:
    data = make_regression((7, 40, 12), 6, seed=1)
    problem = feddr.Problem(squares, data, np.full(6, -3.0), feddr.prox.NonNegative())
    result = run(problem, feddr.FedDecoupled(), SGD(lr=0.03, epochs=5, batch_size=None), 600)
    assert np.min(result.params) >= 0
    assert result.history.last.gradient_mapping < 1e-9


def test_without_g_it_is_scaffold_at_half_the_bytes() -> None:
    problem = feddr.Problem(squares, make_regression((20, 20, 20), 6, seed=3), np.zeros(6))
    solver = SGD(lr=0.03125, epochs=2, batch_size=4)
    ours, theirs = (run(problem, method, solver, 12) for method in (feddr.FedDecoupled(), feddr.Scaffold()))
    assert np.max(np.abs(ours.params - theirs.params)) < 1e-12
    scalar = 12 * 3 * 8  # a step size each way
    assert ours.history.last.bytes_up - scalar == theirs.history.last.bytes_up / 2
    assert ours.history.last.bytes_down - scalar == theirs.history.last.bytes_down / 2


def test_single_precision_follows_for_a_thousand_rounds() -> None:
    problem, solver = regression(weights="samples"), SGD(lr=0.03, epochs=5, batch_size=None)
    found = run(problem, feddr.FedDecoupled(), solver, 1000, precision="float32")
    assert np.max(np.abs(found.params - lasso(problem, STRENGTH))) < 1e-4
