"""Clients that misbehave on purpose: everything wrong is refused, asked for again, and leaves no trace in the books."""

from pathlib import Path

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = pytest.mark.deploy

ROUNDS = 3
# What clients 0 and 1 do, update by update, and why it is refused.
FIRST = [("", ""), ("nan", "not-finite"), ("shape", "misshapen"), ("announce", "oversized"), ("foreign", "foreign")]
SECOND = [("", ""), ("repeat", "repeated"), ("header", "malformed"), ("garbage", "malformed"), ("type", "wrong-type")]
TOLD = {
    "nan": (50, "NaN in an upload"),
    "shape": (51, "an upload of the wrong shape"),
    "type": (52, "an upload of the wrong type"),
    "announce": (53, "10 GB announced by an array's shape"),
    "header": (54, "10 GB announced by the bytes' own header"),
    "garbage": (55, "bytes that are no array"),
    "foreign": (56, "an upload of another run"),
    "repeat": (57, "a repeated upload: the one before, once more"),
}


def test_what_is_wrong_is_refused_and_asked_for_again(tmp_path: Path) -> None:
    with Federation(tmp_path / "garbage") as federation:
        federation.start_server()
        federation.start_nodes(range(2))
        for i, faults in enumerate((FIRST, SECOND)):
            (federation.node_state(i) / "faults").write_text("\n".join(fault for fault, _ in faults))
        federation.submit(APP, clients=2, feddr__rounds=ROUNDS, feddr__name="garbage")
        folder = federation.run_folder("garbage")
        for count in range(1, len(FIRST) + len(SECOND) - 1):
            federation.wait_event("garbage", "refused", 120, times=count)
            assert invariant(folder) <= 1e-15
        federation.wait_event("garbage", "end", 120)
        log = federation.log("garbage")

    refused = {
        i: [line["reason"] for line in log if line["event"] == "refused" and line["client"] == i] for i in (0, 1)
    }
    assert refused == {0: [reason for _, reason in FIRST if reason], 1: [reason for _, reason in SECOND if reason]}
    is_the_reference_run(folder, ROUNDS, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    for fault, reason in FIRST + SECOND:
        if fault:
            order, text = TOLD[fault]
            record(order, text, f"refused: {reason}", "asked again, answered well: the undisturbed run, to 1e-12")
