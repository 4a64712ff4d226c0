"""Optimisers on the server: FedAvg where they do nothing, recursions written by hand where they do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

import feddr
from feddr.algorithms import Algorithm
from feddr.checkpoint import CheckpointError
from feddr.engines.shared.state import Progress
from feddr.local import SGD
from feddr.precision import scope
from tests.conftest import make_regression

LR = 0.05
READY: list[Algorithm] = [feddr.FedAvgM(), feddr.FedAdam(), feddr.FedYogi(), feddr.FedAdagrad()]


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def problem() -> feddr.Problem:
    return feddr.Problem(squares, make_regression((9, 30, 14), 3, seed=11), np.zeros(3), None, "samples")


def states(algorithm: Algorithm, rounds: int = 12, **more: Any) -> list[Any]:
    """The server's states; by default each client takes two full-batch steps."""
    seen: list[Any] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.state.server)

    arguments: dict[str, Any] = {"local": SGD(lr=LR, epochs=2, batch_size=None), "precision": "float64"} | more
    feddr.simulate(problem(), algorithm, rounds=rounds, callback=watch, **arguments)
    return seen


def change(p: feddr.Problem, x: Any) -> Any:
    """The mean of x_i - xbar after two full-batch steps of everybody."""
    mean = np.zeros(3)
    for i, w in enumerate(p.client_weights):
        own = x
        for _ in range(2):
            own = own - LR * p.client_value_and_gradient(i, own)[1]
        mean += w * (own - x)
    return mean


@pytest.mark.parametrize(
    "algorithm",
    [feddr.FedOpt(optax.sgd(1.0)), feddr.FedAvgM(1.0, 0.0)],
    ids=repr,
)
def test_a_step_of_length_one_is_fedavg(algorithm: Algorithm) -> None:
    more: dict[str, Any] = {"local": SGD(lr=0.05, epochs=2, batch_size=4), "sampling": feddr.sampling.Uniform(2)}
    ours, theirs = states(algorithm, **more), states(feddr.FedAvg(), **more)
    assert np.max(np.abs(theirs[-1].xbar)) > 0.1
    for a, b in zip(ours, theirs, strict=True):
        assert np.max(np.abs(a.xbar - b.xbar)) < 1e-14


def momentum(server_lr: float, beta: float) -> Callable[..., Any]:
    def step(x: Any, d: Any, t: int, u: Any, _: Any) -> Any:  # noqa: ARG001
        u = beta * u + d
        return x + server_lr * u, u, _

    return step


def adaptive(kind: str, server_lr: float, b1: float, b2: float, tau: float) -> Callable[..., Any]:
    def step(x: Any, d: Any, t: int, m: Any, v: Any) -> Any:
        m = b1 * m + (1 - b1) * d
        v = b2 * v + (1 - b2) * d**2 if kind == "adam" else v - (1 - b2) * d**2 * np.sign(v - d**2)
        return x + server_lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + tau), m, v

    return step


def adagrad(server_lr: float, tau: float) -> Callable[..., Any]:
    def step(x: Any, d: Any, t: int, _: Any, v: Any) -> Any:  # noqa: ARG001
        v = v + d**2
        return x + server_lr * d / np.sqrt(v + tau**2), _, v

    return step


RECURSIONS = [
    (feddr.FedAvgM(0.7, 0.6), momentum(0.7, 0.6)),
    (feddr.FedAdam(0.05, 0.8, 0.9, 0.01), adaptive("adam", 0.05, 0.8, 0.9, 0.01)),
    (feddr.FedYogi(0.05, 0.8, 0.9, 0.01), adaptive("yogi", 0.05, 0.8, 0.9, 0.01)),
    (feddr.FedAdagrad(0.2, 0.01), adagrad(0.2, 0.01)),
]


@pytest.mark.parametrize(("algorithm", "step"), RECURSIONS, ids=[repr(algorithm) for algorithm, _ in RECURSIONS])
def test_the_recursion_of_each(algorithm: Algorithm, step: Callable[..., Any]) -> None:
    p, x, first, second = problem(), np.zeros(3), np.zeros(3), np.zeros(3)
    found = states(algorithm, rounds=30)
    for t, state in enumerate(found, start=1):
        assert np.max(np.abs(state.xbar - x)) < 1e-12
        x, first, second = step(x, change(p, x), t, first, second)
    assert np.max(np.abs(found[-1].xbar)) > 0.1


def test_fedadam_is_adam_on_the_averaged_models() -> None:
    p, x = problem(), np.zeros(3)
    found = states(feddr.FedAdam(0.03, tau=1e-3), rounds=20)
    with scope(np.float64):
        optimiser = optax.adam(0.03, b1=0.9, b2=0.99, eps=1e-3)
        memory = optimiser.init(x)
        for state in found:
            assert np.max(np.abs(state.xbar - x)) < 1e-13
            updates, memory = optimiser.update(-change(p, x), memory, x)
            x = np.asarray(optax.apply_updates(x, updates))


