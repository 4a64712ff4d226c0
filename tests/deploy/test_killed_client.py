"""Client processes killed in the midst of an update: before their state is written, and between that and the reply."""

import os
import signal
from pathlib import Path

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = pytest.mark.deploy


def test_a_killed_client_process_does_its_update_again(tmp_path: Path) -> None:
    with Federation(tmp_path / "client") as federation:
        federation.start_server()
        federation.start_nodes(range(2))
        for i, fault in enumerate(("hold-before", "hold-after")):
            (federation.node_state(i) / "faults").write_text(f"\n{fault}")
        federation.submit(APP, clients=2, feddr__rounds=3, feddr__name="client")
        folder = federation.run_folder("client")
        for i in (0, 1):
            held = federation.node_state(i) / "held"
            wait_for(lambda held=held: held.exists() and held.read_text() != "", 90, str(held), federation.explain)  # type: ignore[misc]
            os.kill(int(held.read_text()), signal.SIGKILL)
        assert invariant(folder) <= 1e-15
        written = {i: max(state_numbers(federation, i)) for i in (0, 1)}
        federation.wait_event("client", "error", 90, times=2)
        assert invariant(folder) <= 1e-15
        federation.wait_event("client", "end", 120)
        log = federation.log("client")

    assert written == {0: 1, 1: 2}, "one was killed before its state was written, the other after"
    assert sorted((line["client"], line["code"]) for line in log if line["event"] == "error") == [(0, 8), (1, 8)]
    assert not any(line["rejoined"] for line in log if line["event"] == "accepted")
    is_the_reference_run(folder, 3, 2)
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    again = "asked again, it goes on from the update that was accepted: the undisturbed run, to 1e-12"
    record(10, "kill -9 of a client process in mid-update", "error 8", again)
    record(20, "a dropped reply: kill -9 when the state was written and the reply had not left", "error 8", again)


def state_numbers(federation: Federation, i: int) -> list[int]:
    files = (federation.node_state(i) / "node/client" / f"client-{i}/state").glob("*.safetensors")
    return [int(path.stem) for path in files]
