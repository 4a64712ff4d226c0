"""The folder of a search, append-only: what was asked for, and one line of JSON for each run that has ended.

A line is written at once when its run ends and never changed, so a search that is killed loses only the runs in
progress, and resumes with the others. Of two lines for one run the later counts.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from feddr.config import ConfigError, toml
from feddr.storage import atomic, limits, lock, untrusted
from feddr.tune.jobs import RunRecord
from feddr.tune.plan import Search

SEARCH, RUNS = "search.json", "runs.jsonl"

AGAIN = ("failed",)
"""Runs that ended like this are tried again when a search is resumed: the cause was not in their settings."""


class Store:
    """The records of a search, open for more.

    Parameters
    ----------
    folder
        Where they are. A folder with a search in it must have been made for an equal one.

    Examples
    --------
    >>> import feddr
    >>> search = feddr.tune.plan(feddr.config.EXAMPLE, grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0], metric="F")
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder, feddr.tune.Store(pathlib.Path(folder), search) as store:
    ...     print(store.done(("FedDR", 0, 0)))
    False
    """

    def __init__(self, folder: Path, search: Search) -> None:
        self.folder, self.records = folder, dict[tuple[str, int, int], RunRecord]()
        spec = json.loads(json.dumps(search.spec()))
        untrusted.check_links(*folder.iterdir())
        path = folder / SEARCH
        if path.exists():
            _check_same(folder, _search(path), spec)
        else:
            atomic.replace(path, (json.dumps(spec, indent=2) + "\n").encode())
        self._file = os.open(folder / RUNS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            if not lock.acquire(self._file):
                raise ConfigError(f"{folder} is in use by another search; wait for it, or use another --out.")
            for record in self._read():
                self.records[record.key] = record
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file."""
        os.close(self._file)

    def done(self, key: tuple[str, int, int]) -> bool:
        """Return whether a run has ended and need not be tried again."""
        return key in self.records and self.records[key].status not in AGAIN

    def add(self, record: RunRecord) -> None:
        """Keep a record."""
        line = record.dumps().encode() + b"\n"
        # One call: a line is complete unless the machine stops while it is written.
        if os.write(self._file, line) < len(line):
            raise OSError(f"{self.folder / RUNS}: the disk is full; make room and resume the search.")
        os.fsync(self._file)
        self.records[record.key] = record

    def discard(self) -> None:
        """Remove the files of a search without a record."""
        (self.folder / RUNS).unlink()
        (self.folder / SEARCH).unlink()

    def _read(self) -> Iterator[RunRecord]:
        if os.fstat(self._file).st_size > limits.RECORD:
            raise ConfigError(f"{self.folder / RUNS} has more than the {limits.RECORD:,} bytes that records may have.")
        with open(self._file, "rb", closefd=False) as file:
            text = file.read()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.ftruncate(self._file, whole)  # the machine stopped while the last line was written
        for number, line in enumerate(text[:whole].splitlines(), start=1):
            try:
                yield RunRecord.loads(line.decode())
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise ConfigError(f"{self.folder / RUNS}, line {number} is not a record of a run: {error}.") from None


def _search(path: Path) -> dict[str, Any]:
    try:
        spec = untrusted.json(path)
    except ValueError as error:
        raise ConfigError(f"{path} is not the description of a search: {error}.") from None
    if not isinstance(spec, dict):
        raise ConfigError(f"{path} is not the description of a search.")
    return spec


def _check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume another search, and say what differs."""
    old, new = dict(_flat(before)), dict(_flat(now))
    differing = [key for key in [*old, *(key for key in new if key not in old)] if old.get(key) != new.get(key)]
    if differing:
        changes = ", ".join(f"{_name(key)} was {_value(old, key)} and is {_value(new, key)}" for key in differing[:3])
        more = f", and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ConfigError(f"{folder} holds another search: {changes}{more}; use a new --out, or the old settings.")


def _flat(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    tables = isinstance(value, list) and any(isinstance(entry, dict) for entry in value)
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _flat(entry, (*path, key))
    elif tables:
        for i, entry in enumerate(value):
            yield from _flat(entry, (*path, str(entry.get("label", entry.get("name", i))) if path else str(i)))
    else:
        yield path, value


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path[1:] if path[0] in ("config", "axes") else path)


def _value(values: Mapping[tuple[str, ...], Any], key: tuple[str, ...]) -> str:
    return toml.text(values[key]) if key in values else "not there"
