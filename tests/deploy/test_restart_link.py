"""The SuperLink killed in the midst of a run: it comes back with its database, the run is submitted again."""

from pathlib import Path

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = pytest.mark.deploy


def test_a_killed_superlink_comes_back_and_the_run_goes_on(tmp_path: Path) -> None:
    settings = {"clients": 2, "feddr__rounds": 3, "feddr__name": "link"}
    with Federation(tmp_path / "link") as federation:
        federation.start_server()
        federation.start_nodes(range(2))
        federation.submit(APP, **settings)
        federation.wait_event("link", "accepted", 120, times=3)
        federation.kill_server()
        folder = federation.run_folder("link")
        assert invariant(folder) <= 1e-15
        federation.wait_ready(2)
        wait_for(lambda: not federation.processes("flwr-serverapp"), 60, "the old app is gone", federation.explain)
        federation.submit(APP, **settings)
        federation.wait_event("link", "end", 90)
        log = federation.log("link")

    assert [line["version"] for line in log if line["event"] == "resume"] == [1]
    is_the_reference_run(folder, 3, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    record(
        41,
        "kill -9 of the SuperLink in mid-run; its supervisor starts it again on its database",
        "the run has failed; `resume` when it is submitted again under its name",
        "the nodes find it again by themselves, the round goes on: the undisturbed run, to 1e-12",
    )
