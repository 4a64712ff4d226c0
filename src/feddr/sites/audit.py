"""The log of everything that leaves a site: JSON Lines, only appended to, each line with the hash of the one before.

``before`` of a line is the SHA-256 of the whole line before it, zeros in the first. So a line that is changed, removed
or moved is seen at the line after it; whoever keeps the hash of the last line, the head, sees also that the end is cut
off. A line is on the disk (fsync) before its message leaves.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from feddr.storage import atomic, jsonl, limits, lock

FILE = "log.jsonl"
START = "0" * 64
"""What the first line has in place of a hash."""


@dataclass(frozen=True)
class AuditLog:
    """The log in a folder; several processes may write to it, one after the other.

    Parameters
    ----------
    folder
        Made with the first line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = AuditLog(pathlib.Path(folder))
    ...     _ = log.append({"kind": "train", "experiment": ""})
    ...     head = log.append({"kind": "train", "experiment": ""})
    ...     updates, checked = log.updates(""), verify(log.path, head)
    >>> updates, checked.lines, checked.head == head
    (2, 2, True)
    """

    folder: Path

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE

    def append(self, entry: Mapping[str, Any]) -> str:
        """Add a line with the time and the hash of the line before; return its own hash once it is on the disk."""
        with lock.locked(self.folder), open(self.path, "a+b") as file:
            before = _newest(file)
            line = json.dumps({"time": jsonl.timestamp(), **entry, "before": before}, allow_nan=False).encode()
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
            if before == START:
                atomic.sync(self.folder)  # the name of the new file
        return _hash(line)

    def updates(self, experiment: str) -> int:
        """Return how many updates of an experiment have left."""
        if not self.path.exists():
            return 0
        lines = jsonl.entries(self.path)
        return sum(line.get("kind") == "train" and line.get("experiment") == experiment for line in lines)


@dataclass(frozen=True)
class AuditSummary:
    """A log whose chain is whole.

    Parameters
    ----------
    lines
        How many there are.
    head
        Hash of the last one; whoever keeps it sees later whether the log was cut off.
    first, last
        Times of the first and the last line.
    torn
        Whether half a line stands at the end: the node ended while it was written, and its message has not left.
    kinds
        For each run and kind of message: how many, their bytes, and the largest norm, NaN where there is none.

    Examples
    --------
    >>> AuditSummary(0, START).kinds
    {}
    """

    lines: int
    head: str
    first: str = ""
    last: str = ""
    torn: bool = False
    kinds: Mapping[tuple[str, str], tuple[int, int, float]] = field(default_factory=dict)


def verify(path: Path, head: str | None = None) -> AuditSummary:
    """Check the chain of a log, and return what it holds.

    Parameters
    ----------
    head
        The hash of a line that the log had once; what has been written since may follow it.

    Raises
    ------
    ValueError
        With the first line that is not as it was written, or where the line with that hash is not there any more.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = AuditLog(pathlib.Path(folder))
    ...     first, second = log.append({"kind": "train"}), log.append({"kind": "evaluate"})
    ...     _ = log.path.write_bytes(log.path.read_bytes().replace(b"train", b"smile"))
    ...     try:
    ...         verify(log.path)
    ...     except ValueError as error:
    ...         print(str(error).partition(": ")[2])
    line 1 was changed, or a line after it was removed or moved.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such log; give the state folder of a node from which something has left.")
    count, newest, met, torn, times = 0, START, head is None, False, ["", ""]
    kinds: dict[tuple[str, str], tuple[int, int, float]] = {}
    for line, whole in _lines(path):
        if not whole:
            torn = True
            break
        count += 1
        entry = _entry(line)
        if entry is None:
            raise ValueError(f"{path}: line {count} is not as a node writes it.")
        if entry["before"] != newest:
            where = f"line {count - 1} was changed, or a line after it" if count > 1 else "a line before the first"
            raise ValueError(f"{path}: {where} was removed or moved.")
        newest = _hash(line)
        met = met or newest == head
        times = [times[0] or str(entry.get("time", "")), str(entry.get("time", ""))]
        key = str(entry.get("run", "")), str(entry.get("kind", ""))
        messages, size, norm = kinds.get(key, (0, 0, math.nan))
        larger, sent = entry.get("norm"), entry.get("bytes")
        if isinstance(larger, int | float):
            norm = larger if math.isnan(norm) else max(norm, larger)
        kinds[key] = messages + 1, size + (sent if isinstance(sent, int) else 0), norm
    if not met:
        raise ValueError(f"{path}: no line has the hash {head}; the end was cut off, or a line was changed.")
    return AuditSummary(count, newest, times[0], times[1], torn, kinds)


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _newest(file: BinaryIO) -> str:
    """Return the hash of the last line, and remove half a line at the end, whose message has never left."""
    end = file.seek(0, os.SEEK_END)
    tail, begin = b"", end
    while begin > 0 and tail.count(b"\n") < 2:
        begin = max(0, begin - 65536)
        file.seek(begin)
        tail = file.read(end - begin)
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(end - len(tail) + len(whole))
    return _hash(whole[:-1].rpartition(b"\n")[2]) if whole else START


def _lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file, and whether each is whole."""
    with open(path, "rb") as file:
        while line := file.readline(limits.LINE):
            yield line.removesuffix(b"\n"), line.endswith(b"\n")


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("before"), str) else None
