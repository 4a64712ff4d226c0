"""Terminal output of ``feddr reproduce``: how many runs, how long they will take, how far they are."""

import os
import time
from collections import deque
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from feddr.reproduce.plan import Plan
    from feddr.tune import RunRecord

STOPPING = "finishing the runs under way, Ctrl-C again to stop at once"

NEWEST = 20
"""Runs that the time that is left is estimated from."""


def announce(plan: "Plan", left: int, workers: int) -> str:
    """Return what will be done, and how long it will take."""
    from feddr.reproduce.plan import in_words

    seeds = ", ".join(map(str, plan.seeds))
    start = f"{', '.join(plan.rows)}: {len(plan.all_runs())} runs with seeds {seeds}, {left} to make"
    return f"{start}, about {in_words(plan.estimate(workers))} with {workers} at a time." if left else f"{start}."


class RunsView(Protocol):
    """Shows how the runs get on."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def update(self, record: "RunRecord") -> None:
        """Show that a run has ended."""

    def stopping(self) -> None:
        """Show that no more runs are begun; this is called by a signal handler, in the midst of anything."""


def view(size: int, console: Console) -> RunsView:
    """Return a bar for a terminal, and now and then a line for a file or a pipe."""
    return Bar(size, console) if console.is_terminal else RunLines(size, console)


class RunLines:
    """A line every twentieth of the runs, or so."""

    def __init__(self, size: int, console: Console) -> None:
        self.size, self.console, self.done = size, console, 0
        self.began = time.perf_counter()
        self.ends = deque([self.began], maxlen=NEWEST)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is open."""

    def update(self, record: "RunRecord") -> None:
        """Print a line, if it is time."""
        self.done += 1
        self.ends.append(time.perf_counter())
        if self.done % max(1, self.size // 20) and self.done < self.size:
            return
        each = (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)
        left = timedelta(seconds=round(each * (self.size - self.done)))
        told = f"{record.algorithm}, seed {record.seed}: {record.status}"
        line = f"{self.done}/{self.size} runs, {self.ends[-1] - self.began:.0f} s, {left} left; {told}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stopping(self) -> None:
        """Say so past the streams, which the signal may have interrupted."""
        os.write(2, f"{STOPPING}\n".encode())


class Bar:
    """A bar, redrawn in place."""

    def __init__(self, size: int, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=4,
        )
        self.task = self.progress.add_task("runs", total=size)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the bar as it is."""
        self.progress.stop()

    def update(self, record: "RunRecord") -> None:
        """Move the bar."""
        self.progress.update(self.task, advance=1, description=f"{record.algorithm}, seed {record.seed}")

    def stopping(self) -> None:
        """Say so beside the bar."""
        self.progress.update(self.task, description=STOPPING)
