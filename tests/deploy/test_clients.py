"""Client processes that are killed in the midst of an update, and clients that misbehave on purpose."""

import os
import signal

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("two nodes")]

# What clients 0 and 1 do, update by update, and why it is refused. To be held is to be killed, so there is no answer.
FIRST = [("", ""), ("hold-before", ""), ("nan", "not-finite"), ("shape", "misshapen"), ("announce", "oversized")]
FIRST += [("foreign", "foreign")]
SECOND = [("", ""), ("hold-after", ""), ("repeat", "repeated"), ("header", "malformed"), ("garbage", "malformed")]
SECOND += [("type", "wrong-type")]
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


def test_clients_that_are_killed_or_misbehave_leave_no_trace(federation: Federation) -> None:
    """One is killed before its state is written, the other between that and the reply; then both answer nonsense."""
    for i, faults in enumerate((FIRST, SECOND)):
        (federation.node_state(i) / "faults").write_text("\n".join(fault for fault, _ in faults))
    federation.submit(APP, clients=2, feddr__rounds=2, feddr__name="clients")
    folder = federation.run_folder("clients")
    for i in (0, 1):
        held = federation.node_state(i) / "held"
        wait_for(lambda held=held: held.exists() and held.read_text() != "", 90, str(held), federation.explain)  # type: ignore[misc]
        os.kill(int(held.read_text()), signal.SIGKILL)
    assert invariant(folder) <= 1e-15
    written = {i: max(state_numbers(federation, i)) for i in (0, 1)}
    federation.wait_event("clients", "error", 90, times=2)
    for count in range(1, len(TOLD) + 1):
        federation.wait_event("clients", "refused", 120, times=count)
        assert invariant(folder) <= 1e-15
    federation.wait_event("clients", "end", 120)
    log = federation.log("clients")

    assert written == {0: 1, 1: 2}, "one was killed before its state was written, the other after"
    assert sorted((line["client"], line["code"]) for line in log if line["event"] == "error") == [(0, 8), (1, 8)]
    assert not any(line["rejoined"] for line in log if line["event"] == "accepted")
    for i, faults in enumerate((FIRST, SECOND)):
        refused = [line["reason"] for line in log if line["event"] == "refused" and line["client"] == i]
        assert refused == [reason for _, reason in faults if reason]
    is_the_reference_run(folder, 2, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    again = "asked again, it continues from the update that was accepted: the undisturbed run, to 1e-12"
    record(10, "kill -9 of a client process in mid-update", "error 8", again)
    record(20, "a dropped reply: kill -9 when the state was written and the reply had not left", "error 8", again)
    for fault, reason in FIRST + SECOND:
        if fault in TOLD:
            order, text = TOLD[fault]
            record(order, text, f"refused: {reason}", "asked again, answered well: the undisturbed run, to 1e-12")


def state_numbers(federation: Federation, i: int) -> list[int]:
    files = (federation.node_state(i) / "node/clients" / f"client-{i}/state").glob("*.safetensors")
    return [int(path.stem) for path in files]
