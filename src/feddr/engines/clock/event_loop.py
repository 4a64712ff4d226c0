"""The event loop of asynchronous runs: the next arrival, its staleness, the buffer of uploads, and aggregation.

A job's result is needed only when its upload arrives, so jobs are computed late and in batches: when the next arrival
has not been computed, every job in flight is.
"""

import heapq
import math
import warnings
from collections.abc import Sequence

import numpy as np

from feddr.algorithms import Asynchronous
from feddr.checkpoint import encoding
from feddr.checkpoint.manager import CheckpointManager
from feddr.engines.clock import events, round_clock
from feddr.engines.clock.schedule import Running, Schedule
from feddr.engines.clock.settings import Clock
from feddr.engines.shared.aggregation import WeightedUpload, weighted_sum
from feddr.engines.shared.executor import ClientTask, ClientUpdate
from feddr.engines.shared.run import Run
from feddr.engines.shared.state import Callback, Progress, notify
from feddr.engines.shared.stopper import Stopper
from feddr.history import Row
from feddr.theory import asynchronous


class ClockWarning(UserWarning):
    """A warning about an asynchronous run."""


class StalenessWarning(ClockWarning):
    """An update was older than the step sizes were chosen for."""


class StalledWarning(ClockWarning):
    """A run ended early because no client will ever send anything again."""


