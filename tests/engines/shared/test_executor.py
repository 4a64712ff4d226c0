"""Uploads are compressed in a row, after the local work of a round, and no thread makes a difference."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.compress import Quantised
from feddr.engines.shared import executor
from tests.conftest import make_classes

LOCAL = feddr.local.SGD(lr=0.05, epochs=1, batch_size=4)


def run(upload: Quantised | None, **more: Any) -> feddr.Result:
    data = make_classes(sizes=(13, 30, 8, 21), dimension=5, classes=3, seed=2)
    problem = feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), data)
    method = feddr.FedDR(eta=1.0, alpha=1.1, upload=upload)
    return feddr.simulate(problem, method, local=LOCAL, rounds=3, **more)


@pytest.mark.parametrize("upload", [None, Quantised(4)], ids=repr)
def test_uploads_are_compressed_once_all_clients_have_worked(
    upload: Quantised | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    begin, finish = executor.ClientExecutor._begin, executor.ClientExecutor._finish

    def noted_begin(self: Any, tasks: Any) -> Any:
        end = begin(self, tasks)

        def noted() -> Any:
            events.extend("worked" for _ in tasks)
            return end()

        return noted

    def noted_finish(self: Any, one: Any) -> Any:
        events.append("finished")
        return finish(self, one)

    monkeypatch.setattr(executor.ClientExecutor, "_begin", noted_begin)
    monkeypatch.setattr(executor.ClientExecutor, "_finish", noted_finish)
    run(upload, threads=1)
    rounds = [events[k : k + 8] for k in range(0, len(events), 8)]
    in_a_row = ["worked"] * 4 + ["finished"] * 4
    assert all(sorted(one) == sorted(in_a_row) for one in rounds)
    if upload is not None:
        assert rounds == [in_a_row] * 3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_several_threads_compress_to_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(Quantised(4, stochastic=True), threads=1)
    monkeypatch.setattr(executor, "SEVERAL", 0)
    shared = run(Quantised(4, stochastic=True), threads=threads)
    for one, other in zip(tree.leaves(expected.params), tree.leaves(shared.params), strict=True):
        np.testing.assert_array_equal(one, other)
    assert shared.history.last.bytes_up == expected.history.last.bytes_up
