"""The simulator against the reference loop, and against itself on other numbers of threads."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

import feddr
from feddr import local, tree
from feddr.algorithms import Algorithm
from feddr.engines.shared import executor
from feddr.engines.shared.state import Progress
from feddr.local import LocalSolver
from feddr.xla import batching
from feddr.xla.batching import BatchingPolicy
from tests.conftest import make_classes, make_regression
from tests.xla.test_batching import ALONE

ALGORITHMS = [
    feddr.FedDR(eta=0.8, alpha=1.6),
    feddr.FedDR(eta=0.8, alpha=1.2, init="full"),
    feddr.FedDR(eta=0.8, alpha=1.2, init="joining"),
    feddr.FedDR(eta=0.8, alpha=1.6, start="own"),
    feddr.FedDR(eta=[0.3, 2.0, 0.7, 1.1], alpha=1.2, mean="all"),
    feddr.FedDR(eta=[0.3, 2.0, 0.7, 1.1], alpha=1.2, init="full"),
    feddr.FedDR(eta=[0.3, 2.0, 0.7, 1.1], alpha=1.2, init="joining"),
    feddr.FedDR(),
    feddr.FedAvg(),
    feddr.FedProx(mu=0.5),
    feddr.FedPD(eta=0.8),
    feddr.FedSplit(eta=0.8),
    feddr.Scaffold(server_lr=0.9),
    feddr.MimeLite(beta=0.7),
    feddr.FedDyn(eta=0.8),
    feddr.FedAvgM(server_lr=0.9, momentum=0.7),
    feddr.FedAdam(),
    feddr.FedYogi(),
    feddr.FedAdagrad(),
    feddr.FedOpt(optax.nadam(0.01), name="nadam"),
]
COMPOSITE: list[Algorithm] = [
    feddr.FedMid(server_lr=0.9),
    feddr.FedMid(proximal="server"),
    feddr.FedMid(proximal="clients"),
    feddr.FedDualAvg(server_lr=0.9),
    feddr.FedDecoupled(server_lr=0.9),
]
SOLVERS: dict[str, LocalSolver] = {
    "sgd": local.SGD(lr=0.05, epochs=2, batch_size=4),
    "full batches": local.SGD(lr=0.05, epochs=3, batch_size=None, momentum=0.9),
    "adam": local.Optax(optax.adam(0.01), epochs=1, batch_size=7),
}
# Every algorithm and every solver; all of their pairs are for make test-slow.
PAIRS = [
    pytest.param(a, s, id=f"{a}, {s}", marks=[] if s == "sgd" or a == ALGORITHMS[0] else pytest.mark.slow)
    for a in ALGORITHMS
    for s in SOLVERS
]


def scheme(algorithm: Algorithm) -> feddr.sampling.Sampling:
    return feddr.sampling.Uniform(2) if algorithm.partial else feddr.sampling.Full()


@pytest.mark.parametrize(("algorithm", "solver"), PAIRS)
def test_simulate_agrees_with_reference(class_data: feddr.FederatedData, algorithm: Algorithm, solver: str) -> None:
    problem = feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), class_data, weights="samples")
    compare(problem, algorithm, SOLVERS[solver])


@pytest.mark.parametrize("algorithm", COMPOSITE, ids=repr)
@pytest.mark.parametrize("batch_size", [4, None])
def test_local_steps_with_g_agree_with_reference(
    class_data: feddr.FederatedData, algorithm: Algorithm, batch_size: int | None
) -> None:
    g = feddr.prox.ElasticNet(0.02, 0.01, mask=feddr.prox.leave("bias"))
    problem = feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), class_data, g=g, weights="samples")
    compare(problem, algorithm, local.SGD(lr=0.05, epochs=2, batch_size=batch_size))


def compare(problem: feddr.Problem, algorithm: Algorithm, solver: LocalSolver) -> None:
    arguments: dict[str, Any] = {
        "local": solver,
        "sampling": scheme(algorithm),
        "rounds": 5,
        "seed": 2,
        "precision": "float64",
    }
    ours = feddr.simulate(problem, algorithm, **arguments)
    plain = feddr.reference(problem, algorithm, **arguments)
    assert tree.norm(tree.sub(ours.params, plain.params)) < 1e-12
    for a, b in zip(ours.history.rows, plain.history.rows, strict=True):
        assert pytest.approx(b.F, rel=1e-12) == a.F
        assert a.gradient_mapping == pytest.approx(b.gradient_mapping, rel=1e-10)
        assert (a.round, a.bytes_up, a.bytes_down, a.local_steps) == (b.round, b.bytes_up, b.bytes_down, b.local_steps)
    assert ours.state.updates == plain.state.updates


def test_certified_solver_agrees_with_reference(regression_data: feddr.FederatedData) -> None:
    """The simulator estimates the curvature by Lanczos, the reference takes the exact Hessian; both certify 1e-10."""
    problem = feddr.Problem.regression(feddr.models.linear(6), regression_data, g=feddr.prox.L1(0.1))
    arguments: dict[str, Any] = {
        "local": local.Accelerated(tol=1e-12),
        "sampling": feddr.sampling.Uniform(2),
        "rounds": 8,
    }
    ours = feddr.simulate(problem, feddr.FedDR(eta=0.5, alpha=1.0), precision="float64", **arguments)
    plain = feddr.reference(problem, feddr.FedDR(eta=0.5, alpha=1.0), precision="float64", **arguments)
    assert tree.norm(tree.sub(ours.params, plain.params)) < 1e-10
    assert ours.history.last.prox_error <= 1e-12


@pytest.mark.parametrize("how", [batching.CPU, ALONE], ids=["shared calls", "calls in threads"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("algorithm", [feddr.FedDR(eta=0.8, alpha=1.6), feddr.Scaffold()], ids=repr)
def test_same_bits_for_every_number_of_threads(
    class_data: feddr.FederatedData,
    algorithm: Algorithm,
    precision: str,
    how: BatchingPolicy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "choose", lambda: how)
    problem = feddr.Problem.classification(feddr.models.mlp([5, 16, 3]), class_data)
    results = [
        feddr.simulate(
            problem,
            algorithm,
            local=local.SGD(lr=0.05, epochs=3, batch_size=4),
            sampling=feddr.sampling.Uniform(3),
            rounds=6,
            seed=9,
            precision=precision,
            personal=True,
            threads=threads,
        )
        for threads in (1, 2, 5)
    ]
    for other in results[1:]:
        for a, b in zip(tree.leaves(results[0].params), tree.leaves(other.params), strict=True):
            assert np.array_equal(a, b)
        for x, y in zip(results[0].history.rows, other.history.rows, strict=True):
            assert (x.F, x.test_accuracy, x.gradient_mapping) == (y.F, y.test_accuracy, y.gradient_mapping)


def test_short_calls_that_overlap_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than are under way at a time, and one client that is computed apart."""
    data = make_classes((2, 5, 9) * 7 + (300,), 4, 3, seed=2)
    problem, algorithm = feddr.Problem.classification(feddr.models.softmax(4, 3), data), feddr.FedDR(eta=1.0)
    arguments: dict[str, Any] = {"local": SOLVERS["sgd"], "rounds": 3, "precision": "float64"}
    monkeypatch.setattr(batching, "choose", lambda: BatchingPolicy(width=3, enough=5e3, side_by_side=False))

    def final(ahead: int) -> feddr.Result:
        monkeypatch.setattr(executor, "AHEAD", ahead)
        return feddr.simulate(problem, algorithm, **arguments)

    plain, alone = feddr.reference(problem, algorithm, **arguments), final(0)
    assert tree.norm(tree.sub(alone.params, plain.params)) < 1e-12
    for ahead in (1, 2, 100):
        for a, b in zip(tree.leaves(alone.params), tree.leaves(final(ahead).params), strict=True):
            np.testing.assert_array_equal(a, b)