class EventLoop:
    """An asynchronous run, event by event.

    ``version`` counts the server's updates, each of which makes another xbar.

    Parameters
    ----------
    run
        The state, and how clients and metrics are computed.
    eager
        Whether to compute each job when it begins.
    stopper
        Ends the run before the last update; None for never.
    """

    def __init__(
        self,
        run: Run,
        algorithm: Asynchronous,
        clock: Clock,
        concurrency: int,
        updates: int,
        callbacks: Sequence[Callback] = (),
        eager: bool = False,
        stopper: Stopper | None = None,
    ) -> None:
        self.run, self.algorithm, self.clock = run, algorithm, clock
        self.updates, self.eager, self.stopper = updates, eager, stopper or Stopper(None)
        self.callbacks = callbacks
        self.checkpoints: CheckpointManager | None = None
        n, seed = run.problem.data.num_clients, run.options.seed
        record = events.EventRecorder(clock.max_events)
        self.schedule = Schedule(n, clock.delays, seed, round_clock.jobs(run), concurrency, record)
        self.version = 0
        self.buffer: list[WeightedUpload] = []
        self.waiting: list[Running] = []
        self.tau = 0
        self.since: list[int] = []
        self.heard = [0] * n
        self.absences = [0] * n

    def play(self, checkpoints: CheckpointManager) -> None:
        """Go from event to event until the last update, from the start or from the newest checkpoint."""
        self.checkpoints = checkpoints
        if checkpoints.begin(self.updates) is None:
            stop = self.start()
        else:
            stop = self.stopper.spent(self.run.recorder, self.run.state) or self.stopper.reached(self.run.recorder)
            if not stop:
                self._resume()
        while self.version < self.updates and not stop:
            stop = self.step() if self.schedule.heap else self._stall()
        self.schedule.close()
        if self.run.history.last.round < self.version:
            self._evaluate()

    def start(self) -> bool:
        """Let the first clients begin, and return whether the run is to end."""
        if self.algorithm.full_start:
            self._start_up()
        stop = self._report()
        if not stop:
            self._begin()
        return stop

    def step(self) -> bool:
        """Let one event happen, and return whether the run is to end."""
        upcoming, update, usable, stop = self.schedule.upcoming(), None, False, False
        if upcoming is not None and not upcoming.lost:
            # Before the event changes anything, so that a run that stops here can be saved as it is.
            update = self._update(upcoming)
            usable = self.run.check_upload(_task(upcoming), update, last_good_round=self.version)
        job = self.schedule.step()
        if job is not None and update is not None:
            if usable:
                self._accept(job, update)
            else:
                self.schedule.skipped(job)
                self.run.skip(_task(job), update)
            if len(self.buffer) >= self.algorithm.buffer:
                stop = self._aggregate()
        if not stop:
            self._begin()
        return stop

    def longest_absence(self) -> int:
        """Return T: every T + 1 updates in a row have one of each client among them."""
        return max(max(was, self.version - last) for was, last in zip(self.absences, self.heard, strict=True))

    def close(self) -> None:
        """Drop the reference to the checkpoints, which refer to this loop."""
        self.checkpoints = None

    def _begin(self) -> None:
        """Let clients begin with the newest xbar, unless it is the last."""
        begun = self.schedule.begin(self.version) if self.version < self.updates else []
        if not begun:
            return
        message = self.run.message()
        self.run.count_down(message, len(begun))
        for job in begun:
            job.message = message.content
            if self.eager:
                self._compute([job])
            elif not job.lost:
                self.waiting.append(job)

    def _compute(self, jobs: Sequence[Running]) -> None:
        for job, update in zip(jobs, self.run.executor.execute([_task(job) for job in jobs]), strict=True):
            job.update = update

    def _update(self, job: Running) -> ClientUpdate:
        """Return the result of a job, computed in one batch with the other jobs in flight."""
        if job.update is None:
            # No more than are still wanted, and of those the earliest: later jobs can only push them back.
            wanted = (self.updates - self.version) * self.algorithm.buffer - len(self.buffer)
            chosen = heapq.nsmallest(wanted, self.waiting, key=lambda j: self.schedule.turn(j.end, j.client))
            self._compute(chosen)
            self.waiting = [one for one in self.waiting if one.update is None]
        update: ClientUpdate = job.update
        return update

    def _accept(self, job: Running, update: ClientUpdate) -> None:
        self.schedule.arrived(job, self.version)
        staleness = self.version - job.read
        limit = getattr(self.algorithm, "tau", None)
        if limit is not None and staleness > limit >= self.tau:
            self._warn(job.client, staleness, limit)
        self.tau = max(self.tau, staleness)
        self.since.append(staleness)
        self.absences[job.client] = max(self.absences[job.client], self.version - self.heard[job.client])
        self.heard[job.client] = self.version + 1
        self.buffer.append(self.run.weighted(job.client, update, self.algorithm.factor(staleness)))
        self.run.commit(job.client, update, self.version + 1)

    def _aggregate(self) -> bool:
        self.run.aggregate(weighted_sum(sorted(self.buffer, key=lambda one: one.shard)), self.version + 1)
        self.buffer = []
        self.version += 1
        self.schedule.record.made(self.version, self.schedule.time)
        return self._report()

    def _report(self) -> bool:
        row, over = None, self.stopper.spent(self.run.recorder, self.run.state)
        if self.version % self.run.options.evaluate_every == 0 or self.version == self.updates or over:
            row = self._evaluate()
            over = self.stopper.reached(self.run.recorder)
        stop = notify(self.callbacks, Progress(self.version, self.updates, self.run.state, row)) or over
        if self.checkpoints is not None:
            self.checkpoints.after(self.version, last=stop or self.version == self.updates)
        return stop

    def _evaluate(self) -> Row:
        mean = float(np.mean(self.since)) if self.since else math.nan
        most = float(max(self.since)) if self.since else math.nan
        self.since = []
        return self.run.evaluate(self.version, time=self.schedule.time, staleness_mean=mean, staleness_max=most)

    def _start_up(self) -> None:
        """Let every client take part in a synchronous round before the clock starts."""
        n, run = len(self.heard), self.run
        rounds = round_clock.RoundClock(run, self.clock)
        message = run.message()
        run.count_down(message, n)
        tasks = [ClientTask(0, int(i), message.content) for i in rounds.round(0, np.arange(n))]
        rounds.skipped(run.round(0, tasks))
        self.schedule.record.events = rounds.record.events
        self.schedule.resume(rounds.time, rounds.numbers, rounds.free)

    def _stall(self) -> bool:
        """End a run that has no more events; uploads that have arrived still count."""
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
        n = int(1.0 / float(np.max(self.run.roles.mean_weights)) + 1e-9)
        most = asynchronous.alpha_max(n, staleness)
        warnings.warn(
            f"An update of client {client} is {staleness} versions old, but eta and alpha were chosen for tau={limit}; "
            f"for {staleness} the theory asks for alpha < {most:.3g} and a smaller eta "
            "(theory.asynchronous.eta_max), or let fewer clients work at a time.",
            StalenessWarning,
            stacklevel=6,
        )

    def state_dict(self) -> encoding.Arrays:
        """Return everything that later events depend on.

        What a job computes follows from its client's state, which stays while the job is in flight, and the message
        that it read; so updates are not kept, and each version of the message once.
        """
        messages = {job.read: job.message for job in self.schedule.jobs.values()}
        buffer = [(one.shard, one.weight, one.share, one.new, one.factor) for one in self.buffer]
        arrays = {
            **encoding.add_prefix("schedule", self.schedule.state_dict()),
            "counts": np.array([self.version, self.tau], np.int64),
            "since": np.array(self.since, np.int64),
            "heard": np.array(self.heard, np.int64),
            "absences": np.array(self.absences, np.int64),
            "versions": np.array(list(messages), np.int64),
            "buffer": np.array(buffer, np.float64).reshape(-1, 5),
        }
        for version, message in messages.items():
            arrays |= encoding.flatten(f"message.{version}", message)
        for j, one in enumerate(self.buffer):
            arrays |= encoding.flatten(f"upload.{j}", one.upload)
        return arrays

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned."""
        self.schedule.load_state_dict(encoding.strip_prefix("schedule", arrays))
        self.version, self.tau = arrays["counts"].tolist()
        self.since, self.heard, self.absences = (arrays[name].tolist() for name in ("since", "heard", "absences"))
        message, upload = self.run.message().content, round_clock.placeholder_upload(self.run)
        versions = arrays["versions"].tolist()
        messages = {version: encoding.unflatten(f"message.{version}", message, arrays) for version in versions}
        for job in self.schedule.jobs.values():
            job.message = messages[job.read]
        self.buffer = [
            WeightedUpload(
                int(shard), weight, share, bool(new), encoding.unflatten(f"upload.{j}", upload, arrays), factor
            )
            for j, (shard, weight, share, new, factor) in enumerate(arrays["buffer"].tolist())
        ]

    def _resume(self) -> None:
        """Continue with the jobs in flight, and let those begin whose turn it was."""
        jobs = [job for job in self.schedule.jobs.values() if not job.lost]
        if self.eager:
            self._compute(jobs)
        else:
            self.waiting = jobs
        self._begin()


def _task(job: Running) -> ClientTask:
    return ClientTask(job.read + 1, job.client, job.message)
