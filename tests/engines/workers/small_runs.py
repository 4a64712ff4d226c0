"""Small runs that are made twice, on one machine and on workers, and must be the same in every bit."""

from typing import Any

import jax
import numpy as np

import feddr
from feddr.certify import certificate
from feddr.history import COLUMNS
from tests.conftest import make_classes
from tests.nonconvex_problems import make


def problem(clients: int = 70, seed: int = 0) -> feddr.Problem:
    """Return a small problem whose clients differ in size."""
    sizes = tuple(np.random.default_rng(seed).integers(3, 9, clients).tolist())
    data = make_classes(sizes, 4, 3, seed=seed)
    return feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), data, g=feddr.prox.L1(0.01), weights="samples")


def arguments(**changes: Any) -> dict[str, Any]:
    """Return the arguments of a run of a few rounds that asks for all metrics."""
    common: dict[str, Any] = {
        "local": feddr.local.SGD(lr=0.05, epochs=2, batch_size=4),
        "sampling": feddr.sampling.Uniform(20),
        "rounds": 4,
        "evaluate_every": 2,
        "personal": True,
        "per_client": True,
        "metrics": ["f1"],
        "progress": False,
    }
    return common | changes


def assert_same(one: feddr.Result, other: feddr.Result) -> None:
    """Compare results bit for bit: model, server, clients, counters and history."""
    assert_equal(one.params, other.params)
    assert_equal(one.state.server, other.state.server)
    assert sorted(one.state.clients) == sorted(other.state.clients)
    for i, state in one.state.clients.items():
        assert_equal(state, other.state.clients[i])
    for name in ("updates", "bytes_up", "bytes_down", "local_steps", "skipped", "met"):
        assert getattr(one.state, name) == getattr(other.state, name), name
    assert len(one.history) == len(other.history)
    for name in (*COLUMNS, *one.history.metrics):
        if name != "wall_time":
            np.testing.assert_array_equal(one.history.column(name), other.history.column(name), name)


def assert_equal(one: Any, other: Any) -> None:
    """Compare trees of arrays bit for bit."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def certified(engine: Any, rounds: int = 3, init: str = "lazy", **changes: Any) -> feddr.Result:
    """Run with a certificate, on a problem whose clients differ in size and have step sizes of their own."""
    one = make(0, g=feddr.prox.L1(0.01), sizes=(5, 9) * 5, weights="samples")
    algorithm = feddr.FedDR(eta=[0.02 + 0.001 * i for i in range(10)], alpha=1.2, init=init)
    scheme = feddr.sampling.Full() if init == "full" else feddr.sampling.Uniform(4)
    common: dict[str, Any] = {
        "local": feddr.local.Accelerated(tol=1e-6),
        "certify": True,
        "precision": "float64",
        "seed": 1,
        "progress": False,
    }
    return engine(one, algorithm, rounds=rounds, sampling=scheme, **common | changes)


def assert_same_certificate(one: feddr.Result, other: feddr.Result) -> None:
    """Compare what was measured in every round bit for bit, and what is made of it."""
    assert one.watch is not None
    assert other.watch is not None
    assert len(one.watch.rounds) == len(other.watch.rounds)
    np.testing.assert_array_equal(np.array(one.watch.rounds), np.array(other.watch.rounds))
    assert certificate(one).to_dict() == certificate(other).to_dict()
