"""Records of the ledger: an entry for each client, uploads that wait for aggregation, counters, file retention."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Entry(NamedTuple):
    """A client in the table: its last accepted update, the file with its value, and the file that xtilde counts.

    ``spent`` is what the client's site says that it has spent of its privacy.
    """

    number: int
    accepted: str
    counted: str | None
    spent: float = 0.0


class Pending(NamedTuple):
    """An upload that has been accepted and not aggregated: whether its client is new, its factor, and its file."""

    client: int
    new: bool
    factor: float
    file: str


@dataclass
class Counters:
    """Sums since the start of a run, and since the last row of its history."""

    bytes_up: int = 0
    bytes_down: int = 0
    local_steps: int = 0
    wall_time: float = 0.0
    prox_error: float = math.nan
    stale_sum: int = 0
    stale_max: int = 0
    stale_count: int = 0

    def add(self, steps: int, error: float, staleness: int) -> None:
        """Count an accepted update."""
        self.local_steps += steps
        self.prox_error = float(np.fmax(self.prox_error, error))
        self.stale_sum, self.stale_count = self.stale_sum + staleness, self.stale_count + 1
        self.stale_max = max(self.stale_max, staleness)

    def begin_row(self) -> None:
        """Reset what belongs to the last row."""
        self.prox_error, self.stale_sum, self.stale_max, self.stale_count = math.nan, 0, 0, 0


class FileRetention:
    """The files that the two newest generations of the ledger name; others are removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.older: set[str] = set()
        self.old: set[str] = set()

    def turn(self, named: set[str]) -> None:
        """Start the next generation, which names these files, and remove files that are no longer named."""
        for file in self.older - self.old - named:
            (self.folder / file).unlink(missing_ok=True)
        self.older, self.old = self.old, named

    def sweep(self, named: Iterable[str]) -> None:
        """Remove everything else: what a crash has left behind."""
        kept = set(named)
        for kind in ("table", "pending"):
            for path in (self.folder / kind).glob("*"):
                if f"{kind}/{path.name}" not in kept:
                    path.unlink(missing_ok=True)


def files(entries: Iterable[Entry], pending: Iterable[Pending]) -> set[str]:
    """Return the files that they name."""
    table = {file for entry in entries for file in (entry.accepted, entry.counted) if file}
    return table | {one.file for one in pending}
