"""Availability of clients: when they are online, and when they drop out in the middle of a job."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from feddr.delays.delay import Job, Timing
from feddr.delays.speed import positive

_PHASE, _DROPS, _WHERE = 4, 5, 6


@dataclass(frozen=True)
class Periodic:
    """A client is there for ``online`` seconds out of every ``period``, from a random phase of its own on.

    A job that is not done when the client leaves continues when it is back.

    Examples
    --------
    >>> Periodic(period=24.0, online=8.0)
    Periodic(period=24.0, online=8.0)
    """

    period: float
    online: float

    def __post_init__(self) -> None:
        positive(self, "period", self.period)
        if not 0 < self.online <= self.period:
            raise ValueError(f"Periodic needs 0 < online <= period, got online={self.online}, period={self.period}.")

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Say when the client is there."""
        if self.online == self.period:
            return timing
        return timing._replace(online=partial(self._next, self.period * job.draw_once(_PHASE)))

    def _next(self, phase: float, t: float) -> tuple[float, float]:
        k = math.floor((t - phase) / self.period)
        while t >= phase + k * self.period + self.online:  # at most once, or twice where the division was rounded
            k += 1
        opens = phase + k * self.period
        return max(t, opens), opens + self.online


@dataclass(frozen=True)
class Windows:
    """A client is there in given intervals, and never after the last one.

    Parameters
    ----------
    windows
        For each client a list of pairs (from, until), increasing and apart: ``[[(0, 5), (8, 20)], [(0, inf)]]``.

    Examples
    --------
    >>> scheme = Windows([[(0, 5), (8, 20)], [(0, math.inf)]])
    >>> scheme.check(n=2)
    """

    windows: Sequence[Sequence[Sequence[float]]]

    def __post_init__(self) -> None:
        windows = tuple(tuple(tuple(map(float, pair)) for pair in client) for client in self.windows)
        object.__setattr__(self, "windows", windows)
        for client, pairs in enumerate(windows):
            ends = [end for pair in pairs for end in pair]
            if any(len(pair) != 2 for pair in pairs) or any(a >= b for a, b in itertools.pairwise(ends)):
                raise ValueError(
                    f"Windows needs pairs (from, until), increasing and apart, client {client} has {list(pairs)}."
                )

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one list for each client."""
        if len(self.windows) != n:
            raise ValueError(f"Windows needs one list of pairs for each of {n} clients, got {len(self.windows)}.")

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Say when the client is there."""
        return timing._replace(online=partial(_next, self.windows[job.client]))


def _next(pairs: Sequence[Sequence[float]], t: float) -> tuple[float, float]:
    for opens, closes in pairs:
        if t < closes:
            return max(t, opens), closes
    return math.inf, math.inf


@dataclass(frozen=True)
class Dropout:
    """A job is lost with some probability, at a random moment; its client is back after a pause.

    The update is lost and the client's state stays as it was, so the next job takes the same batches.

    Examples
    --------
    >>> job = Job(seed=0, client=1, number=0, steps=10, down=1000, up=500)
    >>> times = [Dropout(0.5, pause=3.0).apply(job._replace(number=k), Timing()) for k in range(100)]
    >>> 30 < sum(time.lost_after is not None for time in times) < 70
    True
    """

    probability: float
    pause: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1:
            raise ValueError(f"Dropout needs a probability from 0 to below 1, got {self.probability}.")
        if not self.pause >= 0:
            raise ValueError(f"Dropout needs a pause of 0 or more, got {self.pause}.")

    def check(self, n: int) -> None:
        """Fit any number of clients."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        """Say whether the job is lost, and where."""
        if job.draw(_DROPS) >= self.probability:
            return timing
        return timing._replace(lost_after=job.draw(_WHERE), pause=self.pause)
