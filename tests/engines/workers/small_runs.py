"""Small runs that are made twice, on one machine and on workers, and must be the same in every bit."""

from typing import Any

import jax
import numpy as np

import feddr
from feddr.history import COLUMNS
from tests.conftest import make_classes


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
