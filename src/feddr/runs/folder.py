"""The run folder: its layout, its lock, and the results, progress and comparison that are written into it."""

import contextlib
import itertools
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from feddr.config import Config, ConfigError, dumps
from feddr.history import COLUMNS, History
from feddr.history.clients import CLIENT_METRICS, ClientHistory
from feddr.runs import stored
from feddr.runs.compare import write_rows
from feddr.storage import atomic, lock, untrusted

if TYPE_CHECKING:
    from feddr.data import FederatedData
    from feddr.engines.result import Result

CONFIG, CHECKPOINTS, PROGRESS = "config.toml", ".checkpoints", "progress.json"
"""What a folder holds beside the results, the last two until all methods have ended well."""


@dataclass(frozen=True)
class Outcome:
    """How one method of an experiment ended.

    Parameters
    ----------
    status
        ``"finished"``, ``"interrupted"`` or ``"diverged in round 7"``.
    result
        None where the method diverged, when the history ends at the last evaluation before, and where it ended before
        the program was started again.
    reason
        Why it diverged.
    """

    label: str
    status: str
    history: History
    result: "Result | None" = None
    reason: str = ""

    @property
    def diverged(self) -> bool:
        """Whether the method met a NaN or an infinity."""
        return self.status.startswith("diverged")


