"""The plan of ``feddr reproduce``: which runs are missing, how long they will take, and the loop over them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from feddr.reproduce.estimates import seconds
from feddr.reproduce.figure import PanelRow, Tables
from feddr.reproduce.runs import Finished, Runs, digest
from feddr.tune import Executor, RunRecord, RunSpec

Found = Mapping[tuple[str, int], Finished]
"""The runs of a row that are there, by line and seed."""


@dataclass(frozen=True)
class Plan:
    """The runs of some figures, and the cache in which they are stored.

    Parameters
    ----------
    rows
        Of each figure, by its name. The first seed of every figure is run first, so that interrupts leave some of all.

    Examples
    --------
    >>> from pathlib import Path
    >>> row = PanelRow("own", "first", {"FedAvg": {"rounds": 2, "algorithm": {"name": "FedAvg"}}}, seeds=(4, 35))
    >>> len(Plan({"own": [row]}, Runs(Path("nowhere"))).missing())
    2
    """

    rows: Mapping[str, Sequence[PanelRow]]
    runs: Runs

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of all rows."""
        return tuple(dict.fromkeys(seed for rows in self.rows.values() for row in rows for seed in row.seeds))

    def all_runs(self) -> dict[str, tuple[str, PanelRow, Tables]]:
        """Return (label, row, tables) of every run by its digest, so that none is made twice."""
        by_digest: dict[str, tuple[str, PanelRow, Tables]] = {}
        rows = [row for rows in self.rows.values() for row in rows]
        for k in range(max((len(row.seeds) for row in rows), default=0)):
            for row in rows:
                for _, label, tables in replace(row, seeds=row.seeds[k : k + 1]).runs():
                    by_digest.setdefault(digest(tables), (label, row, tables))
        return by_digest

    def missing(self) -> dict[str, tuple[str, PanelRow, Tables]]:
        """Return those that are not there."""
        return {key: run for key, run in self.all_runs().items() if self.runs.get(run[2]) is None}

    def estimate(self, workers: int) -> float:
        """Return the seconds that the missing runs will take, from what such runs took before."""
        longest = total = 0.0
        for _, row, tables in self.missing().values():
            one = seconds(row.file, tables)
            longest, total = max(longest, one), total + one
        return max(longest, total / max(1, workers))

    def finished(self, row: PanelRow) -> dict[tuple[str, int], Finished]:
        """Return the runs of a row that are there."""
        runs = ((label, seed, self.runs.get(tables)) for seed, label, tables in row.runs())
        return {(label, seed): run for label, seed, run in runs if run is not None}


def make(
    plan: Plan,
    executor: Executor,
    notice: Callable[[RunRecord], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> list[RunRecord]:
    """Make the missing runs, and return the records of those that failed.

    Parameters
    ----------
    executor
        Who makes them: ``feddr.tune.Processes`` with ``runs.COMMAND``, or ``serial``.
    notice
        Called with each record.
    stopping
        Returns whether to start no more runs; those in progress are finished.

    Examples
    --------
    >>> from pathlib import Path
    >>> make(Plan({}, Runs(Path("nowhere"))), serial)  # nothing is missing, so nothing failed
    []
    """

    def jobs() -> Iterator[RunSpec]:
        for label, _, tables in plan.missing().values():
            if stopping():
                return
            yield plan.runs.job(label, tables)

    trouble = []
    for record in executor(jobs()):
        notice(record)
        if record.status in ("refused", "failed"):
            trouble.append(record)
    return trouble


def serial(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
    """Make one run after the other in this process.

    Examples
    --------
    >>> list(serial(iter([])))  # no jobs, no records
    []
    """
    from feddr.reproduce.runs import execute

    return map(execute, jobs)


def complete(row: PanelRow, runs: Found) -> list[int]:
    """Return the seeds that all lines of a row have."""
    return [seed for seed in row.seeds if all((label, seed) in runs for label in row.lines)]


def in_words(time: float) -> str:
    """Return seconds as a person says them."""
    if math.isnan(time):
        return "unknown"
    return f"{math.ceil(time)} s" if time < 100 else f"{math.ceil(time / 60)} min"
