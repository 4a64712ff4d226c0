"""Supervisor of a process: restarts it with growing pauses when it exits, and stops it and its children on a signal."""

import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from feddr.deploy.events import Events

GRACE = 20.0
"""Seconds between SIGTERM and SIGKILL."""

LOG_BYTES = 20_000_000
"""A log beyond this size is put aside and begun again; one older log is kept."""


class Cause(NamedTuple):
    """Why a process ended, as far as its log says: the event's name, what to do, and the wait if it is a known one."""

    event: str
    text: str
    wait: float | None = None
    level: str = "warning"


@dataclass
class Supervisor:
    """Starts a process in a group of its own, and again with growing pauses whenever it ends.

    SIGTERM and SIGINT end it: the whole group gets SIGTERM, and SIGKILL after ``GRACE`` seconds.

    Parameters
    ----------
    command
        Returns the command line; called before each start, as ports may have been taken since the last one.
    log
        Where the output of the process goes.
    cause
        From the output of one life of the process, and its exit code, to why it ended.
    on_start
        Called in a thread with each new process and where its output begins in the log, for what can be done only
        once it runs.
    first_wait, longest_wait
        Seconds before the first restart, and at most; each doubles the one before. A life of a minute starts afresh.
    lock
        An open file whose lock the process shall hold for as long as it lives.
    """

    command: Callable[[], list[str]]
    environment: dict[str, str]
    log: Path
    events: Events
    cause: Callable[[str, int], Cause]
    on_start: Callable[["subprocess.Popen[bytes]", int], None] | None = None
    first_wait: float = 1.0
    longest_wait: float = 30.0
    lock: int | None = None
    process: "subprocess.Popen[bytes] | None" = None
    stopping: threading.Event = field(default_factory=threading.Event)
    _mark: str = field(default_factory=lambda: f"FEDDR_SUPERVISED={secrets.token_hex(8)}")

    def run(self) -> None:
        """Return when a signal has ended the process; call it from the main thread."""
        failures = 0
        self.log.touch()
        threading.Thread(target=self._keep_short, daemon=True).start()
        with self._signals():
            while not self.stopping.is_set():
                began, offset = time.monotonic(), self.log.stat().st_size
                code = self._live(offset)
                if self.stopping.is_set():
                    break
                lived = time.monotonic() - began
                failures = 1 if lived > 60 else failures + 1
                cause = self.cause(self._output(offset), code)
                backoff = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 20))
                wait = backoff if cause.wait is None else cause.wait
                self.events.write(
                    cause.level,
                    cause.event,
                    f"{cause.text} Starting it again in {wait:.0f} s.",
                    exit_code=code,
                    lived=round(lived, 1),
                    failures=failures,
                    wait=wait,
                )
                self.stopping.wait(wait)
        self.events.write("info", "stopped", "Stopped.")

    def _live(self, offset: int) -> int:
        """Start the process, wait until it ends, kill its remaining children, and return its exit code."""
        command = self.command()
        name, _, value = self._mark.partition("=")
        surroundings = {**self.environment, name: value}
        with open(self.log, "ab") as output:
            keep = () if self.lock is None else (self.lock,)
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=surroundings, start_new_session=True, pass_fds=keep
            )
        self.events.write("info", "started", f"Started process {self.process.pid}.", pid=self.process.pid)
        if self.stopping.is_set():  # the signal came before there was anything to send it to
            self._end_group()
        elif self.on_start is not None:
            threading.Thread(target=self.on_start, args=(self.process, offset), daemon=True).start()
        code = self.process.wait()
        self._signal_group(signal.SIGKILL)
        self._sweep()
        self.process = None
        return code

    def _signal_group(self, number: int) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return  # nobody is left

    def _sweep(self) -> None:
        """Kill what the process has left behind in groups of its own, where the system says so (Linux).

        A SuperLink starts its helpers so, and a server app without its SuperLink would wait for it for ever, with the
        run's ledger in its hands. It is on the disk.
        """
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                marked = self._mark.encode() in (entry / "environ").read_bytes().split(b"\0")
                if marked:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue  # somebody else's, or gone

    def _end_group(self) -> None:
        self._signal_group(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, GRACE)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self.stopping.set()
            self._end_group()

        def out_of_patience(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self._signal_group(signal.SIGKILL)

        handlers: dict[int, Any] = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGALRM: out_of_patience}
        previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _keep_short(self) -> None:
        """Rotate the log when it is too long; the process appends, so it continues at the start of the new file."""
        while not self.stopping.wait(60.0):
            if self.log.stat().st_size > LOG_BYTES:
                shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
                os.truncate(self.log, 0)

    def _output(self, offset: int) -> str:
        """Return the end of what the process has printed since ``offset``."""
        with open(self.log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(offset if offset <= end else 0, end - 20_000))
            return file.read().decode(errors="replace")
