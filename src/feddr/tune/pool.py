"""Executors of a search on this machine: this process, or one worker process for each core."""

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from feddr.tune.jobs import RunRecord, RunSpec, execute, record

Executor = Callable[[Iterator[RunSpec]], Iterator[RunRecord]]
"""From jobs to their records, in any order.

A job is taken when there is room for it, and when the jobs come to an end early, those under way are finished.
"""

TRIES = 2
"""How often a job is begun before it counts as failed."""

COMMAND = (sys.executable, "-P", "-m", "feddr.tune.worker")


def serial(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
    """Run one job after the other in this process.

    Examples
    --------
    >>> list(serial(iter([])))  # no jobs, no records
    []
    """
    return map(execute, jobs)


@dataclass(frozen=True)
class Processes:
    """Run jobs in new processes (spawn), since JAX does not survive a fork.

    A process that is killed loses its own job, which is begun once more in a new process.

    Parameters
    ----------
    workers
        Jobs at a time.

    Examples
    --------
    >>> Processes(workers=4).workers
    4
    """

    workers: int
    command: tuple[str, ...] = COMMAND

    def __call__(self, jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        """Return the records as they come."""
        done: queue.SimpleQueue[tuple[_Worker, RunRecord]] = queue.SimpleQueue()
        started: list[_Worker] = []
        try:
            for job in jobs:
                started.append(_Worker(self.command, done))
                started[-1].todo.put(job)
                if len(started) == self.workers:
                    break
            busy = len(started)
            while busy:
                worker, ended = done.get()
                following = next(jobs, None)
                worker.todo.put(following)
                busy -= following is None
                yield ended
        finally:
            for worker in started:
                worker.end()


class _Worker:
    """A worker process, and the thread that sends it jobs."""

    def __init__(self, command: tuple[str, ...], done: "queue.SimpleQueue[tuple[_Worker, RunRecord]]") -> None:
        self.command, self.done = command, done
        self.todo: queue.SimpleQueue[RunSpec | None] = queue.SimpleQueue()
        self.process: subprocess.Popen[str] | None = None
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it is open as long as the thread
        self.ended = False
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Stop the process, also during a job."""
        self.ended = True
        self.todo.put(None)
        if self.process is not None:
            self.process.kill()
        self.thread.join()

    def _work(self) -> None:
        while (job := self.todo.get()) is not None:
            self.done.put((self, self._answer(job)))
        if self.process is not None:
            _close(self.process)
        self.errors.close()

    def _answer(self, job: RunSpec) -> RunRecord:
        reason = ""
        for _ in range(TRIES):
            if self.ended:
                break
            try:
                process = self.process = self.process or self._start()
            except OSError as error:
                reason = f"A process for the run could not be started: {error}."
                continue
            if self.ended:  # too late for end() to see it
                process.kill()
            ended = _ask(process, job)
            if ended is not None:
                return ended
            self.process = None
            end = _end(_close(process))
            reason = f"The process of the run ended with {end}, {TRIES} times. {self._last_error()}".rstrip()
        return record(job, "failed", reason=reason)

    def _start(self) -> "subprocess.Popen[str]":
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}  # several share a GPU, if there is one
        pipe = subprocess.PIPE
        # A session of its own: Ctrl-C is for this program, which lets jobs under way come to their end.
        return subprocess.Popen(
            self.command,
            stdin=pipe,
            stdout=pipe,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,
        )

    def _last_error(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _ask(process: "subprocess.Popen[str]", job: RunSpec) -> RunRecord | None:
    """Return the record of a job, None where the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{job.dumps()}\n")
        process.stdin.flush()
        return RunRecord.loads(process.stdout.readline())
    except (BrokenPipeError, ValueError):  # there is nobody to ask, or no answer, or half of one
        process.kill()
        return None


def _close(process: "subprocess.Popen[str]") -> int:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and needs no more input
                stream.close()
    return process.wait()


def _end(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"
