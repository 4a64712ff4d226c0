"""A disk that is full or read-only: a run continues and says so, and the checkpoint before stays whole."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddr.checkpoint import Checkpoints
from feddr.storage import atomic
from tests.reliability.faults import record

ROOT = Path(__file__).parents[2]


def on_a_small_disk(folder: Path, size: str, command: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command with a small disk of its own at ``folder``, which is gone when it ends."""
    folder.mkdir()
    script = f'mount -t tmpfs -o size={size} tmpfs {folder} || exit 99; exec "$@"'
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    try:
        done = subprocess.run(isolated, capture_output=True, text=True, cwd=ROOT, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("no disk can be mounted here")
    return done


def part(name: str, folder: Path, size: str) -> dict[str, Any]:
    done = on_a_small_disk(folder, size, [sys.executable, "-m", "tests.checkpoint.small_disk", name, str(folder)])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_save_on_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    found = part("full", tmp_path / "disk", "1m")
    assert 10 < found["failed"] < found["tried"]
    assert found["survived"] == found["tried"]
    record(20, "disk full while saving", found["tried"], found["survived"], f"{found['failed']} saves failed cleanly")


def test_a_run_continues_when_the_disk_is_full(tmp_path: Path) -> None:
    found = part("full_in_a_run", tmp_path / "disk", "2m")
    (told,) = found["warnings"]
    assert "No checkpoint could be written after round 4 in" in told
    assert "No space left on device. The run continues, and the newest is that of round 3." in told
    assert found["newest"] == [1, 2, 3, 3, 3, 3, 3, 8, 9]
    assert found["same"]
    record(21, "disk full under a run", 1, 1, "a warning; saved again when there was room; same bits")


def test_a_run_continues_when_the_disk_becomes_read_only(tmp_path: Path) -> None:
    found = part("read_only", tmp_path / "disk", "2m")
    (told,) = found["warnings"]
    assert "Read-only file system. The run continues, and the newest is that of round 3." in told
    assert found["newest"] == [1, 2, 3, 3, 3, 3, 3, 8, 9]
    assert found["same"]
    assert found["refused"].endswith("/disk/other: no checkpoint can be written there, Read-only file system.")
    record(22, "disk read-only under a run, and before it", 2, 2, "a warning; refused before the first round")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_whichever_write_fails(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without a disk to mount: let each write of a save fail in turn, with half of it done."""
    checkpoints, put = Checkpoints(tmp_path), atomic.put
    checkpoints.save(1, {}, {"x": np.zeros(3)}, [])
    for failing in range(4):
        done: list[Path] = []

        def half(path: Path, data: bytes, failing: int = failing, done: list[Path] = done) -> None:
            done.append(path)
            if len(done) == failing + 1:
                put(path, data[: len(data) // 2])
                raise OSError(code, os.strerror(code))
            put(path, data)

        monkeypatch.setattr(atomic, "put", half)
        with pytest.raises(OSError, match=os.strerror(code)):
            checkpoints.save(2, {}, {"x": np.ones(3)}, [{"clients": np.arange(2)}, {"clients": np.arange(3)}])
        assert checkpoints.check(1).state()["x"].tolist() == [0, 0, 0]
        assert [path.name for path in tmp_path.iterdir()] == ["000000000001"]
