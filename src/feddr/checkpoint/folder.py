"""Checkpoint files: atomic writes, SHA-256 checksums, and the choice of the checkpoint to resume from.

A checkpoint is a folder ``<round>`` of safetensors files and a manifest with their sizes and SHA-256 checksums. It is
written under a temporary name, flushed with fsync and renamed, so that a reader sees a complete checkpoint or none. A
checkpoint that is damaged or belongs to another run is refused, and the one before it is used.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import feddr
from feddr.storage import atomic, limits, tensors, untrusted
from feddr.storage.tensors import Arrays

FORMAT = 3
"""The version of the format; another one is refused. In 1 sums were not by shard, in 2 FedDR counted no updates."""

KEPT = 2
"""Checkpoints of a run that are kept."""

MANIFEST, STATE = "manifest.json", "state.safetensors"
_FILE = re.compile(r"state\.safetensors|clients-\d+\.safetensors")


class CheckpointError(ValueError):
    """No checkpoint in a folder can be used, or the folder cannot.

    Examples
    --------
    >>> try:
    ...     Checkpoints(Path("no such folder")).check(3)
    ... except CheckpointError as error:
    ...     print(error)
    The checkpoint of round 3 is damaged: its manifest cannot be read (FileNotFoundError).
    """


class CheckpointWarning(UserWarning):
    """A checkpoint was skipped, or could not be written.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckpointWarning)  # what fails stops the run then
    """


class Saved(NamedTuple):
    """A complete checkpoint: after how many rounds, with which settings, and where it is.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = Checkpoints(Path(folder))
    ...     checkpoints.save(10, {"seed": 0}, {"xbar": np.zeros(2)}, clients=[])
    ...     print(checkpoints.newest({"seed": 0}).state()["xbar"])
    [0. 0.]
    """

    round: int
    settings: dict[str, Any]
    path: Path
    names: tuple[str, ...]

    def state(self) -> Arrays:
        """Return everything but the clients' states."""
        return _read(self.path / STATE)

    def clients(self) -> Iterator[Arrays]:
        """Yield the clients' states, some of them at a time."""
        for name in self.names:
            if name != STATE:
                yield _read(self.path / name)


