"""The supervisor: starts again with growing pauses, ends the whole group when told, lets nobody share a state."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feddr.deploy.node import REJOIN_WAIT, cause
from tests.deploy.harness import wait_for

PROGRAM = """
import sys
from pathlib import Path
from feddr.deploy.events import Events
from feddr.deploy.supervise import Cause, Supervisor

folder, code = Path(sys.argv[1]), sys.argv[2]
Supervisor(
    lambda: [sys.executable, "-c", code, str(folder)],
    {},
    folder / "child.log",
    Events(folder / "events.jsonl", "test", quiet=True),
    lambda output, code: Cause("ended", output.strip(), wait=0.05 if "quick" in output else None),
    first_wait=0.1,
    longest_wait=0.4,
).run()
"""


def supervise(folder: Path, code: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), code], start_new_session=True)


def events(folder: Path, name: str) -> list[dict[str, object]]:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["event"] == name]


def end(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(10)


def test_it_starts_again_with_growing_pauses(tmp_path: Path) -> None:
    process = supervise(tmp_path, "raise SystemExit(3)")
    wait_for(lambda: len(events(tmp_path, "ended")) >= 5, 20, "five ends")
    assert end(process) == 0
    ended = events(tmp_path, "ended")[:5]
    assert [line["wait"] for line in ended] == [0.1, 0.2, 0.4, 0.4, 0.4]
    assert {line["exit_code"] for line in ended} == {3}
    assert len({line["pid"] for line in events(tmp_path, "started")}) == len(events(tmp_path, "started"))


def test_a_known_cause_has_its_own_pause_and_sees_only_the_last_life(tmp_path: Path) -> None:
    code = "import os, sys; p = sys.argv[1] + '/seen'; print('slow' if os.path.exists(p) else 'quick'); open(p, 'w')"
    process = supervise(tmp_path, code)
    wait_for(lambda: len(events(tmp_path, "ended")) >= 2, 20, "two ends")
    end(process)
    first, second = events(tmp_path, "ended")[:2]
    assert (first["wait"], second["wait"]) == (0.05, 0.2)
    assert "slow" not in str(first["text"])


def test_sigterm_ends_the_whole_group(tmp_path: Path) -> None:
    code = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1] + "/child", "w").write(str(child.pid))
time.sleep(60)
"""
    process = supervise(tmp_path, code)
    wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "", 20, "a grandchild")
    grandchild = int((tmp_path / "child").read_text())
    began = time.monotonic()
    assert end(process) == 0
    assert time.monotonic() - began < 5
    wait_for(lambda: not alive(grandchild), 5, "the grandchild is gone")
    assert events(tmp_path, "stopped")


@pytest.mark.parametrize("detached", [False, True])
def test_what_a_dead_process_left_behind_is_killed(tmp_path: Path, detached: bool) -> None:
    code = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session={detached})
open(sys.argv[1] + "/child", "w").write(str(child.pid))
"""
    process = supervise(tmp_path, code)
    wait_for(lambda: bool(events(tmp_path, "ended")), 20, "an end")
    wait_for(lambda: not alive(int((tmp_path / "child").read_text())), 5, "the orphan is gone")
    end(process)


def test_a_second_node_on_one_state_is_refused(tmp_path: Path) -> None:
    """Also when the first one's supervisor was killed and only its process lives."""
    import fcntl

    (tmp_path / "state").mkdir()
    with open(tmp_path / "state/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=(lock.fileno(),))
    try:
        command = [
            sys.executable,
            "-m",
            "feddr",
            "deploy",
            "node",
            "--superlink",
            "127.0.0.1:1",
            "--partition",
            "0",
        ]
        done = subprocess.run(
            [*command, "--state", str(tmp_path / "state")], capture_output=True, timeout=20, check=False
        )
        assert done.returncode == 2
        assert b"Another node uses" in done.stderr
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize(
    ("output", "event"),
    [
        ("Exit Code: 305\n[code: 8] Failed to activate SuperNode.", "refused"),
        ("All SuperNodes must be registered via the CLI.", "refused"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "tls"),
        ("Invalid SuperNode authentication", "unauthorised"),
        ("Segmentation fault", "ended"),
    ],
)
def test_causes(output: str, event: str) -> None:
    assert cause(output, 1).event == event


def test_a_refused_node_stays_away_until_the_server_has_seen_it_gone() -> None:
    """Flower counts a killed node as online for twice the heartbeat interval; a lost task is known as lost after it."""
    from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, HEARTBEAT_PATIENCE

    wait = cause("Failed to activate SuperNode", 1).wait
    assert wait == REJOIN_WAIT
    assert HEARTBEAT_PATIENCE * HEARTBEAT_DEFAULT_INTERVAL < REJOIN_WAIT < 90


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
