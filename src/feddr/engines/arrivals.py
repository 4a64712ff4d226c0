"""What arrives at the server of an asynchronous run: when it is computed, how stale it is, and what it makes.

A job's result is needed only when its upload arrives, so jobs are computed late and many at a time: when the next
arrival has not been computed, every job in flight is.
"""

import heapq
import math
import warnings
from collections.abc import Sequence

import numpy as np

from feddr import events
from feddr.algorithms import Asynchronous
from feddr.delays import Delay
from feddr.engines import rounds as common
from feddr.engines import timing
from feddr.engines.rounds import Accepted, Callback
from feddr.engines.run import Answer, Job, Run
from feddr.engines.schedule import Running, Schedule
from feddr.history import Row
from feddr.theory import asynchronous
from feddr.tree import Tree


class ClockWarning(UserWarning):
    """Something about a run that its user should know."""


class StalenessWarning(ClockWarning):
    """An update was older than the step sizes were chosen for."""


class StalledWarning(ClockWarning):
    """A run ended early because no client will ever send anything again."""


class Arrivals:
    """An asynchronous run, event by event.

    ``version`` counts the server's updates, each of which makes another xbar.

    Parameters
    ----------
    run
        The state, and how clients and metrics are computed.
    eager
        Whether to compute each job when it begins.
    """

    def __init__(
        self,
        run: Run,
        algorithm: Asynchronous,
        delays: Delay,
        concurrency: int,
        updates: int,
        evaluate_every: int,
        callback: Callback | None,
        max_events: int,
        eager: bool,
    ) -> None:
        self.run, self.algorithm, self.delays = run, algorithm, delays
        self.updates, self.evaluate_every, self.eager = updates, evaluate_every, eager
        self.callbacks = [] if callback is None else [callback]
        n = run.problem.data.num_clients
        record = events.Record(max_events)
        self.schedule = Schedule(n, delays, run.seed, timing.jobs(run, run.seed), concurrency, record)
        self.version = 0
        self.buffer: list[Accepted] = []
        self.waiting: list[Running] = []
        self.message: tuple[Tree, int] | None = None
        self.tau = 0
        self.since: list[int] = []
        self.heard = [0] * n
        self.absences = [0] * n

    def play(self) -> None:
        """Go from event to event until the last update."""
        stop = self.begin()
        while self.version < self.updates and not stop:
            stop = self.step() if self.schedule.heap else self._stall()
        self.schedule.close()
        if self.run.history.last.round < self.version:
            self._evaluate()

    def begin(self) -> bool:
        """Let the first clients begin, and return whether the run is to end."""
        if self.algorithm.full_start:
            self._start_up()
        stop = self._report()
        if not stop and self.version < self.updates:
            self._begin()
        return stop

    def step(self) -> bool:
        """Let one event happen, and return whether the run is to end."""
        job, stop = self.schedule.step(), False
        if job is not None:
            self.schedule.arrived(job, self.version)
            self._accept(job)
            if len(self.buffer) >= self.algorithm.buffer:
                stop = self._aggregate()
        if not stop and self.version < self.updates:
            self._begin()
        return stop

    def longest_absence(self) -> int:
        """Return T: every T + 1 updates in a row have one of each client among them."""
        return max(max(was, self.version - last) for was, last in zip(self.absences, self.heard, strict=True))

    def cancel(self) -> None:
        """Give up what has been asked for and is not needed any more."""
        for job in self.schedule.jobs.values():
            if job.answer is not None:
                job.answer.cancel()

    def _begin(self) -> None:
        """Let clients begin with the newest xbar."""
        begun = self.schedule.begin(self.version)
        if not begun:
            return
        if self.message is None:
            message = self.run.message()
            self.message = message, common.wire_bytes(message, self.run.dtype)
        for job in begun:
            job.message, size = self.message
            self.run.state.bytes_down += size
            if self.eager:
                self._submit([job])
            elif not job.lost:
                self.waiting.append(job)

    def _submit(self, jobs: Sequence[Running]) -> None:
        pending = self.run.submit([Job(job.read + 1, job.client, job.message) for job in jobs])
        for job, answer in zip(jobs, pending, strict=True):
            job.answer = answer

    def _answer(self, job: Running) -> Answer:
        """Return what the job computed, and compute with it what else is in flight."""
        if job.answer is None:
            # No more than are still wanted, and of those the earliest: later jobs can only push them back.
            wanted = (self.updates - self.version) * self.algorithm.buffer - len(self.buffer)
            chosen = heapq.nsmallest(wanted, self.waiting, key=lambda j: (j.end, j.client))
            self._submit(chosen)
            self.waiting = [one for one in self.waiting if one.answer is None]
        answer: Answer = job.answer.result()
        return answer

    def _accept(self, job: Running) -> None:
        staleness = self.version - job.read
        limit = getattr(self.algorithm, "tau", None)
        if limit is not None and staleness > limit >= self.tau:
            self._warn(job.client, staleness, limit)
        self.tau = max(self.tau, staleness)
        self.since.append(staleness)
        self.absences[job.client] = max(self.absences[job.client], self.version - self.heard[job.client])
        self.heard[job.client] = self.version + 1
        factor = self.algorithm.factor(staleness)
        self.buffer.append(self.run.accept(self.version + 1, job.client, self._answer(job), factor))

    def _aggregate(self) -> bool:
        self.run.aggregate(self.buffer)
        self.buffer, self.message = [], None
        self.version += 1
        self.schedule.record.made(self.version, self.schedule.time)
        return self._report()

    def _report(self) -> bool:
        due = self.version % self.evaluate_every == 0 or self.version == self.updates
        return self.run.tell(self.callbacks, self.version, self.updates, self._evaluate() if due else None)

    def _evaluate(self) -> Row:
        mean = float(np.mean(self.since)) if self.since else math.nan
        most = float(max(self.since)) if self.since else math.nan
        self.since = []
        return self.run.evaluate(self.version, time=self.schedule.time, staleness_mean=mean, staleness_max=most)

    def _start_up(self) -> None:
        """Let every client take part in a synchronous round before the clock starts."""
        n, run = len(self.heard), self.run
        rounds = timing.RoundClock(run, self.delays, None, run.seed, self.schedule.record.most)
        message = run.message()
        run.state.bytes_down += n * common.wire_bytes(message, run.dtype)
        jobs = [Job(0, int(i), message) for i in rounds.round(0, np.arange(n))]
        if jobs:
            answers = run.submit(jobs)
            run.aggregate(run.accept(0, job.client, answer.result()) for job, answer in zip(jobs, answers, strict=True))
        self.schedule.record.events = rounds.record.events
        self.schedule.resume(rounds.time, rounds.numbers, rounds.free)

    def _stall(self) -> bool:
        """End a run in which nothing will happen any more; what has arrived still counts."""
        if self.buffer:
            self._aggregate()
        warnings.warn(
            f"The run ended after {self.version} of {self.updates} updates, at time {self.schedule.time:g}: no client "
            "will send anything again. Look at the delays: who never finishes, or is never back?",
            StalledWarning,
            stacklevel=4,
        )
        return True

    def _warn(self, client: int, staleness: int, limit: int) -> None:
        n = int(1.0 / float(np.max(self.run.problem.client_weights)) + 1e-9)
        most = asynchronous.alpha_max(n, staleness)
        warnings.warn(
            f"An update of client {client} is {staleness} versions old, but eta and alpha were chosen for tau={limit}; "
            f"for {staleness} the theory asks for alpha < {most:.3g} and a smaller eta "
            "(theory.asynchronous.eta_max), or let fewer clients work at a time.",
            StalenessWarning,
            stacklevel=6,
        )
