"""Uploads of four bits on real processes: a lost reply, damaged bytes and a repeated upload leave no trace."""

import os
import signal

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("two nodes")]


def test_faults_with_compressed_uploads_leave_no_trace(federation: Federation) -> None:
    """One is killed between its state and its reply, in its second update, and then sends damaged bytes."""
    held = federation.node_state(0) / "held4"
    (federation.node_state(0) / "faults").write_text("\nhold-after 4\ndamage")
    (federation.node_state(1) / "faults").write_text("\nrepeat")
    federation.submit(APP, clients=2, bits=4, feddr__rounds=3, feddr__name="bits")
    folder = federation.run_folder("bits")
    wait_for(lambda: held.exists() and held.read_text() != "", 90, str(held), federation.explain)
    os.kill(int(held.read_text()), signal.SIGKILL)
    assert invariant(folder) <= 1e-15
    federation.wait_event("bits", "end", 150)
    log = federation.log("bits")

    assert [(line["client"], line["code"]) for line in log if line["event"] == "error"] == [(0, 8)]
    refused = sorted((line["client"], line["reason"]) for line in log if line["event"] == "refused")
    assert refused == [(0, "malformed"), (1, "repeated")]
    assert not any(line["rejoined"] for line in log if line["event"] == "accepted")
    is_the_reference_run(folder, 3, 2, bits=4)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    again = "asked again, it sends the way from what the server counts: the undisturbed run, to 1e-12"
    record(58, "uploads of 4 bits: kill -9 when the state was written and the reply had not left", "error 8", again)
    record(
        59, "uploads of 4 bits: damaged bytes, and the one before once more", "refused: malformed, and repeated", again
    )
