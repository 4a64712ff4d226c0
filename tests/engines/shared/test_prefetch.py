import threading

import numpy as np
import pytest

import feddr
from feddr.engines.shared import executor
from feddr.engines.shared.prefetch import BatchPrefetcher
from feddr.engines.shared.randomness import client_rng
from feddr.local.solver import Batches
from feddr.xla import batching
from tests.conftest import make_classes

SIZES = np.array([4, 9, 7])
SGD = feddr.local.SGD(lr=0.1, epochs=2, batch_size=3)


def same(a: Batches | None, b: Batches | None) -> bool:
    assert a is not None
    assert b is not None
    steps = min(len(a.rows), len(b.rows))  # one of them may have some left over
    return all(np.array_equal(one[:steps], other[:steps]) for one, other in zip(a, b, strict=True))


def test_batches_are_the_same_whenever_they_are_drawn() -> None:
    draws = BatchPrefetcher(SGD, SIZES, seed=5)
    for draw in draws.ahead([(0, 3), (1, 0)]):
        draw()
    for client, update in [(0, 3), (1, 0), (2, 0), (0, 3), (1, 1)]:
        expected = SGD.batches(int(SIZES[client]), client_rng(5, client, update))
        assert same(draws.take(client, update), expected)


def test_large_clients_are_first_and_what_is_not_wanted_is_forgotten() -> None:
    draws = BatchPrefetcher(SGD, SIZES, seed=0)
    for wanted in ([(0, 0), (1, 0), (2, 0)], [(2, 4)], []):
        order = []
        for draw in draws.ahead(wanted):
            before = set(draws._ready)
            draw()
            order += [client for client, _ in set(draws._ready) - before]
        assert order == sorted((client for client, _ in wanted), key=lambda client: -SIZES[client])
        assert set(draws._ready) == set(wanted)


def test_solvers_that_use_all_rows_have_nothing_to_draw() -> None:
    draws = BatchPrefetcher(feddr.local.SGD(lr=0.1, batch_size=None), SIZES, seed=0)
    for draw in draws.ahead([(0, 0)]):
        draw()
    assert draws.take(0, 0) is None


def test_a_thread_without_work_draws_for_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_classes((40, 8, 8, 8), 4, 3, seed=1)
    problem = feddr.Problem.classification(feddr.models.softmax(4, 3), data)
    monkeypatch.setattr(batching, "choose", lambda: batching.BatchingPolicy(width=1, enough=-1.0, side_by_side=False))

    def run(threads: int) -> feddr.Result:
        return feddr.simulate(problem, feddr.FedDR(eta=1.0), local=SGD, rounds=8, threads=threads)

    alone, ready = run(threads=1), []
    drawn = {update: threading.Event() for update in range(1, 8)}

    class Watched(BatchPrefetcher):
        def _prepare(self, key: tuple[int, int]) -> None:
            super()._prepare(key)
            if key[0] == 0:
                drawn[key[1]].set()

        def take(self, client: int, update: int) -> Batches | None:
            if client == 0:  # the largest, which is begun first: it lasts until the other thread has found time to draw
                ready.append((client, update) in self._ready)
                taken = super().take(client, update)
                assert update == 7 or drawn[update + 1].wait(30)
                return taken
            return super().take(client, update)

    monkeypatch.setattr(executor, "BatchPrefetcher", Watched)
    together = run(threads=2)
    assert ready == [False] + [True] * 7
    np.testing.assert_array_equal(alone.params["weight"], together.params["weight"])
