"""Uploads that must not count: each is refused with its reason, and the run is the one in which it was never sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message

from feddr.flower import REASONS
from tests.flower.fake_grid import FakeGrid, Fate, fields
from tests.flower.federations import events
from tests.flower.test_faults import is_the_undisturbed_run, nth_train, run


def altered(**changes: Any) -> Callable[[Message], Message]:
    def change(message: Message) -> Message:
        for name, value in changes.items():
            record = fields(message)
            record[name] = value(record[name]) if callable(value) else value
        return message

    return change


def with_arrays(change: Callable[[Any], Any]) -> Callable[[Message], Message]:
    def apply(message: Message) -> Message:
        record = message.content["arrays"]
        assert isinstance(record, ArrayRecord)
        message.content["arrays"] = ArrayRecord({name: change(array.numpy()) for name, array in record.items()})
        return message

    return apply


def without_field(message: Message) -> Message:
    del fields(message)["number"]
    return message


def with_more(message: Message) -> Message:
    message.content["more"] = ArrayRecord({"x": Array(np.zeros(1))})
    return message


def announced(x: Any) -> Array:
    return Array("float64", (1_250_000_000,), "numpy.ndarray", Array(x).data)


ALTERED: dict[str, tuple[str, Callable[[Message], Message]]] = {
    "another run": ("foreign", altered(run="another")),
    "another run of this name": ("foreign", altered(uid="0123456789abcdef")),
    "another client": ("foreign", altered(client=lambda i: (i + 1) % 3)),
    "another task": ("repeated", altered(ticket="0123456789abcdef")),
    "an old number": ("stale", altered(number=lambda n: n - 1)),
    "a negative number": ("malformed", altered(number=-1)),
    "an absurd number": ("malformed", altered(number=2**60)),
    "another version": ("malformed", altered(version=lambda v: v + 1)),
    "a missing field": ("malformed", without_field),
    "a field of another type": ("malformed", altered(number=1.0)),
    "a yes for a number": ("malformed", altered(number=True)),
    "a negative error": ("malformed", altered(error=-1.0)),
    "negative steps": ("malformed", altered(steps=-5)),
    "more records": ("malformed", with_more),
    "another precision": ("wrong-type", altered(precision="float32")),
    "another type": ("wrong-type", with_arrays(lambda x: Array(x.astype(np.float32)))),
    "another shape": ("misshapen", with_arrays(lambda x: Array(x[:-1]))),
    "another rank": ("misshapen", with_arrays(lambda x: Array(x[None]))),
    "10 GB announced": ("oversized", with_arrays(announced)),
    "more bytes": ("oversized", with_arrays(lambda x: Array("float64", x.shape, "numpy.ndarray", bytes(5000)))),
    "no numbers": ("not-finite", with_arrays(lambda x: Array(np.full_like(x, np.nan)))),
    "infinity": ("not-finite", with_arrays(lambda x: Array(np.full_like(x, np.inf)))),
    "far away": ("too-far", with_arrays(lambda x: Array(x + 1e6))),
}


@pytest.mark.parametrize("what", ALTERED)
def test_an_upload_that_must_not_count_does_not(tmp_path: Path, what: str) -> None:
    """The client that sent it is asked again, goes back to the update before, and does the same once more."""
    reason, change = ALTERED[what]
    # The fourth task is the second one of some client, so that there is an older number to send.
    run(FakeGrid(fate=nth_train(4, lambda: Fate(change=change))), tmp_path, max_distance=1e4)
    refused = events(tmp_path, "refused")
    assert [event["reason"] for event in refused] == [reason]
    is_the_undisturbed_run(tmp_path)


def test_every_reason_to_refuse_is_tested_here_or_among_the_nodes() -> None:
    secure = {"changed-key", "wrong-share"}  # of secure rounds
    assert {reason for reason, _ in ALTERED.values()} | {"unknown"} | secure == set(REASONS)
