"""kill -9 at random moments: each run is taken up again, on other threads, and ends with the same bits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.faults import record


def kill(folder: Path, kills: int, seed: int, order: int | None) -> None:
    # JAX says that forking is unsafe once it has started threads; these processes are forked before it has.
    module = "tests.reliability.killed_runs"
    command = [sys.executable, "-W", "ignore", "-m", module, str(folder), str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    seen = (
        f"{found['runs']} runs of both engines; {found['while_saving']} kills while saving, "
        f"{found['before_the_first']} before the first checkpoint; same bits"
    )
    record(order, "kill -9 at a random moment", found["kills"], found["survived"], seen)
    assert found["kills"] >= kills
    assert found["survived"] == found["kills"], done.stderr
    assert len(set(found["at"])) > 1  # at different rounds


def test_killed_six_times(tmp_path: Path) -> None:
    kill(tmp_path, kills=6, seed=1, order=None)


@pytest.mark.reliability
def test_killed_fifty_times(tmp_path: Path) -> None:
    kill(tmp_path, kills=50, seed=2, order=1)
