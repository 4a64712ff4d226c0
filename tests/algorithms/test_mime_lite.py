"""MimeLite: FedAvg without momentum, the heavy ball with one step, and the gradient over all samples."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr.engines.shared.state import Progress
from feddr.local import SGD
from tests.conftest import make_regression


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def problem(weights: str = "samples") -> feddr.Problem:
    """The second client needs two passes of 256 rows for its gradient."""
    return feddr.Problem(squares, make_regression((9, 300, 14), 3, seed=11), np.zeros(3), None, weights)


def states(p: feddr.Problem, algorithm: feddr.MimeLite, local: SGD, rounds: int, **more: Any) -> list[Any]:
    seen: list[Any] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.state.server)

    feddr.simulate(p, algorithm, local=local, rounds=rounds, precision="float64", callback=watch, **more)
    return seen


@pytest.mark.parametrize("batch_size", [5, None])
def test_without_momentum_it_is_fedavg(batch_size: int | None) -> None:
    arguments: dict[str, Any] = {
        "local": SGD(lr=0.05, epochs=2, batch_size=batch_size),
        "sampling": feddr.sampling.Uniform(2),
        "rounds": 6,
        "precision": "float64",
    }
    ours = feddr.simulate(problem(), feddr.MimeLite(beta=0.0), **arguments)
    theirs = feddr.simulate(problem(), feddr.FedAvg(), **arguments)
    assert np.max(np.abs(ours.params - theirs.params)) < 1e-15


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_with_one_step_it_is_gradient_descent_with_momentum(weights: str) -> None:
    """In the paper's form: m := beta m + (1 - beta) grad, x := x - eta m, with eta = lr / (1 - beta)."""
    p, lr, beta = problem(weights), 0.05, 0.8
    x, m = np.zeros(3), np.zeros(3)
    for state in states(p, feddr.MimeLite(beta), SGD(lr=lr, batch_size=None), 40):
        assert np.max(np.abs(state.xbar - x)) < 1e-12
        assert np.max(np.abs((1 - beta) * state.velocity - m)) < 1e-12
        m = beta * m + (1 - beta) * p.gradient(x)
        x = x - lr / (1 - beta) * m


def test_momentum_is_held_fixed_while_a_client_steps() -> None:
    p, lr, beta = problem(), 0.05, 0.7
    x, u = np.zeros(3), np.zeros(3)
    for state in states(p, feddr.MimeLite(beta), SGD(lr=lr, epochs=4, batch_size=None), 5):
        assert np.max(np.abs(state.xbar - x)) < 1e-12
        mean = np.zeros(3)
        for i, w in enumerate(p.client_weights):
            own = x
            for _ in range(4):
                own = own - lr * (p.client_value_and_gradient(i, own)[1] + beta * u)
            mean += w * own
        x, u = mean, beta * u + p.gradient(x)


def test_the_gradient_is_over_all_samples_whatever_the_batches() -> None:
    p = problem()
    first = states(p, feddr.MimeLite(), SGD(lr=0.05, epochs=3, batch_size=4), 1)[-1]
    assert np.max(np.abs(first.velocity - p.gradient(np.zeros(3)))) < 1e-13


def test_with_clients_missing_the_mean_is_over_those_who_are_there() -> None:
    p = problem()
    one = feddr.sampling.Uniform(1)
    result = feddr.simulate(p, feddr.MimeLite(), local=SGD(lr=0.05), sampling=one, rounds=1, precision="float64")
    (client,) = result.state.updates
    gradient = p.client_value_and_gradient(client, np.zeros(3))[1]
    assert np.max(np.abs(result.state.server.velocity - gradient)) < 1e-13


def test_equal_clients_reach_the_pooled_solution_in_fewer_rounds_than_fedavg() -> None:
    client: Any = make_regression((40,), 3, seed=5).train.client(0)
    p = feddr.Problem(squares, feddr.FederatedData.from_clients([client] * 3), np.zeros(3))
    exact = np.linalg.lstsq(client["x"], client["y"], rcond=None)[0]
    local = SGD(lr=0.01, epochs=5, batch_size=None)

    def distance(algorithm: Any, rounds: int) -> float:
        result = feddr.simulate(p, algorithm, local=local, rounds=rounds, precision="float64", evaluate_every=rounds)
        return float(np.max(np.abs(result.params - exact)))

    assert distance(feddr.MimeLite(beta=0.6), 300) < 1e-10
    assert distance(feddr.MimeLite(beta=0.6), 60) < 0.1 * distance(feddr.FedAvg(), 60)


def test_clients_that_differ_and_take_several_steps_lead_elsewhere() -> None:
    """As with FedAvg; momentum corrects no drift."""
    p = problem()
    samples: Any = p.data.train.samples
    root = np.sqrt(p.sample_weights)
    exact = np.linalg.lstsq(samples["x"] * root[:, None], samples["y"] * root, rcond=None)[0]
    local = SGD(lr=0.05, epochs=10, batch_size=None)
    last = states(p, feddr.MimeLite(beta=0.5), local, 150, evaluate_every=150)[-1]
    assert 1e-3 < float(np.max(np.abs(last.xbar - exact))) < 1.0
