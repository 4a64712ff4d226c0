"""The server app or the SuperLink killed in the midst of a run, then submitted again; a task that outlives its time."""

import os
import signal

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("two nodes")]


def test_a_task_that_outlives_its_time_is_sent_again(federation: Federation) -> None:
    (federation.node_state(0) / "faults").write_text("\nsleep 45")
    federation.submit(APP, clients=2, feddr__rounds=2, feddr__name="late", feddr__ttl=40.0)
    federation.wait_event("late", "error", 90)
    folder = federation.run_folder("late")
    assert invariant(folder) <= 1e-15
    federation.wait_event("late", "end", 120)
    log = federation.log("late")
    errors = {(line["client"], line["code"]) for line in log if line["event"] == "error"}
    assert (0, 3) in errors
    assert {code for _, code in errors} == {3}, "on a busy machine the other one may be late, too"
    is_the_reference_run(folder, 2, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    record(
        21,
        "an update that takes longer than the time to live",
        "error 3",
        "asked again, the late reply is dropped: the undisturbed run, to 1e-12",
    )


def test_a_killed_server_app_and_a_killed_superlink_resume_when_the_run_is_submitted_again(
    federation: Federation,
) -> None:
    # Its second update is asked for once more after the first kill, so the third is the fourth that it begins.
    (federation.node_state(1) / "faults").write_text("\nhold-before 1\n\nhold-before 2")
    settings = {"clients": 2, "feddr__rounds": 3, "feddr__name": "again"}
    first = federation.submit(APP, **settings)
    folder = federation.run_folder("again")
    wait_for((federation.node_state(1) / "held1").exists, 90, "node 1 in its second update", federation.explain)
    federation.wait_event("again", "accepted", 60, times=3)  # the other one's second update is in the ledger
    (server_app,) = federation.processes("flwr-serverapp")
    os.kill(server_app, signal.SIGKILL)
    assert invariant(folder) <= 1e-15
    (federation.node_state(1) / "release1").touch()
    second = federation.submit(APP, **settings)
    assert second != first

    wait_for((federation.node_state(1) / "held2").exists, 120, "node 1 in its third update", federation.explain)
    federation.wait_event("again", "accepted", 60, times=5)  # the other one's third
    before = len(federation.server_events("ready"))
    federation.kill_server()
    (federation.node_state(1) / "release2").touch()
    assert invariant(folder) <= 1e-15
    federation.wait_ready(before + 1)
    wait_for(lambda: not federation.processes("flwr-serverapp"), 60, "the old app is gone", federation.explain)
    federation.submit(APP, **settings)
    federation.wait_event("again", "end", 120)
    log = federation.log("again")

    assert [line["version"] for line in log if line["event"] == "resume"] == [1, 2]
    is_the_reference_run(folder, 3, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    record(
        40,
        "kill -9 of the ServerApp in the midst of a round; the run submitted again under its name",
        "`resume` at the version on the disk, with the round's uploads so far",
        "the round continues: the undisturbed run, to 1e-12",
    )
    record(
        41,
        "kill -9 of the SuperLink in mid-run; its supervisor starts it again on its database",
        "the run has failed; `resume` when it is submitted again under its name",
        "the nodes find it again by themselves, the round continues: the undisturbed run, to 1e-12",
    )