class Checkpoints:
    """The checkpoints in a folder.

    Parameters
    ----------
    folder
        Where they lie; nobody else may write there.
    keep
        How many are kept.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = Checkpoints(Path(folder))
    ...     checkpoints.save(10, {"seed": 0}, {"xbar": np.zeros(2)}, clients=[])
    ...     print(checkpoints.numbers(), checkpoints.newest({"seed": 0}).round)
    [10] 10
    """

    def __init__(self, folder: Path, keep: int = KEPT) -> None:
        self.folder, self.keep = folder, keep

    def numbers(self) -> list[int]:
        """Return the rounds after which there is a checkpoint, the newest first."""
        if not self.folder.is_dir():
            return []
        return sorted((int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()), reverse=True)

    def path(self, number: int) -> Path:
        """Return the path of a checkpoint."""
        return self.folder / f"{number:012d}"

    def save(self, number: int, settings: Mapping[str, Any], state: Arrays, clients: Iterable[Arrays]) -> None:
        """Write the checkpoint of a round, and remove the oldest; OSError where it cannot be written."""
        part = self.folder / f".{number:012d}.part"
        self.sweep()
        try:
            part.mkdir()
            listed = {STATE: _write(part / STATE, state)}
            for j, segment in enumerate(clients):
                name = f"clients-{j:05d}.safetensors"
                listed[name] = _write(part / name, segment)
            body = {
                "format": FORMAT,
                "feddr": feddr.__version__,
                "round": number,
                "settings": dict(settings),
                "files": listed,
            }
            atomic.put(part / MANIFEST, _sealed(body).encode())
            atomic.sync(part)
            if self.path(number).exists():
                shutil.rmtree(self.path(number))
            os.rename(part, self.path(number))
            atomic.sync(self.folder)
        except OSError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        for old in self.numbers()[self.keep :]:
            shutil.rmtree(self.path(old), ignore_errors=True)

    def sweep(self) -> None:
        """Remove what an interrupted save has left behind."""
        for part in self.folder.glob(".*.part"):
            shutil.rmtree(part, ignore_errors=True)

    def newest(self, settings: Mapping[str, Any]) -> Saved | None:
        """Return the newest undamaged checkpoint with these settings; None where there is no checkpoint.

        Those that are passed over are set aside under the name ``refused-<round>``, and a warning says why.

        Raises
        ------
        CheckpointError
            Where there are checkpoints, and none of them can be used.
        """
        reasons: dict[int, str] = {}
        for number in self.numbers():
            try:
                checkpoint = self.check(number, settings)
            except CheckpointError as error:
                reasons[number] = str(error)
                continue
            for other, reason in reasons.items():
                self._set_aside(other)
                warnings.warn(f"{reason} The one of round {number} is used.", CheckpointWarning, stacklevel=3)
            return checkpoint
        if reasons:
            raise CheckpointError(
                f"No checkpoint in {self.folder} can be used. {' '.join(reasons.values())} "
                "Take back what was changed, or start in another folder."
            )
        return None

    def check(self, number: int, settings: Mapping[str, Any] | None = None) -> Saved:
        """Return a checkpoint whose files are as they were written, or say in a CheckpointError what is wrong."""
        name, path = f"The checkpoint of round {number}", self.path(number)
        try:
            text = untrusted.read(path / MANIFEST).decode()
            body = json.loads(text)["body"]
            if text != _sealed(body):
                raise CheckpointError(f"{name} is damaged: its manifest has changed since it was written.")
            if body["format"] != FORMAT:
                raise CheckpointError(
                    f"{name} has format {body['format']}, this version of feddr reads format {FORMAT}; it was written "
                    f"by feddr {body['feddr']}."
                )
            if settings is not None:
                _compare(name, body["settings"], settings)
            for file, listed in body["files"].items():
                if not _FILE.fullmatch(file):
                    raise CheckpointError(f"{name} lists a file that is none of a checkpoint, {file!r}.")
                _verify(name, path / file, listed)
            if body["round"] != number or STATE not in body["files"]:
                raise CheckpointError(f"{name} is damaged: its manifest is that of another one.")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{name} is damaged: its manifest cannot be read ({type(error).__name__}).") from None
        return Saved(body["round"], body["settings"], path, tuple(body["files"]))

    def _set_aside(self, number: int) -> None:
        aside = self.folder / f"refused-{number}"
        shutil.rmtree(aside, ignore_errors=True)
        with contextlib.suppress(OSError):  # it stays where it is, and is refused again
            os.rename(self.path(number), aside)


def _sealed(body: dict[str, Any]) -> str:
    """Return the text of a manifest, with its own checksum."""
    sha = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({"sha256": sha, "body": body}, indent=1, sort_keys=True) + "\n"


def _write(path: Path, arrays: Arrays) -> dict[str, Any]:
    data = tensors.dumps(arrays)
    atomic.put(path, data)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _read(path: Path) -> Arrays:
    try:
        return tensors.loads(path.read_bytes(), path)
    except tensors.DamagedError as error:
        raise CheckpointError(str(error)) from None


def _verify(name: str, path: Path, listed: Mapping[str, Any]) -> None:
    if not path.is_file():
        raise CheckpointError(f"{name} is damaged: {path.name} is missing.")
    size = path.stat().st_size
    if size != listed["bytes"]:
        raise CheckpointError(f"{name} is damaged: {path.name} has {size} bytes of {listed['bytes']}.")
    if size > limits.memory():
        raise CheckpointError(f"{name} cannot be read: {path.name} has {size:,} bytes, more than fit into memory.")
    with open(path, "rb") as file:
        sha = hashlib.file_digest(file, "sha256")
    if sha.hexdigest() != listed["sha256"]:
        raise CheckpointError(f"{name} is damaged: {path.name} has changed since it was written.")


def _compare(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            raise CheckpointError(
                f"{name} belongs to another run: it has {key} = {before.get(key)}, this run has {now.get(key)}."
            )