class Folder:
    """The folder of an experiment; a new one is removed again if nothing is saved in it.

    Parameters
    ----------
    config
        The experiment. Its folder is ``runs/<name>``, or ``runs/<name>-2`` and so on if there is one.
    out
        Another folder instead, new or empty.
    """

    def __init__(self, config: Config, out: Path | None = None) -> None:
        self.config, self.done = config, dict[str, Outcome]()
        self._lock: lock.Lock | None = None
        self._resumed = False
        try:
            if out is None:
                self.path, self._made = _next(Path("runs", config.name))
            elif out.is_dir() and not any(out.iterdir()):
                self.path, self._made = out, []
            else:
                self.path, self._made = out, _new(out)
        except FileExistsError:
            raise ConfigError(f"--out must be a new or an empty folder, {out} is not.") from None
        except OSError as error:
            raise ConfigError(f"{out or Path('runs')}: cannot be written, {error.strerror}.") from None

    @classmethod
    def reopen(cls, config: Config, path: Path) -> Self:
        """Return the folder of an experiment that was interrupted, with the outcomes of its methods so far."""
        folder = cls.__new__(cls)
        folder.config, folder.path, folder._made, folder._resumed = config, path, [], True
        if not (path / CHECKPOINTS / PROGRESS).is_file():
            raise ConfigError(f"{path} holds nothing to resume: its run has ended, or never began.")
        untrusted.check_links(*path.iterdir())
        folder._lock = _hold(path)
        try:
            notes = dict(untrusted.json(path / CHECKPOINTS / PROGRESS).items())
            labels = [method.label for method in config.algorithms if method.label in notes]
            folder.done = {label: _ended(label, path, **notes[label]) for label in labels}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            folder._lock.release()
            raise ConfigError(f"{path / CHECKPOINTS / PROGRESS}: cannot be read, {error}.") from None
        return folder

    def start(self) -> None:
        """Lock the folder, so that nobody else works in it, and write what is needed to resume."""
        self._lock = _hold(self.path)
        with atomic.refusing(self.path, ConfigError):
            atomic.replace(self.path / CONFIG, dumps(self.config).encode())
            (self.path / CHECKPOINTS).mkdir()
            self._note()

    def describe(self, data: "FederatedData") -> None:
        """Write the samples and labels of the clients, for reports."""
        with atomic.refusing(self.path, ConfigError):
            if not (self.path / stored.CLIENTS).exists():
                stored.write_clients(self.path / stored.CLIENTS, data)

    def live(self, label: str) -> stored.Live:
        """Return the file for the rows of a method while it runs, for live reports."""
        return stored.Live(self.path / CHECKPOINTS / f"{label}.csv")

    def checkpoint(self, label: str) -> Path:
        """Return where the checkpoints of a method lie."""
        return self.path / CHECKPOINTS / label

    def finish(self, outcome: Outcome) -> None:
        """Note that a method has ended, and drop its checkpoints, unless it diverged: the last good state stays."""
        self.done[outcome.label] = outcome
        self._note()
        self.live(outcome.label).end()
        if not outcome.diverged:
            shutil.rmtree(self.checkpoint(outcome.label), ignore_errors=True)

    def close(self) -> None:
        """Unlock the folder; where all methods have finished, remove what is only needed to resume."""
        self.discard_if_empty()
        if self._lock is None:
            return
        ended = [self.done.get(method.label) for method in self.config.algorithms]
        if all(outcome is not None and not outcome.diverged for outcome in ended):
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)
        self._lock.release()

    def save(self, outcome: Outcome) -> None:
        """Write the files of one method, and with them the config."""
        from feddr import plots

        atomic.replace(self.path / CONFIG, dumps(self.config).encode())
        folder = self.path / outcome.label
        folder.mkdir(exist_ok=True)
        if outcome.result is None:
            with atomic.replacing(folder / "history.csv") as path:
                outcome.history.to_csv(path)
        else:
            outcome.result.save(folder)
            parts = stored.participation(outcome.result.state.updates, outcome.result.events)
            stored.write_participation(folder / stored.PARTICIPATION, parts)
        histories = {outcome.label: outcome.history}
        if plots.has_personal(histories):
            plots.save(plots.personal_curves(histories), folder / "personal.png")

    def save_comparison(self, outcomes: Sequence[Outcome]) -> None:
        """Write the comparison of the methods: all histories, their last rows, and figures."""
        from feddr import plots

        every = [{"algorithm": one.label, **row.to_dict()} for one in outcomes for row in one.history.rows]
        write_rows(self.path / "comparison.csv", every, ["algorithm", *COLUMNS])
        last = [
            {"algorithm": one.label, "status": one.status, **({} if one.diverged else one.history.last.to_dict())}
            for one in outcomes
        ]
        write_rows(self.path / "summary.csv", last, ["algorithm", "status", *COLUMNS])
        histories = {outcome.label: outcome.history for outcome in outcomes if outcome.history.rows}
        if histories:
            plots.save(plots.curves(histories, self.config.name), self.path / "comparison.png")
        if plots.has_time(histories):
            plots.save(plots.time_curves(histories, self.config.name), self.path / "time.png")
        if plots.has_personal(histories):
            plots.save(plots.personal_curves(histories, self.config.name), self.path / "personal.png")

    def discard_if_empty(self) -> None:
        """Remove the folder, and those above that were made for it, if there is no result and no checkpoint in it."""
        if self._lock is not None and not self._resumed and self.path.is_dir() and self._is_worthless():
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)
            for name in (CONFIG, stored.CLIENTS):
                (self.path / name).unlink(missing_ok=True)
            self._lock.release()
        with contextlib.suppress(OSError):  # a folder that is not empty stays, and so do those above it
            for folder in self._made:
                folder.rmdir()

    def _is_worthless(self) -> bool:
        names = {path.name for path in self.path.iterdir()} - {CONFIG, CHECKPOINTS, stored.CLIENTS, lock.HIDDEN}
        return not names and not any(self.path.glob(f"{CHECKPOINTS}/*/[0-9]*"))

    def _note(self) -> None:
        notes = {label: {"status": one.status, "reason": one.reason} for label, one in self.done.items()}
        atomic.replace(self.path / CHECKPOINTS / PROGRESS, (json.dumps(notes, indent=1) + "\n").encode())


def _ended(label: str, path: Path, status: str, reason: str) -> Outcome:
    """Return how a method ended before the resume, from its note and its history."""
    outcome = Outcome(label, str(status), read_history(path / label), reason=str(reason))
    if not outcome.diverged and not outcome.history.rows:
        raise ValueError(f"{label} ended without a row in its history")
    return outcome


def read_history(folder: Path) -> History:
    """Return the history that a method has left in its folder, with the metrics of its clients if it has them."""
    history = History.from_csv(folder / "history.csv")
    if (folder / CLIENT_METRICS).is_file():
        history.clients = ClientHistory.from_csv(folder / CLIENT_METRICS)
    return history


def _hold(folder: Path) -> lock.Lock:
    with atomic.refusing(folder, ConfigError):
        return lock.Lock(folder)


def _new(path: Path) -> list[Path]:
    """Make a folder that must not exist, and return what was made, innermost first."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir()
    return made


def _next(path: Path) -> tuple[Path, list[Path]]:
    """Make ``path``, else ``path-2``, ``path-3``, ...; two runs that start together get two folders."""
    for number in itertools.count(1):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        with contextlib.suppress(FileExistsError):
            return candidate, _new(candidate)
    raise AssertionError("itertools.count ends")
