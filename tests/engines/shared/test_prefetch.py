"""Prefetching: batches are the same whenever they are drawn, and idle threads draw those of the next round."""

import threading
from collections.abc import Iterable

import numpy as np
import pytest

import feddr
from feddr.engines.shared import executor
from feddr.engines.shared.prefetch import BatchPrefetcher, Key
from feddr.engines.shared.randomness import client_rng
from feddr.local.solver import Batches
from feddr.xla import batching
from tests.conftest import make_classes

SIZES = np.array([4, 9, 7])
SGD = feddr.local.SGD(lr=0.1, epochs=2, batch_size=3)
ROUNDS = 8
LARGEST = 0
"""The client with the most samples of ``one_large_client``, whose task a round begins with."""


def prefetcher(local: feddr.local.SGD = SGD, seed: int = 0) -> BatchPrefetcher:
    """Return a prefetcher for three clients of different sizes."""
    return BatchPrefetcher(local, SIZES, seed)


def draw_ahead(batches: BatchPrefetcher, updates: Iterable[Key]) -> list[int]:
    """Draw the batches of these updates, and return the clients in the order in which that was done."""
    order = []
    for draw in batches.ahead(updates):
        before = set(batches._ready)
        draw()
        order += [client for client, _ in set(batches._ready) - before]
    return order


def assert_same(drawn: Batches | None, expected: Batches | None) -> None:
    assert drawn is not None
    assert expected is not None
    steps = min(len(drawn.rows), len(expected.rows))  # prefetched batches are padded with further steps
    assert steps > 0
    for one, other in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(one[:steps], other[:steps])


def one_large_client() -> feddr.Problem:
    """Return a federation whose first client has most of the samples."""
    data = make_classes((40, 8, 8, 8), 4, 3, seed=1)
    return feddr.Problem.classification(feddr.models.softmax(4, 3), data)


class WaitsForPrefetch(BatchPrefetcher):
    """A prefetcher whose largest client lasts until another thread has drawn its next batches.

    Attributes
    ----------
    was_ready
        For each update of the largest client, whether its batches had been drawn ahead.
    drawn
        Set once the batches of this update of the largest client have been drawn ahead.
    """

    was_ready: list[bool]
    drawn: dict[int, threading.Event]

    def _prepare(self, key: Key) -> None:
        super()._prepare(key)
        client, update = key
        if client == LARGEST:
            self.drawn[update].set()

    def take(self, client: int, update: int) -> Batches | None:
        ready = (client, update) in self._ready
        batches = super().take(client, update)
        if client == LARGEST:
            self.was_ready.append(ready)
            is_last = update == ROUNDS - 1
            assert is_last or self.drawn[update + 1].wait(timeout=30)
        return batches


def test_batches_are_the_same_whenever_they_are_drawn() -> None:
    batches = prefetcher(seed=5)
    draw_ahead(batches, [(0, 3), (1, 0)])
    for client, update in [(0, 3), (1, 0), (2, 0), (0, 3), (1, 1)]:
        expected = SGD.batches(int(SIZES[client]), client_rng(5, client, update))
        assert_same(batches.take(client, update), expected)


def test_batches_of_large_clients_are_drawn_first() -> None:
    assert draw_ahead(prefetcher(), [(0, 0), (1, 0), (2, 0)]) == [1, 2, 0]


def test_batches_that_are_no_longer_wanted_are_dropped() -> None:
    batches = prefetcher()
    for updates in ([(0, 0), (1, 0), (2, 0)], [(2, 4)], []):
        draw_ahead(batches, updates)
        assert set(batches._ready) == set(updates)


def test_solvers_that_use_all_rows_have_nothing_to_draw() -> None:
    batches = prefetcher(feddr.local.SGD(lr=0.1, batch_size=None))
    draw_ahead(batches, [(0, 0)])
    assert batches.take(0, 0) is None


def test_an_idle_thread_draws_for_the_next_round_and_changes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_a_client = batching.BatchingPolicy(width=1, enough=-1.0, side_by_side=False)
    monkeypatch.setattr(batching, "choose", lambda: one_call_a_client)
    problem = one_large_client()

    def train(threads: int) -> feddr.Result:
        algorithm = feddr.FedDR(eta=1.0)
        return feddr.simulate(problem, algorithm, local=SGD, rounds=ROUNDS, threads=threads, progress=False)

    alone = train(threads=1)
    WaitsForPrefetch.was_ready = []
    WaitsForPrefetch.drawn = {update: threading.Event() for update in range(1, ROUNDS)}
    monkeypatch.setattr(executor, "BatchPrefetcher", WaitsForPrefetch)
    together = train(threads=2)

    first, *later = WaitsForPrefetch.was_ready
    assert not first  # nobody could draw before the first round
    assert later == [True] * (ROUNDS - 1)
    np.testing.assert_array_equal(alone.params["weight"], together.params["weight"])
