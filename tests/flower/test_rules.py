"""What travels is absolute: the server works out what the client's own rules would have sent."""

from typing import Any

import numpy as np
import optax
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm, Deployable, Uploads
from feddr.local import Solution

METHODS = [
    feddr.FedDR(eta=0.7, alpha=1.3),
    feddr.FedDR(eta=0.7, alpha=1.3, init="joining"),
    feddr.FedDR(eta=0.7, alpha=1.3, init="full"),
    feddr.AsyncFedDR(eta=0.7, alpha=0.9),
    feddr.FedAvg(),
    feddr.FedProx(mu=0.5),
    feddr.FedPD(eta=0.7),
    feddr.FedSplit(eta=0.7),
    feddr.Scaffold(),
    feddr.FedAsync(),
    feddr.FedBuff(buffer=2),
    feddr.CA2FL(buffer=2),
    feddr.FedAvgM(),
    feddr.FedAdam(),
    feddr.FedYogi(),
    feddr.FedAdagrad(),
    feddr.FedOpt(optax.sgd(1.0)),
]
FORGETFUL = (
    *(feddr.FedAvg, feddr.FedProx, feddr.FedAsync, feddr.FedBuff),
    *(feddr.FedAvgM, feddr.FedAdam, feddr.FedYogi, feddr.FedAdagrad, feddr.FedOpt),
)
X0 = {"w": np.array([[0.5, -1.0], [2.0, 0.25]], np.float32), "b": np.zeros(2, np.float32)}


def some(rng: np.random.Generator) -> tree.Tree:
    return tree.map(lambda a: rng.normal(size=a.shape).astype(np.float32), X0)


def message(algorithm: Algorithm, rng: np.random.Generator) -> tree.Tree:
    sent = algorithm.broadcast(algorithm.server(tree.cast(X0, np.float64)))
    return tree.map(lambda a: rng.normal(size=np.shape(a)).astype(np.float32), sent)


@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_the_server_finds_the_upload_from_absolute_values(algorithm: Deployable) -> None:
    rng = np.random.default_rng(0)
    assert isinstance(algorithm, Deployable)
    sent = message(algorithm, rng)
    c = algorithm.client(X0, sent)
    before = algorithm.absolute_upload(c, X0)
    for _ in range(3):
        sent = message(algorithm, rng)
        sub = algorithm.subproblem(c, sent)
        solution = Solution(some(rng), 1, np.nan, some(rng))
        c, upload = algorithm.finish(c, sent, sub, solution)
        counted = algorithm.absolute_upload(c, solution.x)
        found = algorithm.increment(counted, before, sent)
        for ours, theirs in zip(tree.leaves(found), tree.leaves(upload), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        before = counted


@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_drift_is_the_distance_to_the_sum_of_what_is_counted(algorithm: Deployable) -> None:
    """Two clients with weights 1/4 and 3/4 take part; the server's memory is then the weighted sum of their values."""
    rng, weights = np.random.default_rng(1), (0.25, 0.75)
    s = algorithm.server(tree.cast(X0, np.float64))
    sent = tree.cast(algorithm.broadcast(s), np.float32)
    changes: Any = None
    total: Any = None
    for w in weights:
        c = algorithm.client(X0, sent)
        solution = Solution(some(rng), 1, np.nan, some(rng))
        after, change = algorithm.finish(c, sent, algorithm.subproblem(c, sent), solution)
        change = tree.scale(w, tree.cast(change, np.float64))
        value = tree.scale(w, tree.cast(algorithm.absolute_upload(after, solution.x), np.float64))
        changes = change if changes is None else tree.add(changes, change)
        total = value if total is None else tree.add(total, value)
    s = algorithm.aggregate(s, Uploads(changes, 1.0, 1.0, 1.0), lambda x, _: x)
    assert algorithm.invariant_gap(s, total) <= 1e-14
    remembers = not isinstance(algorithm, FORGETFUL)
    wrong = tree.map(lambda a: a + 1.0, total)
    assert (algorithm.invariant_gap(s, wrong) > 0.5) == remembers


@pytest.mark.parametrize("algorithm", METHODS, ids=repr)
def test_a_client_that_lost_its_state_begins_at_the_broadcast(algorithm: Deployable) -> None:
    sent = message(algorithm, np.random.default_rng(2))
    sub = algorithm.subproblem(algorithm.recover(sent), sent)
    xbar = sent.x if hasattr(sent, "x") else sent
    assert tree.norm(tree.sub(sub.start, xbar)) == 0
    if sub.center is not None:
        assert tree.norm(tree.sub(sub.center, xbar)) <= 1e-6
    if sub.linear is not None:
        assert tree.norm(sub.linear) == 0
