"""What views of progress share: the time that is left, plain lines for files and pipes, bars for terminals."""

import os
import time
from collections import deque
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn

NEWEST = 20
"""Runs that the time that is left is estimated from."""


def say(console: Console, line: str) -> None:
    """Print a line as it is: without markup, colours or line breaks of the console's."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


class View(Protocol):
    """A progress display; a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def stopping(self) -> None:
        """Show that the program was asked to stop; a signal handler calls this at any moment."""


class Pace:
    """When runs ended, and how long the others will take.

    The newest runs count: the first of each process waits for imports and for the compiler.
    """

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.ends = deque([self.began], maxlen=NEWEST)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.began

    def left(self, runs: int) -> str:
        """Return the time that more runs will take, as in "0:03:20", when one has just ended."""
        self.ends.append(time.perf_counter())
        seconds = (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1) * runs
        return str(timedelta(seconds=round(seconds)))


class PlainLines:
    """Lines for a file or a pipe.

    Parameters
    ----------
    farewell
        What ``stopping`` says.
    """

    def __init__(self, console: Console, farewell: str) -> None:
        self.console, self.farewell = console, farewell
        self.pace, self.due = Pace(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is open."""

    def stopping(self) -> None:
        """Write to the descriptor: the signal may have interrupted Python's streams."""
        os.write(2, f"{self.farewell}\n".encode())

    def run_ended(self, done: int, size: int, words: str, every: int) -> None:
        """Print how many runs have ended and the time left, if enough have ended since the last line."""
        left = self.pace.left(size - done)
        if done >= self.due or done >= size:
            self.due = done + every
            say(self.console, f"{done}/{size} runs, {self.pace.seconds:.0f} s, {left} left; {words}")


class LiveBars:
    """Bars for a terminal, redrawn in place; each begins with a description."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        description = TextColumn("{task.description}", markup=False)
        self.progress = Progress(description, *columns, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the bars as they are."""
        self.progress.stop()
