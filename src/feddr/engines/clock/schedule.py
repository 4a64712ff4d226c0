"""The event queue of the virtual clock: when clients start, finish, drop out and return, without what they compute."""

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from feddr.checkpoint import encoding
from feddr.delays import Delay, Job, Timing
from feddr.delays.draw import uniform
from feddr.engines.clock import events

_CHOICE, _TIE = 0, 7  # no tags of ``feddr.delays``


@dataclass(slots=True)
class Running:
    """A job in flight: the version of xbar that it read, its bytes, its message and its update."""

    client: int
    number: int
    start: float
    end: float
    timing: Timing
    read: int
    down: int
    message: Any = None
    update: Any = None

    @property
    def lost(self) -> bool:
        """Whether its client drops out before the upload arrives."""
        return self.timing.lost_after is not None


class Schedule:
    """A discrete-event simulation of n clients, of whom at most ``concurrency`` work at a time.

    A client has at most one thing to come, the end of its job or its return. Things that happen at one moment happen in
    an order that the seed draws, and clients begin when all of them have: otherwise low numbers would have the better
    chances where speeds are equal. When there is room, the next client is drawn from those that are there and idle.

    Parameters
    ----------
    describe
        From (client, number of its job) to the job, for the model of delays.
    """

    def __init__(
        self,
        n: int,
        delays: Delay,
        seed: int,
        describe: Callable[[int, int], Job],
        concurrency: int,
        record: events.EventRecorder,
    ) -> None:
        self.delays, self.seed, self.describe, self.record = delays, seed, describe, record
        self.time = 0.0
        self.room = concurrency
        self.jobs: dict[int, Running] = {}
        self.heap: list[tuple[float, float, int]] = []
        self.idle = list(range(n))
        self.numbers = [0] * n
        self.free = [0.0] * n
        self.draws = 0

    def resume(self, time: float, numbers: Mapping[int, int], free: Mapping[int, float]) -> None:
        """Continue from a time at which all clients are idle and have had these numbers of jobs."""
        self.time = time
        for client, number in numbers.items():
            self.numbers[client] = number
        for client, since in free.items():
            self.free[client] = since
            if since > time:
                self.idle.remove(client)
                self._wait(client, since)

    def upcoming(self) -> Running | None:
        """Return the job that the next event ends; None for a return."""
        return self.jobs.get(self.heap[0][-1])

    def turn(self, time: float, client: int) -> tuple[float, float, int]:
        """Return the position of a client's action among the events of one moment."""
        return time, uniform((_TIE, self.seed), client, self.numbers[client]), client

    def step(self) -> Running | None:
        """Go to the next event, and return the job whose upload arrives; None for a drop-out or a return."""
        self.time, _, client = heapq.heappop(self.heap)
        job = self.jobs.pop(client, None)
        if job is None:
            self.idle.append(client)
            return None
        self.room += 1
        if not job.lost:
            self.idle.append(client)
            self.free[client] = self.time
            return job
        self.record.job(client, job.start, job.timing, job.read, -1, job.end)
        self.free[client] = back = self.time + job.timing.pause
        self.record.away(client, self.time, back)
        if back > self.time:
            self._wait(client, back)
        else:
            self.idle.append(client)
        return None

    def begin(self, version: int) -> list[Running]:
        """Let idle clients begin from this version of xbar while there is room, and return their jobs.

        Nobody begins while something else is still to happen at this moment.
        """
        begun: list[Running] = []
        if self.heap and self.heap[0][0] <= self.time:
            return begun
        while self.room and self.idle:
            client = self._choose()
            number = self.numbers[client]
            described = self.describe(client, number)
            timing = self.delays.apply(described, Timing())
            if timing.online is not None:
                there, _ = timing.online(self.time)
                if there > self.time:
                    self._wait(client, there)
                    continue
            self.record.gap(client, self.free[client], self.time, timing.online)
            job = Running(client, number, self.time, events.work(self.time, timing), timing, version, described.down)
            self.numbers[client] += 1
            self.room -= 1
            self.jobs[client] = job
            self._wait(client, job.end)
            begun.append(job)
        return begun

    def arrived(self, job: Running, version: int) -> None:
        """Record a job whose upload has arrived at the server with this version."""
        self.record.job(job.client, job.start, job.timing, job.read, version, job.end)

    def skipped(self, job: Running) -> None:
        """Record a job whose upload could not be used."""
        self.record.job(job.client, job.start, job.timing, job.read, -1, job.end, late=True)

    def close(self) -> None:
        """Record what is under way when the run ends."""
        for job in self.jobs.values():
            self.record.job(job.client, job.start, job.timing, job.read, -1, self.time)
        for client, free in enumerate(self.free):
            if client not in self.jobs and free < self.time and not self.record.full:
                timing = self.delays.apply(self.describe(client, self.numbers[client]), Timing())
                self.record.gap(client, free, self.time, timing.online)
        self.record.truncate(self.time)

    def state_dict(self) -> encoding.Arrays:
        """Return everything that later events depend on, but for what jobs compute."""
        jobs = self.jobs.values()
        return {
            **encoding.add_prefix("events", encoding.timeline(self.record.events)),
            "time": np.array(self.time, np.float64),
            "counts": np.array([self.room, self.draws], np.int64),
            "idle": np.array(self.idle, np.int64),
            "numbers": np.array(self.numbers, np.int64),
            "free": np.array(self.free, np.float64),
            "heap_times": np.array([time for time, _, _ in self.heap], np.float64),
            "heap_clients": np.array([client for _, _, client in self.heap], np.int64),
            "jobs": np.array([(job.client, job.number, job.read) for job in jobs], np.int64).reshape(-1, 3),
            "job_down": np.array([job.down for job in jobs], np.int64),
            "job_times": np.array([(job.start, job.end) for job in jobs], np.float64).reshape(-1, 2),
        }

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned; jobs have neither message nor update."""
        self.record.events = encoding.events(encoding.strip_prefix("events", arrays))
        self.time = arrays["time"].item()
        self.room, self.draws = arrays["counts"].tolist()
        self.idle, self.numbers, self.free = (arrays[name].tolist() for name in ("idle", "numbers", "free"))
        self.heap = list(map(self.turn, arrays["heap_times"].tolist(), arrays["heap_clients"].tolist()))
        heapq.heapify(self.heap)
        self.jobs = {}
        jobs, times = arrays["jobs"].tolist(), arrays["job_times"].tolist()
        # Not there in checkpoints of version 0.3, in which all messages have the length of the one now.
        sizes = arrays["job_down"].tolist() if "job_down" in arrays else [None] * len(jobs)
        for (i, number, read), (start, end), down in zip(jobs, times, sizes, strict=True):
            described = self.describe(i, number)
            described = described if down is None else described._replace(down=down)
            timing = self.delays.apply(described, Timing())
            self.jobs[i] = Running(i, number, start, end, timing, read, described.down)

    def _choose(self) -> int:
        last = len(self.idle) - 1
        if last >= self.room:
            self.draws += 1
            drawn = int(uniform((_CHOICE, self.seed), self.draws) * (last + 1))
            self.idle[drawn], self.idle[last] = self.idle[last], self.idle[drawn]
        return self.idle.pop()

    def _wait(self, client: int, until: float) -> None:
        if until < math.inf:
            heapq.heappush(self.heap, self.turn(until, client))
