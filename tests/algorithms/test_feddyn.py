"""FedDyn: the joint solution whoever takes part, and what its server remembers."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.engines.shared.state import Progress
from feddr.local import SGD, Accelerated
from tests.conftest import make_regression


def problem(weights: str = "samples") -> feddr.Problem:
    data = make_regression((9, 30, 14, 22, 5), 3, seed=11)
    return feddr.Problem.regression(feddr.models.linear(3), data, weights=weights)


def solution(p: feddr.Problem) -> Any:
    """The pooled weighted least-squares solution, as slopes and intercept."""
    samples: Any = p.data.train.samples
    root = np.sqrt(p.sample_weights)
    rows = np.column_stack([samples["x"], np.ones(len(root))])
    return np.linalg.lstsq(rows * root[:, None], samples["y"] * root, rcond=None)[0]


def distance(p: feddr.Problem, x: tree.Tree) -> float:
    found = np.concatenate([np.ravel(x["weight"]), np.ravel(x["bias"])])
    return float(np.max(np.abs(found - solution(p))))


@pytest.mark.parametrize(("weights", "m"), [("uniform", 1), ("samples", 2), ("uniform", 5)])
def test_it_reaches_the_pooled_solution_whoever_takes_part(weights: str, m: int) -> None:
    p = problem(weights)
    result = feddr.simulate(
        p,
        feddr.FedDyn(eta=0.5),
        local=Accelerated(tol=1e-13),
        sampling=feddr.sampling.Uniform(m),
        rounds=800,
        precision="float64",
        evaluate_every=800,
    )
    assert distance(p, result.params) < 1e-9
    assert tree.norm(result.state.server.memory) < 1e-9
    for i, c in result.state.clients.items():
        gradient = p.client_value_and_gradient(i, result.params)[1]
        assert tree.norm(tree.add(c.dual, gradient)) < 1e-8
        assert tree.norm(tree.sub(c.x, result.params)) < 1e-8


@pytest.mark.parametrize(("precision", "error"), [("float64", 1e-13), ("float32", 1e-5)])
def test_the_server_remembers_the_mean_of_the_multipliers(precision: str, error: float) -> None:
    p, eta = problem(), 0.7

    def watch(progress: Progress) -> None:
        total = tree.zeros_like(p.init)
        for i, c in progress.state.clients.items():
            total = tree.axpy(p.client_weights[i] * eta, tree.cast(c.dual, np.float64), total)
        assert tree.norm(tree.sub(progress.state.server.memory, total)) < error
        largest.append(tree.norm(total))

    largest: list[float] = []
    some = feddr.sampling.Uniform(2)
    local = SGD(lr=0.05, epochs=2, batch_size=4)
    feddr.simulate(p, feddr.FedDyn(eta), local=local, sampling=some, rounds=40, precision=precision, callback=watch)
    assert max(largest) > 0.01


def test_the_mean_is_over_those_who_are_there() -> None:
    """With one active client of weight w, the first round ends at x_i + w (x_i - x^0)."""
    p = problem()
    one = feddr.sampling.Uniform(1)
    result = feddr.simulate(p, feddr.FedDyn(eta=0.5), local=SGD(lr=0.05), sampling=one, rounds=1, precision="float64")
    ((i, c),) = result.state.clients.items()
    moved = tree.sub(c.x, p.init)
    expected = tree.axpy(p.client_weights[i], moved, c.x)
    assert tree.norm(moved) > 1e-3
    assert tree.norm(tree.sub(result.params, expected)) < 1e-14


def test_clients_have_models_of_their_own() -> None:
    data = feddr.datasets.synthetic(1, 1, num_clients=4)
    p = feddr.Problem.classification(feddr.models.softmax(60, 10), data)
    result = feddr.simulate(p, feddr.FedDyn(eta=10.0), local=SGD(lr=0.01), rounds=2, personal=True)
    assert 0 < result.history.last.personal_train_accuracy <= 1
