"""Checkpoints that were cut, flipped, taken from elsewhere: refused with the reason, and the one before is used."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr.checkpoint import CheckpointError, Checkpoints, CheckpointWarning, folder
from tests.checkpoint.small_runs import classes, digest, go
from tests.reliability.faults import record

SETTINGS = {"seed": 3, "local": "SGD(lr=0.1)"}


def keep(folder: Path) -> Checkpoints:
    """Save rounds 4 and 8 of something."""
    folder.mkdir()
    checkpoints, rng = Checkpoints(folder), np.random.default_rng(0)
    for number in (4, 8):
        state = {"server.0": rng.normal(size=(3, 5)), "counts": np.array([number, 2])}
        clients = [{"clients": np.arange(3), "leaf.0": rng.normal(size=(3, 4))}, {"clients": np.array([7])}]
        checkpoints.save(number, SETTINGS, state, clients)
    return checkpoints


def cut(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(path.read_bytes()[: int(rng.integers(0, path.stat().st_size))])


def flip(path: Path, rng: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(data))


def grow(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 9))))


def zero(path: Path, rng: np.random.Generator) -> None:
    """What some file systems leave of a file after a power cut: its length, and nothing in it."""
    path.write_bytes(bytes(int(path.stat().st_size)) if rng.random() < 0.5 else b"")


def remove(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    path.unlink()


DAMAGES: list[Callable[[Path, np.random.Generator], None]] = [cut, flip, grow, zero, remove]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found_and_the_one_before_is_used(
    damage: Callable[[Path, np.random.Generator], None], tmp_path: Path
) -> None:
    checkpoints, rng, tried, survived = keep(tmp_path / "kept"), np.random.default_rng(1), 0, 0
    spare = shutil.copytree(checkpoints.path(8), tmp_path / "spare")
    for path in sorted(spare.iterdir()):
        for _ in range(1 if damage is remove else 50):
            damage(checkpoints.path(8) / path.name, rng)
            with pytest.warns(CheckpointWarning, match=r"checkpoint of round 8 is damaged.* one of round 4 is used"):
                found = checkpoints.newest(SETTINGS)
            tried += 1
            survived += found is not None and found.round == 4 and len(list(found.clients())) == 2
            assert (checkpoints.folder / "refused-8").is_dir()  # set aside, not thrown away
            shutil.copytree(spare, checkpoints.path(8))
    assert survived == tried
    found = checkpoints.newest(SETTINGS)
    assert found is not None
    assert found.round == 8
    record(10 + DAMAGES.index(damage), f"checkpoint damaged: {damage.__name__}", tried, survived, "the one before used")


def rewrite(path: Path, **changes: Any) -> None:
    """Change a manifest, and seal it again."""
    body = json.loads((path / folder.MANIFEST).read_text())["body"]
    (path / folder.MANIFEST).write_text(folder._sealed(body | changes))


STRANGERS = [
    ({"format": 4, "feddr": "9.0"}, "has format 4, this version of feddr reads format 3; it was written by feddr 9.0"),
    ({"settings": {**SETTINGS, "seed": 4}}, "belongs to another run: it has seed = 4, this run has 3"),
    ({"settings": {"seed": 3}}, r"belongs to another run: it has local = None, this run has SGD\(lr=0.1\)"),
    ({"files": {"../../secret": {"bytes": 1, "sha256": ""}}}, r"lists a file that is none of a checkpoint, '\.\./\.\."),
    ({"files": None}, "its manifest cannot be read"),
]


@pytest.mark.parametrize(("changes", "reason"), STRANGERS, ids=[reason[:12] for _, reason in STRANGERS])
def test_what_comes_from_elsewhere_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    checkpoints = keep(tmp_path / "kept")
    rewrite(checkpoints.path(8), **changes)
    with pytest.warns(CheckpointWarning, match=reason):
        found = checkpoints.newest(SETTINGS)
    assert found is not None
    assert found.round == 4
    rewrite(checkpoints.path(4), **changes)
    with pytest.raises(CheckpointError, match=f"No checkpoint in .* can be used. .*{reason}"):
        checkpoints.newest(SETTINGS)


def test_a_round_that_is_saved_again_takes_the_place_of_the_damaged_one(tmp_path: Path) -> None:
    checkpoints = keep(tmp_path / "kept")
    flip(checkpoints.path(8) / folder.STATE, np.random.default_rng(0))
    checkpoints.save(8, SETTINGS, {"counts": np.array([1])}, [])
    assert checkpoints.numbers() == [8, 4]
    assert checkpoints.check(8).state()["counts"].tolist() == [1]


def test_what_a_kill_left_of_a_save_is_swept_away(tmp_path: Path) -> None:
    checkpoints = keep(tmp_path / "kept")
    shutil.copytree(checkpoints.path(8), checkpoints.folder / ".000000000012.part")
    assert checkpoints.numbers() == [8, 4]
    checkpoints.save(12, SETTINGS, {}, [])
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["000000000008", "000000000012"]


def test_a_run_resumes_from_the_checkpoint_before_the_damaged_one(tmp_path: Path) -> None:
    """The result is the same: only some rounds are computed twice."""
    problem, algorithm, kept = classes(), feddr.FedDR(eta=1.0), tmp_path / "kept"
    go(problem, algorithm, 6, checkpoint=feddr.Checkpoint(kept, every=2))
    flip(kept / "000000000006" / "clients-00000.safetensors", np.random.default_rng(5))
    seen: list[int] = []
    with pytest.warns(CheckpointWarning, match="round 6 is damaged: clients-00000.safetensors has changed"):
        result = go(
            problem,
            algorithm,
            8,
            checkpoint=feddr.Checkpoint(kept, resume=True),
            callback=lambda progress: seen.append(progress.round),
        )
    assert seen == [5, 6, 7, 8]
    assert digest(result) == digest(go(problem, algorithm, 8))
