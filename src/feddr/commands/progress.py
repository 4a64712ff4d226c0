"""Terminal output of ``feddr run`` and ``compare``: progress while methods run, and the table of results at the end."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from feddr.engines.shared.progress import RoundPace
from feddr.history import Row
from feddr.runs.folder import Outcome
from feddr.runs.progress import LiveBars, PlainLines, View, say

if TYPE_CHECKING:
    from feddr.engines.shared.state import Progress as Report

STOPPING = "finishing this round, Ctrl-C again to stop at once"


class ExperimentView(View, Protocol):
    """Shows the progress of the methods of an experiment, one after the other."""

    def begin(self, label: str) -> None:
        """Show that a method starts."""

    def update(self, report: "Report") -> None:
        """Show that it has completed a round."""

    def end(self, status: str) -> None:
        """Show how it has ended."""


def view(labels: Sequence[str], rounds: int, console: Console) -> ExperimentView:
    """Return bars for a terminal, and plain lines for a file or a pipe."""
    return MethodBars(labels, rounds, console) if console.is_terminal else MethodLines(console)


class MethodLines(PlainLines):
    """A line every tenth of the rounds, or so: rounds that were evaluated are preferred."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, STOPPING)
        self.method = RoundPace("")

    def begin(self, label: str) -> None:
        """Remember which method runs."""
        self.method, self.due = RoundPace(label), 0

    def update(self, report: "Report") -> None:
        """Print a line, if it is time."""
        self.method.update(report)
        tenth = max(1, report.rounds // 10)
        overdue = report.round >= self.due + tenth or report.round == report.rounds
        if overdue or (report.round >= self.due and report.row is not None):
            words = self.method.words(report)
            standing = [f"round {words['round']}", f"at round {self.method.row.round}: {self.method.metrics}"]
            timed = [*([words["speed"]] if words["speed"] else []), f"{self.method.seconds:.0f} s"]
            say(self.console, f"{self.method.label}: {'; '.join([*standing, ', '.join(timed)])}")
            self.due = report.round + tenth

    def end(self, status: str) -> None:
        """Print how it ended, if not well."""
        if status != "finished":
            say(self.console, f"{self.method.label}: {status}")


class MethodBars(LiveBars):
    """A bar for each method, redrawn in place."""

    def __init__(self, labels: Sequence[str], rounds: int, console: Console) -> None:
        names = ("round", "metrics", "speed")
        columns = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in names]
        super().__init__(console, BarColumn(8), *columns, TimeRemainingColumn(elapsed_when_finished=True))
        self.pace = RoundPace(labels[0])
        blank: dict[str, Any] = dict.fromkeys(names, "")
        self.tasks = {label: self.progress.add_task(label, total=rounds, start=False, **blank) for label in labels}

    def begin(self, label: str) -> None:
        """Start the clock of a bar."""
        self.pace = RoundPace(label)
        self.progress.start_task(self.tasks[label])

    def update(self, report: "Report") -> None:
        """Move the bar."""
        self.pace.update(report)
        words: dict[str, Any] = self.pace.words(report)
        self.progress.update(self.tasks[self.pace.label], completed=report.round, total=report.rounds, **words)

    def stopping(self) -> None:
        """Say so beside the bar, when it is redrawn next."""
        self.progress.update(self.tasks[self.pace.label], description=f"{self.pace.label}: {STOPPING}")

    def end(self, status: str) -> None:
        """Stop the clock of the bar, and say how it ended, if not well."""
        task = self.tasks[self.pace.label]
        words: dict[str, Any] = {} if status == "finished" else {"metrics": status.split()[0], "speed": ""}
        self.progress.update(task, description=self.pace.label, **words)
        self.progress.stop_task(task)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _whole(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.0f}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f} %"


def _short(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1e}"


def _tenths(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.1f}"


class TableColumn(NamedTuple):
    """A column of the table, and which end of it is best: the least or the largest value, or none."""

    title: str
    value: Callable[[Row], float]
    text: Callable[[float], str]
    best: Callable[[Iterable[float]], float] | None = min


COLUMNS = (
    TableColumn("\nrounds", lambda row: row.round, _whole, None),
    TableColumn("\nF", lambda row: row.F, _number),
    TableColumn("train\nloss", lambda row: row.train_loss, _number),
    TableColumn("train\nacc.", lambda row: row.train_accuracy, _percent, max),
    TableColumn("test\nacc.", lambda row: row.test_accuracy, _percent, max),
    TableColumn("grad.\nmap.", lambda row: row.gradient_mapping, _short),
    TableColumn("\nzeros", lambda row: row.sparsity, _percent, max),
    TableColumn("MB\nsent", lambda row: (row.bytes_up + row.bytes_down) / 1e6, _tenths),
    TableColumn("local\nsteps", lambda row: row.local_steps, _whole),
    TableColumn("\nsec.", lambda row: row.wall_time, _tenths),
)
WORST = tuple(
    f"worst_client_{part}_{name}" for name in ("accuracy", "loss") for part in ("test", "validation", "train")
)
"""Of these the first that was measured is shown: how the worst client fares."""

TIME = TableColumn("virtual\ntime", lambda row: row.time, _tenths)
"""Only where there is a clock."""


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return the last rows as a table; a method that diverged has no numbers.

    The best of each column is in bold, where all methods that have finished are of one length.
    """
    rows = [None if outcome.diverged else outcome.history.last for outcome in outcomes]
    finished = [row for row, outcome in zip(rows, outcomes, strict=True) if row and outcome.status == "finished"]
    rivals = finished if len({row.round for row in finished}) == 1 else []
    timed = any(row is not None and not math.isnan(row.time) for row in rows)
    columns = (*COLUMNS, *_asked([row for row in rows if row is not None]), *((TIME,) if timed else ()))
    values = [[math.nan if row is None else column.value(row) for row in rows] for column in columns]
    best = [_best(column, [column.value(row) for row in rivals]) for column in columns]
    result = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    result.add_column("\nalgorithm", min_width=max(len(outcome.label) for outcome in outcomes), overflow="fold")
    for column in columns:
        result.add_column(column.title, justify="right", no_wrap=True)
    for i, outcome in enumerate(outcomes):
        title = outcome.label if outcome.status == "finished" else f"{outcome.label}\n{outcome.status}"
        cells = [
            Text(column.text(numbers[i]), "bold" if numbers[i] == top and rows[i] in rivals else "")
            for column, numbers, top in zip(columns, values, best, strict=True)
        ]
        result.add_row(Text(title), *cells)
    return result


def _asked(rows: Sequence[Row]) -> list[TableColumn]:
    """Return the columns of metrics that the runs were asked for; of those of clients, the worst one's."""
    names = dict.fromkeys(name for row in rows for name in row.metrics if "_client_" not in name)
    columns = [_metric(name, name.replace("_", "\n", 1).replace("_", " ")) for name in names]
    worst = next((name for name in WORST if any(name in row.metrics for row in rows)), None)
    return [*columns, *([_metric(worst, "worst\nclient")] if worst else [])]


def _metric(name: str, title: str) -> TableColumn:
    from feddr.metrics import better

    end = better(name)
    best = None if end is None else max if end == "max" else min
    return TableColumn(
        title, lambda row: row.metrics.get(name, math.nan), _percent if "accuracy" in name else _number, best
    )


def _best(column: TableColumn, values: Sequence[float]) -> float:
    """Return the best value; NaN, which equals nothing, where none is better than another."""
    known = {value for value in values if not math.isnan(value)}
    return column.best(known) if column.best is not None and len(known) > 1 else math.nan