@pytest.mark.parametrize("algorithm", READY, ids=repr)
def test_with_clients_missing_the_mean_is_over_those_who_are_there(algorithm: Any) -> None:
    one, local = feddr.sampling.Uniform(1), SGD(lr=LR, batch_size=None)
    more: dict[str, Any] = {"sampling": one, "local": local, "rounds": 1}
    mean = states(feddr.FedAvg(), **more)[-1].xbar
    with scope(np.float64):
        optimiser = algorithm.transformation()
        expected = np.asarray(optimiser.update(-mean, optimiser.init(mean), np.zeros(3))[0])
    assert np.max(np.abs(states(algorithm, **more)[-1].xbar - expected)) < 1e-13


@pytest.mark.parametrize("algorithm", [*READY, feddr.FedOpt(optax.adamw(0.01))], ids=repr)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_server_keeps_plain_arrays_in_float64(algorithm: Algorithm, precision: str) -> None:
    for state in states(algorithm, rounds=2, precision=precision):
        for leaf in jax.tree.leaves(state):
            assert type(leaf) is np.ndarray
            assert leaf.dtype == (np.float64 if leaf.ndim else np.int32)  # a whole number counts the rounds


@pytest.mark.parametrize("algorithm", READY, ids=repr)
def test_entries_that_no_client_moves_stay(algorithm: Algorithm) -> None:
    s = algorithm.server({"a": np.array([1.0, 2.0]), "b": np.ones(1)})
    for _ in range(3):
        moved = {"a": s.xbar["a"] + np.array([0.0, 0.1]), "b": s.xbar["b"]}
        s = algorithm.aggregate(s, feddr.algorithms.Uploads(moved, 1.0, 0.0, 0.0), lambda x, _: x)
    assert (s.xbar["a"][0], s.xbar["b"][0]) == (1.0, 1.0)
    assert s.xbar["a"][1] > 2.01


def test_momentum_needs_fewer_rounds_where_clients_are_alike() -> None:
    client: Any = make_regression((40,), 3, seed=5).train.client(0)
    p = feddr.Problem(squares, feddr.FederatedData.from_clients([client] * 3), np.zeros(3))
    exact = np.linalg.lstsq(client["x"], client["y"], rcond=None)[0]

    def far(algorithm: Algorithm) -> float:
        local = SGD(lr=0.01, epochs=5, batch_size=None)
        result = feddr.simulate(p, algorithm, local=local, rounds=60, precision="float64", evaluate_every=60)
        return float(np.max(np.abs(result.params - exact)))

    assert far(feddr.FedAvgM(momentum=0.6)) < 0.1 * far(feddr.FedAvg())


def test_rules_with_the_same_numbers_are_equal_and_say_so() -> None:
    assert feddr.FedAdam(0.1) == feddr.FedAdam(0.1) != feddr.FedAdam(0.2)
    assert repr(feddr.FedAvgM()) == "FedAvgM(server_lr=1.0, momentum=0.9)"
    named = feddr.FedOpt(optax.adam(0.1), name="adam(0.1)")
    assert repr(named) == "FedOpt(name='adam(0.1)')"
    assert named != feddr.FedOpt(optax.adam(0.2), name="adam(0.1)")


def test_another_optimiser_is_another_run(tmp_path: Path) -> None:
    def go(lr: float, rounds: int) -> None:
        algorithm = feddr.FedOpt(optax.adam(lr), name=f"adam({lr})")
        kept: dict[str, Any] = {"checkpoint": feddr.Checkpoint(tmp_path / "kept", resume=True)}
        feddr.simulate(problem(), algorithm, local=SGD(lr=LR), rounds=rounds, **kept)

    go(0.1, 2)
    go(0.1, 4)
    with pytest.raises(CheckpointError, match=r"it has algorithm = FedOpt\(name='adam\(0.1\)'\)"):
        go(0.2, 6)


def test_what_is_no_optimiser_is_refused() -> None:
    wrong: Any = "adam"
    with pytest.raises(ValueError, match=r"optimiser must be one of optax, got 'adam'; such as optax.adam\(0.01\)"):
        feddr.FedOpt(wrong)
    with pytest.raises(ValueError, match=r"b2 must be at least 0 and below 1, got 1.0; 0 for no memory"):
        feddr.FedAdam(b2=1.0)
    with pytest.raises(ValueError, match=r"tau must be positive, got 0.0; 1e-3 is usual"):
        feddr.FedYogi(tau=0.0)
