"""The cache of runs: one method with one seed each, stored under a digest of its settings, so that none is made twice.

A figure that is drawn again, or resumed after an interrupt, reuses the runs that are there; two figures that need the
same run share it.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddr.config.labels import OWN, entries
from feddr.history import COLUMNS, History, Row
from feddr.storage import atomic, untrusted
from feddr.theory import fixed_work
from feddr.tune import pool
from feddr.tune.jobs import RunRecord, RunSpec, attempt

if TYPE_CHECKING:
    from feddr.config import RunArguments

FORMAT = 1
"""Part of every digest: higher when equal settings no longer give equal histories."""

COMMAND = (*pool.COMMAND, "feddr.reproduce.runs")
"""Starts a process that makes runs of figures, for ``feddr.tune.Processes``."""

AUTOMATIC = ("FedDR", "AsyncFedDR")
"""Methods that choose their step sizes where they are not given."""

NAMES = ("name", "label", "tune")
"""What a run is called does not change it."""


def digest(tables: Mapping[str, Any]) -> str:
    """Return the name of a run: equal for equal settings, whatever they are called.

    Parameters
    ----------
    tables
        An experiment with one algorithm and a seed.

    Examples
    --------
    >>> run = {"rounds": 2, "seed": 0, "algorithm": {"name": "FedAvg"}}
    >>> digest(run) == digest(run | {"name": "another"}), digest(run) == digest(run | {"seed": 1})
    (True, False)
    """
    (algorithm,) = entries(tables)
    settings = {key: value for key, value in tables.items() if key not in NAMES}
    settings["algorithm"] = {key: value for key, value in algorithm.items() if key not in ("label", *OWN)}
    # A part of the algorithm's own stands in the place of the shared one, so that either way of writing it is the same.
    settings |= {"sampling": {"name": "Full"}} if "sampling" not in settings else {}
    settings |= {kind: algorithm[kind] for kind in OWN if kind in algorithm}
    if algorithm["name"] in AUTOMATIC and "auto" in (algorithm.get("eta", "auto"), algorithm.get("alpha", "auto")):
        settings["auto"] = _rule()
    text = json.dumps([FORMAT, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _rule() -> list[float]:
    """Return numbers that identify the rule for automatic step sizes; with another rule the runs are made again."""
    penalty = [fixed_work.KEPT, fixed_work.B]
    return [fixed_work.C, fixed_work.Q, fixed_work.A, fixed_work.DECAY, *penalty, fixed_work.ALPHA_ASYNCHRONOUS]


@dataclass(frozen=True)
class Finished:
    """A run that has ended.

    Parameters
    ----------
    status, reason
        As in ``feddr.tune.RunRecord``.
    seconds
        How long it took, on one core.

    Examples
    --------
    >>> Finished(History([]), "diverged", "F is not finite.").status
    'diverged'
    """

    history: History
    status: str
    reason: str = ""
    seconds: float = math.nan


class Runs:
    """A folder of runs.

    Parameters
    ----------
    folder
        Made when the first run is kept.

    Examples
    --------
    >>> Runs(Path("nowhere")).get({"rounds": 2, "seed": 0, "algorithm": {"name": "FedAvg"}}) is None
    True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, tables: Mapping[str, Any]) -> Finished | None:
        """Return the run with these settings, None where it is still to be made, or failed."""
        path = self.folder / f"{digest(tables)}.json"
        if not path.exists():
            return None
        try:
            fields = untrusted.json(path)
            history = History.from_csv(path.with_suffix(".csv"), older=True)
            if not history.rows and fields["status"] != "diverged":
                raise ValueError("its history has no rows")
            seconds = math.nan if fields["seconds"] is None else fields["seconds"]
            return Finished(history, fields["status"], fields["reason"], seconds)
        except (OSError, TypeError, ValueError, KeyError) as error:
            raise ValueError(f"{path} is not the record of a run ({error}); remove it to make the run again.") from None

    def job(self, label: str, tables: Mapping[str, Any]) -> RunSpec:
        """Return the run as a job for the processes of ``feddr tune``."""
        folder = {"folder": str(self.folder.absolute()), "digest": digest(tables)}
        return RunSpec(label, 0, int(tables["seed"]), folder, tables, "F", "last")


def execute(job: RunSpec) -> RunRecord:
    """Make a run on one thread, keep it, and return how it ended; what fails by accident is not kept.

    Examples
    --------
    >>> import tempfile, feddr
    >>> tables = feddr.config.EXAMPLE | {"rounds": 1, "seed": 0, "algorithm": {"name": "FedAvg"}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = Runs(Path(folder))
    ...     record, run = execute(runs.job("FedAvg", tables)), runs.get(tables)
    >>> record.status, run.status
    ('finished', 'finished')
    """
    record, rows = attempt(job, _with_own_models)
    return _kept(job, record, rows)


def answer(line: str) -> str:
    """Make the run of a line of JSON and keep nothing; return its record and its history, also as a line.

    This is what machines of a Ray cluster do, which need not share a disk; ``receive`` keeps the answer.

    Examples
    --------
    >>> import tempfile, feddr
    >>> tables = feddr.config.EXAMPLE | {"rounds": 1, "seed": 0, "algorithm": {"name": "FedAvg"}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = Runs(Path(folder))
    ...     job = runs.job("FedAvg", tables)
    ...     line = answer(job.dumps())
    ...     before, record, run = runs.get(tables), receive(job, line), runs.get(tables)
    >>> before is None, record.status, run.status
    (True, 'finished', 'finished')
    """
    record, rows = attempt(RunSpec.loads(line), _with_own_models)
    return json.dumps({"record": record.dumps(), "rows": [row.to_dict() for row in rows]})


def receive(job: RunSpec, line: str) -> RunRecord:
    """Keep the run that ``answer`` has made of a job, and return its record."""
    fields = json.loads(line)
    known = [{name: row.pop(name) for name in COLUMNS} for row in fields["rows"]]
    rows = [Row(**columns, metrics=metrics) for columns, metrics in zip(known, fields["rows"], strict=True)]
    return _kept(job, RunRecord.loads(fields["record"]), rows)


def _kept(job: RunSpec, record: RunRecord, rows: list[Row]) -> RunRecord:
    """Keep a run, unless it failed by accident, and return its record."""
    if record.status not in ("refused", "failed"):
        _keep(job, History(rows), record)
    return record


def _with_own_models(run: "RunArguments") -> "RunArguments":
    from feddr.reproduce.client_models import with_models

    return run._replace(algorithm=with_models(run.algorithm))


def _keep(job: RunSpec, history: History, ended: RunRecord) -> None:
    """Write the history and then, atomically, the record, which says that the history is complete."""
    folder, name = Path(job.settings["folder"]), job.settings["digest"]
    folder.mkdir(parents=True, exist_ok=True)
    # Two programs may make the same run at the same time.
    with atomic.replacing(folder / f"{name}.csv", shared=True) as path:
        history.to_csv(path)
    reason = ended.reason if ended.status == "diverged" else ""
    record = {"label": job.algorithm, "status": ended.status, "reason": reason, "seconds": ended.seconds}
    with atomic.replacing(folder / f"{name}.json", shared=True) as path:
        path.write_text(json.dumps(record | {"config": dict(job.config)}, indent=1) + "\n", encoding="utf-8")
