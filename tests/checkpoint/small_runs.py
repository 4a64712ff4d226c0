"""Small runs of both engines, and when two of them are the same."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

import feddr
from feddr import delays, tree
from feddr.algorithms import Algorithm, Asynchronous
from feddr.engines.shared.state import Progress
from tests.conftest import make_classes, make_regression

SGD = feddr.local.SGD(lr=0.1, epochs=1, batch_size=4)
ROUGH = delays.Combined(
    [delays.LogNormal(0.5), delays.Network(0.1, 1e4), delays.Periodic(7.0, 5.0), delays.Dropout(0.2, pause=1.5)]
)
"""Everything that can go wrong at once."""


def classes(composite: bool = True) -> feddr.Problem:
    data = make_classes((5, 9, 12, 7, 30, 8), 4, 3, seed=0)
    model = feddr.models.softmax(4, 3)
    g = feddr.prox.L1(1e-3) if composite else None
    return feddr.Problem.classification(model, data, g=g, weights="samples")


def squares() -> feddr.Problem:
    data = make_regression((7, 40, 12, 25, 3), 6, seed=1)
    return feddr.Problem.regression(feddr.models.linear(6), data, g=feddr.prox.L1(0.05), weights="samples")


def go(problem: feddr.Problem, algorithm: Algorithm, length: int, **more: Any) -> feddr.Result:
    """Run an algorithm on its engine."""
    more = {"local": SGD, "evaluate_every": 4, "seed": 3, **more}
    if isinstance(algorithm, Asynchronous):
        return feddr.simulate_async(problem, algorithm, updates=length, **more)
    return feddr.simulate(problem, algorithm, rounds=length, **more)


def stop_at(k: int) -> Callable[[Progress], bool]:
    return lambda progress: progress.round >= k


def digest(result: feddr.Result) -> str:
    """Return what is the same for two results if and only if they are, but for the time that they took."""
    sha = hashlib.sha256()
    state = result.state
    own = [(i, state.clients[i], state.updates[i]) for i in sorted(state.clients)]
    for leaf in tree.leaves((result.params, state.server, own)):
        array = np.asarray(leaf)
        sha.update(f"{array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    rows = [asdict(row) | {"wall_time": 0.0} for row in result.history.rows]
    counts = [state.bytes_up, state.bytes_down, state.local_steps, state.skipped, repr(state.prox_error)]
    watched = [] if result.watch is None else [list(map(repr, one)) for one in result.watch.rounds]
    told = [rows, counts, watched, [list(event) for event in result.events], result.tau, result.T, result.settings]
    sha.update(json.dumps(told).encode())
    return sha.hexdigest()
