"""Terminal output of ``feddr reproduce``: how many runs, how long they will take, how far they are."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from feddr.runs.progress import LiveBars, PlainLines
from feddr.tune.view import STOPPING, RunsView

if TYPE_CHECKING:
    from feddr.reproduce.plan import Plan
    from feddr.tune import RunRecord


def announce(plan: "Plan", left: int, workers: int) -> str:
    """Return what will be done, and how long it will take."""
    from feddr.reproduce.plan import in_words

    seeds = ", ".join(map(str, plan.seeds))
    start = f"{', '.join(plan.rows)}: {len(plan.all_runs())} runs with seeds {seeds}, {left} to make"
    return f"{start}, about {in_words(plan.estimate(workers))} with {workers} at a time." if left else f"{start}."


def view(size: int, console: Console) -> RunsView:
    """Return a bar for a terminal, and now and then a line for a file or a pipe."""
    return RunsBar(size, console) if console.is_terminal else RunLines(size, console)


class RunLines(PlainLines):
    """A line every twentieth of the runs, or so."""

    def __init__(self, size: int, console: Console) -> None:
        super().__init__(console, STOPPING)
        self.size, self.done, self.due = size, 0, max(1, size // 20)

    def update(self, record: "RunRecord") -> None:
        """Print a line, if it is time."""
        self.done += 1
        last = f"{record.algorithm}, seed {record.seed}: {record.status}"
        self.run_ended(self.done, self.size, last, every=max(1, self.size // 20))


class RunsBar(LiveBars):
    """A bar for all runs, redrawn in place."""

    def __init__(self, size: int, console: Console) -> None:
        times = TimeElapsedColumn(), TextColumn("eta"), TimeRemainingColumn()
        super().__init__(console, BarColumn(), MofNCompleteColumn(), *times)
        self.task = self.progress.add_task("runs", total=size)

    def update(self, record: "RunRecord") -> None:
        """Move the bar."""
        self.progress.update(self.task, advance=1, description=f"{record.algorithm}, seed {record.seed}")

    def stopping(self) -> None:
        """Say so beside the bar."""
        self.progress.update(self.task, description=STOPPING)
