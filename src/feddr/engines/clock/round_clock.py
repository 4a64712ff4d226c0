"""Virtual time of synchronous rounds: each lasts as long as its slowest client, or until the deadline."""

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.checkpoint import encoding
from feddr.delays import Job, Timing
from feddr.engines.clock import events
from feddr.engines.clock.settings import Clock
from feddr.engines.shared.aggregation import upload_bytes
from feddr.engines.shared.server import ServerRun
from feddr.local import Solution
from feddr.tree import Tree

WORK = ("receiving", "computing", "sending")
"""The kinds of events that are work, unless it is lost."""


def placeholder_upload(run: ServerRun) -> Tree:
    """Return an upload as clients send them, in shape and type; the rules are pure, so the call changes nothing."""
    message = run.message().content
    rules = run.roles.client(0)
    c = rules.client(run.x0, message)
    sub = rules.subproblem(c, message)
    gradient = run.x0 if run.algorithm.needs_gradient else None
    solution = Solution(run.x0, 0, math.nan, gradient, None if sub.descent is None else 0.0)
    _, upload = rules.finish(c, message, sub, solution)
    return upload


def jobs(run: ServerRun) -> Callable[[int, int], Job]:
    """Return the function from (client, number of its job) to the job, if it begins now."""
    up = upload_bytes(run.algorithm, placeholder_upload(run), run.dtype)
    seed, steps = run.options.seed, [run.local.num_steps(int(size)) for size in run.problem.data.sizes]

    def describe(client: int, number: int) -> Job:
        return Job(seed, client, number, steps[client], run.message().num_bytes, up)

    return describe


class RoundClock:
    """Virtual time for rounds: a round lasts as long as its slowest client, or until a deadline.

    A client whose upload is lost or not there by the deadline is left out: it stops, and its state stays as it was. A
    client that is not there when it is asked begins when it is back.
    """

    def __init__(self, run: ServerRun, clock: Clock) -> None:
        self.algorithm, self.delays = run.algorithm, clock.delays
        self.deadline = math.inf if clock.deadline is None else clock.deadline
        self.describe = jobs(run)
        self.record = events.EventRecorder(clock.max_events)
        self.time = 0.0
        self.numbers: dict[int, int] = {}
        self.free: dict[int, float] = {}

    def round(self, k: int, active: NDArray[np.int64]) -> NDArray[np.int64]:
        """Let round k pass, and return those of the active clients whose uploads arrive in time."""
        begin, timings, ends = self.time, {}, {}
        self._before = (
            self.time,
            {int(i): self.numbers.get(int(i)) for i in active},
            {int(i): self.free.get(int(i)) for i in active},
            len(self.record.events),
        )
        for i in map(int, active):
            number = self.numbers.get(i, 0)
            self.numbers[i] = number + 1
            timings[i] = self.delays.apply(self.describe(i, number), Timing())
            ends[i] = events.work(max(begin, self.free.get(i, 0.0)), timings[i])
        end = min(begin + self.deadline, max(ends.values(), default=begin))
        if end == math.inf:
            never = next(i for i in ends if ends[i] == math.inf)
            raise ValueError(f"Round {k} would never end: client {never} does not finish. Give a deadline.")
        in_time = [i for i in ends if ends[i] <= end and timings[i].lost_after is None]
        for i, timing in timings.items():
            self._keep(i, timing, begin, end, max(k - 1, 0), ends[i], i in in_time)
        self.time = end
        self.record.made(k, end)
        if len(in_time) < len(ends) and not self.algorithm.partial:
            missing = next(i for i in ends if i not in in_time)
            raise ValueError(
                f"{type(self.algorithm).__name__} needs every client in every round, but client {missing} is missing "
                f"in round {k}; use FedDR, or delays in which no update is lost or late."
            )
        return np.asarray(in_time, np.int64)

    def _keep(self, i: int, timing: Timing, begin: float, end: float, read: int, until: float, in_time: bool) -> None:
        """Record what a client did in a round that was from ``begin`` to ``end``."""
        free = self.free.get(i, 0.0)
        self.record.gap(i, free, begin, timing.online)
        start = max(begin, free)
        self.record.job(i, start, timing, read, read if in_time else -1, min(until, end), late=not in_time)
        self.free[i] = max(free, min(until, end))
        if timing.lost_after is not None and until <= end:
            self.free[i] = until + timing.pause
            self.record.away(i, until, self.free[i])

    def skipped(self, clients: Container[int]) -> None:
        """Record that the last round's work of some clients could not be used."""
        first = self._before[-1]
        self.record.events[first:] = [
            event._replace(kind="lost", arrived=-1) if event.client in clients and event.kind in WORK else event
            for event in self.record.events[first:]
        ]

    def undo(self) -> None:
        """Undo the last round, which failed."""
        self.time, numbers, free, events = self._before
        _put_back(self.numbers, numbers)
        _put_back(self.free, free)
        del self.record.events[events:]

    def columns(self) -> dict[str, float]:
        """Return the columns of a history's row that belong to the clock."""
        return {"time": self.time}

    def close(self) -> list[events.Event]:
        """Return what was recorded, up to now."""
        for i, free in self.free.items():
            if not self.record.full:
                timing = self.delays.apply(self.describe(i, self.numbers[i]), Timing())
                self.record.gap(i, free, self.time, timing.online)
        self.record.truncate(self.time)
        return self.record.events

    def state_dict(self) -> encoding.Arrays:
        """Return everything that later rounds depend on."""
        return {
            **encoding.add_prefix("events", encoding.timeline(self.record.events)),
            **encoding.add_prefix("numbers", encoding.pairs(self.numbers, np.int64)),
            **encoding.add_prefix("free", encoding.pairs(self.free, np.float64)),
            "time": np.array(self.time, np.float64),
        }

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned."""
        self.record.events = encoding.events(encoding.strip_prefix("events", arrays))
        self.numbers = encoding.mapping(encoding.strip_prefix("numbers", arrays))
        self.free = encoding.mapping(encoding.strip_prefix("free", arrays))
        self.time = arrays["time"].item()


def _put_back(now: dict[int, Any], before: Mapping[int, Any]) -> None:
    for i, value in before.items():
        if value is None:
            now.pop(i, None)
        else:
            now[i] = value
