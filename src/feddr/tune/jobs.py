"""One run of a search, a trial with one seed: from its specification to its record.

A trial is a setting of an algorithm. Specifications and records travel between processes and into files as JSON, so
both hold plain values only.
"""

import json
import math
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from feddr.metrics.metric import COLUMNS, READY, Better, better

if TYPE_CHECKING:
    from feddr.config import RunArguments
    from feddr.engines.shared.state import Progress
    from feddr.history import Row

BETTER: Mapping[str, Better] = {
    **{name: end for name, end in COLUMNS.items() if not name.startswith("personal_")},
    **{name: metric.better for name, metric in READY.items()},
}
"""The metrics that a search may be for, all at xbar, and which end of each is the better one.

Also with ``test_``, ``validation_`` or ``train_`` before a name, and with ``worst_client_``, ``p10_client_`` or
``median_client_``.
"""

At = Literal["last", "best"]
"""The row of the history that counts: the last, or the best of those after the start."""

Status = Literal["finished", "stalled", "diverged", "refused", "failed"]
"""How a job ends. One that stalled, because no client came back, has a metric all the same."""


@dataclass(frozen=True)
class RunSpec:
    """One run to be made.

    Parameters
    ----------
    algorithm
        Its label.
    number
        Which trial of the algorithm it is.
    settings
        By key, as for ``--set``.
    config
        The tables of an experiment with this algorithm, these settings and this seed.
    metric, at
        What is wanted of it.

    Examples
    --------
    >>> job = RunSpec("FedDR", 0, 1, {"algorithm.eta": 10}, config={}, metric="F", at="end")
    >>> job.key
    ('FedDR', 0, 1)
    """

    algorithm: str
    number: int
    seed: int
    settings: Mapping[str, Any]
    config: Mapping[str, Any]
    metric: str
    at: At

    @property
    def key(self) -> tuple[str, int, int]:
        """What identifies it in a search."""
        return self.algorithm, self.number, self.seed

    def dumps(self) -> str:
        """Return a line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, line: str) -> Self:
        """Read what ``dumps`` wrote."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class RunRecord:
    """The result of a job.

    Parameters
    ----------
    value
        The metric; None where there is none.
    round
        Where the metric was measured, or where the run diverged.
    reason
        Why there is no metric, or what else is to be known.
    row
        The row of the history that counts.
    rounds, local_steps, bytes_up, bytes_down, seconds
        What the whole run took.

    Examples
    --------
    >>> one = RunRecord("FedDR", 0, 0, {"algorithm.eta": 10}, "finished", value=0.5)
    >>> RunRecord.loads(one.dumps()).value
    0.5
    """

    algorithm: str
    number: int
    seed: int
    settings: Mapping[str, Any]
    status: Status
    value: float | None = None
    round: int | None = None
    reason: str = ""
    row: Mapping[str, float | None] = field(default_factory=dict)
    rounds: int = 0
    local_steps: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = math.nan

    @property
    def key(self) -> tuple[str, int, int]:
        """That of the job."""
        return self.algorithm, self.number, self.seed

    @property
    def brief(self) -> str:
        """The reason in one line: of a traceback the last."""
        lines = self.reason.split("\n") if self.status != "failed" else self.reason.strip().split("\n")[-1:]
        return " ".join(" ".join(lines).split())

    def dumps(self) -> str:
        """Return a line of JSON, in which null stands for what was not measured."""
        plain = {name: _null(value) for name, value in asdict(self).items()}
        return json.dumps(plain | {"row": {name: _null(value) for name, value in self.row.items()}})

    @classmethod
    def loads(cls, line: str) -> Self:
        """Read what ``dumps`` wrote."""
        fields = json.loads(line)
        read = cls(**fields | {"seconds": math.nan if fields["seconds"] is None else fields["seconds"]})
        for name, kind in RECORDED.items():
            if not isinstance(getattr(read, name), kind):
                raise ValueError(f"{name} must not be {getattr(read, name)!r}")
        return read


RECORDED: Mapping[str, Any] = {
    **dict.fromkeys(("algorithm", "status", "reason"), str),
    **dict.fromkeys(("number", "seed", "rounds", "local_steps", "bytes_up", "bytes_down"), int),
    **dict.fromkeys(("settings", "row"), dict),
    "value": float | int | None,
    "round": int | None,
    "seconds": float | int,
}
"""What a line of a file must hold, which somebody may have edited."""


