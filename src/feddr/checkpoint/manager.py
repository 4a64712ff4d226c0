"""CheckpointManager: when a run is saved, and how it resumes from its newest checkpoint."""

import contextlib
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from feddr.checkpoint import encoding
from feddr.checkpoint.encoding import Stateful
from feddr.checkpoint.folder import CheckpointError, Checkpoints, CheckpointWarning
from feddr.engines.shared.errors import DivergedError
from feddr.storage.lock import Lock

if TYPE_CHECKING:
    from feddr.engines.shared.server import ServerRun

EVERY = "60s"
"""How often a run is saved unless it says otherwise."""

SHARE = 0.05
"""The part of the time that saving may take, where it is asked for in seconds."""

_SECONDS = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?s")


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved, and whether it resumes.

    Parameters
    ----------
    folder
        A folder of its own, in which the two newest checkpoints are kept; one more is written at the end.
    every
        Rounds between two checkpoints, or seconds, as in ``"60s"``: more where saving would take too large a share.
    resume
        Whether to resume from the newest checkpoint, if there is one. The result is that of a run that was never
        interrupted, bit for bit, but for ``wall_time``. The settings must be the same, but for ``rounds``, ``threads``,
        ``client_memory`` and ``on_bad_client``.

    Raises
    ------
    ValueError
        Where ``every`` is neither a positive whole number nor seconds.

    Examples
    --------
    >>> import feddr
    >>> feddr.Checkpoint("runs/first", every=10)
    Checkpoint(folder='runs/first', every=10, resume=False)
    """

    folder: str | Path
    every: int | str = EVERY
    resume: bool = False

    def __post_init__(self) -> None:
        interval(self.every)

    @classmethod
    def of(cls, value: "Checkpoint | str | Path | None") -> "Checkpoint | None":
        """Return the argument ``checkpoint`` of an engine as a Checkpoint; a folder alone is one, too."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str | Path):
            return cls(value)
        raise ValueError(f"checkpoint must be a feddr.Checkpoint or a folder, got {value!r}.")


class CheckpointManager:
    """Saves a run in a folder, which it locks until the run ends, and resumes it; does nothing without a folder.

    Parameters
    ----------
    checkpoint
        Where and how often; None for never.
    run, parts
        What is saved.
    identity
        The settings that a run must share with its checkpoints, from ``identity.identity``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        run: "ServerRun",
        parts: Mapping[str, Stateful],
        identity: Mapping[str, Any],
    ) -> None:
        self.rounds, self.seconds = interval(EVERY if checkpoint is None else checkpoint.every)
        self.checkpoints = None if checkpoint is None else Checkpoints(Path(checkpoint.folder))
        self.resume = checkpoint is not None and checkpoint.resume
        self.run, self.parts, self.settings = run, {"run": run, **parts}, dict(identity)
        self.newest: int | None = None
        self.tried = 0
        self.time, self.cost = time.monotonic(), 0.0
        self.failing = False

    def __enter__(self) -> Self:
        if self.checkpoints is None:
            return self
        folder = self.checkpoints.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder)
        except OSError as error:
            raise CheckpointError(f"{folder}: no checkpoint can be written there, {error.strerror}.") from None
        if self.checkpoints.numbers() and not self.resume:
            self._lock.release()
            raise CheckpointError(
                f"{folder} holds the checkpoints of a run; resume it with Checkpoint(..., resume=True), or take "
                "another folder."
            )
        self.checkpoints.sweep()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Save the last good state of a run that diverged, and release the lock."""
        if isinstance(error, DivergedError):
            error.history = self.run.history
            if self.checkpoints is not None and error.last_good_round is not None and error.last_good_round >= 0:
                self._save(error.last_good_round)
            if self.newest is not None:
                error.args = (f"{error} The state after round {self.newest} is in {self._place}.",)
        if self.checkpoints is not None:
            self._lock.release()
            with contextlib.suppress(OSError):  # only an empty one goes
                self.checkpoints.folder.rmdir()

    def begin(self, rounds: int) -> int | None:
        """Load the newest checkpoint, and return its round; None where the run is to start from the beginning."""
        if self.checkpoints is None or not self.resume:
            return None
        saved = self.checkpoints.newest(self.settings)
        if saved is None:
            return None
        if saved.round > rounds:
            raise CheckpointError(
                f"The checkpoint in {self._place} is that of round {saved.round}, got {rounds} rounds; ask for more."
            )
        try:
            self.run.load_clients(saved.clients())
            arrays = saved.state()
            for name, part in self.parts.items():
                part.load_state_dict(encoding.strip_prefix(name, arrays))
        except CheckpointError:
            raise
        except (KeyError, IndexError, TypeError, ValueError):
            # Whole by its checksums, and yet not what feddr writes: somebody made it by hand.
            raise CheckpointError(f"The checkpoint in {self._place} does not hold the state of this run.") from None
        self.newest = self.tried = saved.round
        self.time = time.monotonic()
        return saved.round

    def after(self, k: int, last: bool) -> None:
        """Write a checkpoint after round k if one is due, or if it is the last round."""
        if self.checkpoints is not None and (last or self._due(k)):
            self._save(k)

    def _due(self, k: int) -> bool:
        if self.rounds is not None:
            return k - self.tried >= self.rounds
        return time.monotonic() - self.time >= max(self.seconds, self.cost / SHARE)

    def _save(self, k: int) -> None:
        """Save, unless that has been done; a failed write is a warning and does not end the run."""
        assert self.checkpoints is not None
        if k == self.newest:
            return
        self.tried, begin = k, time.monotonic()
        arrays: encoding.Arrays = {}
        for name, part in self.parts.items():
            arrays |= encoding.add_prefix(name, part.state_dict())
        try:
            self.checkpoints.save(k, self.settings, arrays, encoding.segments(self.run.state.clients))
        except OSError as error:
            if not self.failing:
                newest = "there is none yet" if self.newest is None else f"the newest is that of round {self.newest}"
                warnings.warn(
                    f"No checkpoint could be written after round {k} in {self._place}: {error.strerror}. The run "
                    f"continues, and {newest}.",
                    CheckpointWarning,
                    stacklevel=4,
                )
            self.failing = True
        else:
            self.newest, self.failing = k, False
        self.time = time.monotonic()
        self.cost = self.time - begin

    @property
    def _place(self) -> Path | None:
        return None if self.checkpoints is None else self.checkpoints.folder


def interval(every: int | str, name: str = "every") -> tuple[int | None, float]:
    """Return the rounds, or None and the seconds, between two checkpoints; ``name`` is what errors call it."""
    seconds = _SECONDS.fullmatch(every) if isinstance(every, str) else None
    if seconds is not None:
        return None, float(seconds[1])
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f'{name} must be a number of rounds, or seconds as in "60s", got {every!r}.')
    return every, 0.0
