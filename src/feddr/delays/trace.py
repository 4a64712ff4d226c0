"""Traces: durations of jobs, recorded elsewhere and read from a CSV file."""

import csv
import math
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from feddr.delays.delay import Job, Timing

NEEDED, OPTIONAL = ("client", "start", "duration"), ("send", "lost")


class Line(NamedTuple):
    """One job: not before ``start``, computing for ``duration``, sending for ``send``; whether it is lost."""

    start: float
    duration: float
    send: float
    lost: bool


@dataclass(frozen=True)
class Trace:
    r"""The jobs of a CSV file: the k-th line of a client is its k-th job.

    The first line names the columns: ``client`` (from 0), ``start`` (the job begins no earlier; a client that is still
    busy begins it later), ``duration`` (of computing), and if wanted ``send`` (seconds) and ``lost`` (0 or 1). A lost
    job ends with its computing, and its client continues with its next line; after the last one it has no more jobs.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "jobs.csv")
    ...     _ = file.write_text("client,start,duration\n0,0,1.5\n1,0,2\n")
    ...     trace = Trace(str(file))
    ...     print(trace.jobs[1])
    [Line(start=0.0, duration=2.0, send=0.0, lost=False)]
    """

    path: str

    def __post_init__(self) -> None:
        assert self.jobs is not None  # a wrong file is refused here, not in the midst of a run

    @cached_property
    def jobs(self) -> dict[int, list[Line]]:
        """The lines of each client."""
        from feddr.datasets import files

        path = Path(self.path)
        try:
            path.stat()
            return self._read(csv.DictReader(files.lines(path)))
        except OSError as error:
            raise ValueError(f"Trace needs a file that can be read, {self.path}: {error.strerror}.") from None
        except csv.Error as error:
            raise ValueError(f"{self.path}: not a table ({error}).") from None

    def _read(self, reader: "csv.DictReader[str]") -> dict[int, list[Line]]:
        columns = reader.fieldnames or []
        missing = [name for name in NEEDED if name not in columns]
        unknown = [name for name in columns if name not in (*NEEDED, *OPTIONAL)]
        if missing or unknown:
            wrong = f"has no {missing[0]}" if missing else f"has {unknown[0]!r}"
            raise ValueError(
                f"{self.path}, line 1: a trace has the columns {', '.join(NEEDED)} and perhaps "
                f"{', '.join(OPTIONAL)}, this one {wrong}."
            )
        jobs: dict[int, list[Line]] = {}
        for row in reader:
            where = f"{self.path}, line {reader.line_num}"
            if None in row or None in row.values():
                raise ValueError(f"{where}: a line needs {len(columns)} values, one for each column.")
            try:
                client, numbers = int(row["client"]), {name: float(row[name]) for name in columns if name != "client"}
            except ValueError:
                raise ValueError(f"{where}: the values must be numbers, got {','.join(row.values())}.") from None
            line = Line(numbers["start"], numbers["duration"], numbers.get("send", 0.0), bool(numbers.get("lost", 0.0)))
            if client < 0 or not (line.duration > 0 and line.send >= 0 and math.isfinite(line.start)):
                raise ValueError(
                    f"{where}: client must be at least 0, start finite, duration above 0 and send at least 0, got "
                    f"{','.join(row.values())}."
                )
            jobs.setdefault(client, []).append(line)
        return jobs

    def check(self, n: int) -> None:
        """Raise ValueError unless all clients of the file are among the n."""
        most = max(self.jobs, default=0)
        if most >= n:
            raise ValueError(f"{self.path} has a client {most}, but clients are numbered from 0 to {n - 1}.")

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Take the times of the job's line."""
        lines = self.jobs.get(job.client, [])
        if job.number >= len(lines):
            return timing._replace(online=_never)
        line = lines[job.number]
        return timing._replace(
            compute=timing.compute * line.duration,
            send=0.0 if line.lost else timing.send + line.send,
            lost_after=1.0 if line.lost else timing.lost_after,
            online=partial(_from, line.start),
        )


def _from(start: float, t: float) -> tuple[float, float]:
    return max(t, start), math.inf


def _never(t: float) -> tuple[float, float]:  # noqa: ARG001  whatever the time
    return math.inf, math.inf