def record(job: RunSpec, status: Status, **more: Any) -> RunRecord:
    """Return a record of a job."""
    return RunRecord(job.algorithm, job.number, job.seed, job.settings, status, **more)


def execute(job: RunSpec) -> RunRecord:
    """Run a job on one thread and return its record, also where the run fails.

    Only what ends the program, such as Ctrl-C, is raised.

    Examples
    --------
    >>> job = RunSpec("FedDR", 0, 1, {}, config={"name": "no rounds"}, metric="F", at="end")
    >>> execute(job).status
    'refused'
    """
    return attempt(job).record


class Attempt(NamedTuple):
    """The record of a job, and the rows of its history so far."""

    record: RunRecord
    rows: "list[Row]"


def attempt(job: RunSpec, adapt: "Callable[[RunArguments], RunArguments] | None" = None) -> Attempt:
    """Do what ``execute`` does, and return the history, too.

    Parameters
    ----------
    adapt
        Changes the run before it is begun, where clients' own models are asked for.
    """
    from feddr.config import build, parse, perform
    from feddr.engines.clock.event_loop import ClockWarning
    from feddr.engines.shared.errors import DivergedError

    rows: list[Row] = []
    wanted, began = 0, time.perf_counter()

    def callback(progress: "Progress") -> bool:
        nonlocal wanted
        wanted = progress.rounds
        rows.extend([progress.row] if progress.row is not None else [])
        return False

    def ended(status: Status, **more: Any) -> Attempt:
        return Attempt(record(job, status, **more, **_spent(rows), seconds=time.perf_counter() - began), rows)

    try:
        with warnings.catch_warnings(record=True) as caught:
            # Overflows and divergence are detected at the end, and are in the record.
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", ClockWarning)
            config = parse({key: value for key, value in job.config.items() if key != "tune"})
            problem, (run,) = build(config)
            run = run if adapt is None or not config.personal else adapt(run)
            result = perform(config, problem, run, threads=1, callback=callback)
            rows = result.history.rows
            wanted = rows[-1].round if "stopped" in result.settings else wanted
    except DivergedError as error:
        return ended("diverged", round=error.round, reason=str(error))
    except ValueError as error:
        return ended("refused", reason=str(error))
    except Exception:
        return ended("failed", reason=traceback.format_exc())
    notes = " ".join(str(warning.message) for warning in caught if issubclass(warning.category, ClockWarning))
    spent = _spent(rows) | {"seconds": time.perf_counter() - began}
    return Attempt(judge(job, rows, wanted, notes, spent), rows)


def judge(job: RunSpec, rows: "Sequence[Row]", wanted: int, notes: str, spent: Mapping[str, Any]) -> RunRecord:
    """Return the record of a run that came to its end."""
    chosen = choose(rows, job.metric, job.at)
    value = chosen.value(job.metric)
    more = {"round": chosen.round, "row": chosen.to_dict(), **spent}
    if not math.isfinite(rows[-1].F):
        reason = f"F is {rows[-1].F} at xbar after round {rows[-1].round}; lower lr or eta."
        return record(job, "diverged", reason=reason, **more)
    if not math.isfinite(value):
        reason = f"{job.metric} is {value}, so it was not measured; is there what it needs, such as test samples?"
        return record(job, "refused", reason=reason, **more)
    status: Status = "finished" if rows[-1].round == wanted else "stalled"
    return record(job, status, value=value, reason=notes, **more)


def choose(rows: "Sequence[Row]", metric: str, at: At) -> "Row":
    """Return the row that counts; of equal ones the first."""
    later = [row for row in rows[1:] if math.isfinite(row.value(metric))]
    if at == "last" or not later:
        return rows[-1]
    best = min if better(metric) == "min" else max
    return best(later, key=lambda row: row.value(metric))


def _spent(rows: "Sequence[Row]") -> dict[str, Any]:
    if not rows:
        return {}
    last = rows[-1]
    names = ("local_steps", "bytes_up", "bytes_down")
    return {"rounds": last.round, **{name: getattr(last, name) for name in names}}


def _null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
