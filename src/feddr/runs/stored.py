"""Files of a run for its report: participation of clients, their samples, and live rows while it is in progress."""

import contextlib
import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from feddr.history import COUNTERS, Row, read_rows
from feddr.storage import atomic, jsonl, untrusted

if TYPE_CHECKING:
    from feddr.data import FederatedData
    from feddr.engines.clock.events import Event

CLIENTS, PARTICIPATION = "clients.csv", "participation.csv"
"""Of the whole experiment: samples and labels of each client. Of one method: updates and staleness of each."""


class Contribution(NamedTuple):
    """What a client contributed: its updates, and how stale they were.

    Parameters
    ----------
    measured
        Updates whose staleness is known: an engine without a clock measures none, and one with a clock records a
        limited number of events.
    staleness_mean, staleness_max
        Of those; NaN where there are none.
    """

    client: int
    updates: int
    measured: int = 0
    staleness_mean: float = float("nan")
    staleness_max: float = float("nan")


def participation(updates: Mapping[int, int], events: "Iterable[Event]" = ()) -> list[Contribution]:
    """Return what each client that took part contributed, from a run's state and events.

    Examples
    --------
    >>> from feddr.engines.clock.events import Event
    >>> job = Event(0, "sending", 0.0, 1.0, read=2, arrived=5)
    >>> participation({0: 1, 3: 2}, [job])[0]
    Contribution(client=0, updates=1, measured=1, staleness_mean=3.0, staleness_max=3)
    """
    arrived = ((event.client, event.arrived - event.read) for event in events if event.arrived >= 0)
    return _parts(updates, arrived)


def from_log(path: Path) -> list[Contribution]:
    """Return the same from the log of a deployed run; an update that was sent twice counts once."""
    newest: dict[tuple[int, int], int] = {}
    for entry in jsonl.entries(path):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if entry["event"] == "accepted":
                newest[int(entry["client"]), int(entry["number"])] = int(entry["staleness"])
    updates: dict[int, int] = {}
    for client, _ in newest:
        updates[client] = updates.get(client, 0) + 1
    return _parts(updates, ((client, staleness) for (client, _), staleness in newest.items()))


def write_participation(path: Path, parts: Sequence[Contribution]) -> None:
    """Write a line for each client that took part."""
    with atomic.replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Contribution._fields)
        writer.writerows(parts)


def read_participation(path: Path) -> list[Contribution]:
    """Read what ``write_participation`` wrote."""
    reader = csv.reader(untrusted.read(path).decode().splitlines())
    if next(reader, None) != list(Contribution._fields):
        raise ValueError(f"its first line must be {','.join(Contribution._fields)}")
    return [Contribution(int(i), int(k), int(m), float(mean), float(most)) for i, k, m, mean, most in reader]


def write_clients(path: Path, data: "FederatedData") -> None:
    """Write the samples and labels of each client, unless samples are generated on demand and so not counted."""
    from feddr.datasets.summary import summarise

    if data.on_demand is None and {"x", "y"} <= set(data.train.samples):
        with atomic.replacing(path) as beside:
            summarise(data).to_csv(beside)


class Live:
    """The rows of a run in progress, for live reports; history.csv replaces them at the end.

    A disk that refuses does not end the run: whoever follows it then misses rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []

    def add(self, row: Row) -> None:
        """Append a row, also to those from before a resume."""
        with contextlib.suppress(OSError):
            if not self._columns:
                self._begin(row)
            with open(self.path, "a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self._columns, "nan", "ignore").writerow(row.to_dict())

    def end(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _begin(self, first: Row) -> None:
        before = [row for row in read_rows(self.path) if row["round"] < first.round] if self.path.exists() else []
        columns = list(first.to_dict())  # every row of a run has the metrics of the first
        with open(self.path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, "nan", "ignore")
            writer.writeheader()
            for row in before:
                writer.writerow({name: int(value) if name in COUNTERS else value for name, value in row.items()})
        self._columns = columns


def _parts(updates: Mapping[int, int], arrived: Iterable[tuple[int, int]]) -> list[Contribution]:
    stale: dict[int, list[int]] = {}
    for client, staleness in arrived:
        stale.setdefault(client, []).append(staleness)
    return [
        Contribution(i, count, len(stale[i]), fmean(stale[i]), max(stale[i])) if i in stale else Contribution(i, count)
        for i, count in sorted(updates.items())
    ]
