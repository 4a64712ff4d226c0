"""A disk that is full, or cannot be written, while runs save: to be started where a small disk may be mounted.

``python -m tests.checkpoint.small_disk PART FOLDER`` prints what it has seen as JSON; the folder is the small disk.
"""

import errno
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import feddr
from feddr.checkpoint import CheckpointError, Checkpoints, CheckpointWarning
from tests.checkpoint.small_runs import classes, digest, go


def leave(folder: Path, free: int) -> Path:
    """Fill the disk but for so many bytes, and return what fills it."""
    ballast = folder / "ballast"
    room = os.statvfs(folder)
    with open(ballast, "wb") as file:
        file.write(bytes(max(0, room.f_bavail * room.f_frsize - free)))
    return ballast


def full(folder: Path) -> dict[str, Any]:
    """Save with less and less room: each save succeeds, or fails with the checkpoint before as it was."""
    (folder / "kept").mkdir()
    checkpoints, rng = Checkpoints(folder / "kept"), np.random.default_rng(0)
    tried = failed = survived = 0
    for k, free in enumerate(range(200_000, -1, -4096)):
        before = checkpoints.numbers()
        ballast = leave(folder, free) if k else None
        clients = [{"clients": np.arange(3), "leaf.0": rng.normal(size=(3, 1000))} for _ in range(3)]
        tried += 1
        try:
            checkpoints.save(k, {}, {"x": rng.normal(size=2000)}, clients)
            survived += checkpoints.check(k).round == k
        except OSError as error:
            failed += 1
            kept = [checkpoints.check(number).round for number in checkpoints.numbers()]
            survived += error.errno == errno.ENOSPC and kept == before and not any((folder / "kept").glob(".*.part"))
        if ballast is not None:
            ballast.unlink()
    return {"tried": tried, "failed": failed, "survived": survived}


def interrupted(folder: Path, spoil: Callable[[], Any], heal: Callable[[], Any]) -> dict[str, Any]:
    """Let the disk refuse from round 4 to round 7 of a run that saves each round."""
    problem, algorithm, kept = classes(), feddr.FedDR(eta=1.0), folder / "kept"
    newest: dict[int, int] = {}

    def callback(progress: Any) -> None:
        newest[progress.round] = Checkpoints(kept).numbers()[0] if progress.round > 1 else 0
        if progress.round == 4:
            spoil()
        if progress.round == 8:
            heal()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CheckpointWarning)
        result = go(problem, algorithm, 10, checkpoint=feddr.Checkpoint(kept, every=1), callback=callback)
    told = [str(warning.message) for warning in caught if warning.category is CheckpointWarning]
    whole = digest(result) == digest(go(problem, algorithm, 10))
    resumed = digest(go(problem, algorithm, 10, checkpoint=feddr.Checkpoint(kept, resume=True))) == digest(result)
    return {"warnings": told, "newest": [newest[k] for k in range(2, 11)], "same": whole and resumed}


def full_in_a_run(folder: Path) -> dict[str, Any]:
    """Fill the disk under a run, and empty it again."""
    return interrupted(folder, lambda: leave(folder, 0), lambda: (folder / "ballast").unlink())


def read_only(folder: Path) -> dict[str, Any]:
    """Make the disk read-only under a run, and begin one on a disk that is."""

    def spoil() -> None:
        # A second mount over the first: the disk itself cannot be made read-only while the lock is open.
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)

    found = interrupted(folder, spoil, lambda: subprocess.run(["umount", str(folder)], check=True))
    spoil()
    try:
        go(classes(), feddr.FedDR(eta=1.0), 2, checkpoint=folder / "other")
    except CheckpointError as error:
        found["refused"] = str(error)
    return found


if __name__ == "__main__":
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "full": full,
        "full_in_a_run": full_in_a_run,
        "read_only": read_only,
    }
    print(json.dumps(parts[sys.argv[1]](Path(sys.argv[2]))))