def test_seeds_differ_and_repeat(class_data: feddr.FederatedData) -> None:
    problem = feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), class_data)

    def final(seed: int) -> float:
        solver = local.SGD(lr=0.05, epochs=1, batch_size=4)
        run = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=solver, rounds=3, seed=seed)
        return run.history.last.F

    assert final(0) == final(0)
    assert final(0) != final(1)


def test_no_recompilation_between_rounds_and_client_sizes(caplog: pytest.LogCaptureFixture) -> None:
    """Clients of sizes 3 to 900 in many rounds share the compiled loops of the first rounds."""
    data = make_regression(sizes=(3, 17, 60, 200, 900), dimension=4, seed=0)
    problem = feddr.Problem.regression(feddr.models.linear(4), data)
    compiled_at: list[int] = []

    def watch(_: Progress) -> None:
        compiled_at.append(sum("Compiling" in message for message in caplog.messages))

    with jax.log_compiles(True), caplog.at_level("WARNING"):
        feddr.simulate(
            problem,
            feddr.FedDR(eta=1.0),
            local=local.SGD(lr=0.01, epochs=2, batch_size=5),
            rounds=6,
            evaluate_every=1,
            callback=watch,
        )
    assert compiled_at[1] > 0
    assert compiled_at[-1] == compiled_at[1]
