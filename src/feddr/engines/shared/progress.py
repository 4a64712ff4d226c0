"""Progress of a run: a line of text for a round, and a progress bar in terminals and notebooks."""

import html
import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from feddr.history import Row

if TYPE_CHECKING:
    from feddr.engines.shared.state import Callback, Progress

ShowProgress = bool | Literal["words"] | None
"""What an engine shows: a bar and words, nothing, words alone, or words and a bar where somebody looks."""

NEWEST = 20
"""Rounds that the speed is that of."""

INTERVAL = 0.25
"""Seconds between two pictures of a bar, at least."""


class RoundPace:
    """The words for a round: how far, how good at the last evaluation, how fast."""

    def __init__(self, label: str) -> None:
        self.label, self.began, self.row = label, time.perf_counter(), Row(round=0)
        self.ends: deque[tuple[float, int]] = deque(maxlen=NEWEST + 1)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.began

    def update(self, report: "Progress") -> None:
        """Take in a round; the speed counts from the end of the first one, which waits for the compiler."""
        self.row = report.row or self.row
        if report.round > 0:
            self.ends.append((time.perf_counter(), report.state.local_steps))

    def words(self, report: "Progress") -> dict[str, str]:
        """Return the words for a round that ``update`` has seen; metrics are those of the round that they name."""
        skipped = f" ({report.state.skipped} skipped)" if report.state.skipped else ""
        return {
            "round": f"{report.round}/{report.rounds}{skipped}",
            "metrics": f"at {self.row.round}: {self.metrics}",
            "speed": ", ".join(word for word in (self.speed, str(report.workers or "")) if word),
        }

    @property
    def metrics(self) -> str:
        """The metrics of the newest evaluation."""
        accuracy = self.row.train_accuracy
        return f"F {_number(self.row.F)}" + ("" if math.isnan(accuracy) else f", train {100 * accuracy:.1f} %")

    @property
    def speed(self) -> str:
        """Local steps a second over the newest rounds, without the first of them."""
        if len(self.ends) < 2:
            return ""
        (begun, before), (ended, after) = self.ends[0], self.ends[-1]
        return f"{(after - before) / max(ended - begun, 1e-9):,.0f} steps/s"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


@contextmanager
def shown(wanted: ShowProgress, label: str, rounds: int) -> "Iterator[list[Callback]]":
    """Show a progress bar during a run, and yield the callbacks that move it: one, or none where nothing is shown.

    Parameters
    ----------
    wanted
        True, False or ``"words"``; None for a bar where somebody looks: in a notebook, or where standard error is a
        terminal.
    label
        Of the bar.
    rounds
        Its length.
    """
    if wanted is None:
        wanted = in_notebook() or sys.stderr.isatty()
    if wanted is not True:
        yield []
        return
    bar: NotebookBar | TerminalBar = NotebookBar(label, rounds) if in_notebook() else TerminalBar(label, rounds)
    try:
        yield [bar.move]
    finally:
        bar.close()


def speaks(progress: ShowProgress) -> bool:
    """Return whether an engine says how step sizes were chosen and why a run ended."""
    if progress not in (None, True, False, "words"):
        raise ValueError(f'progress must be True, False, "words" or None, got {progress!r}.')
    return progress is not False


def in_notebook() -> bool:
    """Return whether this program is the kernel of a notebook, which shows what IPython displays."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


class TerminalBar:
    """One bar on standard error, redrawn in place."""

    def __init__(self, label: str, rounds: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.pace = RoundPace(label)
        names = ("round", "metrics", "speed")
        columns = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in names]
        time_left = TimeRemainingColumn(elapsed_when_finished=True)
        description = TextColumn("{task.description}", markup=False)
        console = Console(stderr=True)
        self.bar = Progress(description, BarColumn(20), *columns, time_left, console=console, refresh_per_second=4)
        blank: dict[str, Any] = dict.fromkeys(names, "")
        self.task = self.bar.add_task(label, total=rounds, **blank)
        self.bar.start()

    def move(self, report: "Progress") -> None:
        """Show a round."""
        self.pace.update(report)
        words: dict[str, Any] = self.pace.words(report)
        self.bar.update(self.task, completed=report.round, total=report.rounds, **words)

    def close(self) -> None:
        """Leave the bar as it is."""
        self.bar.stop()


class NotebookBar:
    """One bar below a cell, made of HTML, which needs no widgets."""

    def __init__(self, label: str, rounds: int) -> None:
        from IPython.display import HTML, display

        self.pace, self.rounds, self.drawn = RoundPace(label), rounds, 0.0
        self.html, self.text = HTML, self._picture(0, "")
        self.handle = display(HTML(self.text), display_id=True)

    def move(self, report: "Progress") -> None:
        """Show a round, if the last picture is old enough."""
        self.pace.update(report)
        words = self.pace.words(report)
        text = "round " + ", ".join(word for word in words.values() if word)
        self.text = self._picture(report.round, f"{text}, {self.pace.seconds:.0f} s")
        if time.perf_counter() - self.drawn >= INTERVAL:
            self._draw()

    def close(self) -> None:
        """Show the last round."""
        self._draw()

    def _draw(self) -> None:
        self.handle.update(self.html(self.text))
        self.drawn = time.perf_counter()

    def _picture(self, done: int, words: str) -> str:
        label = html.escape(self.pace.label)
        return (
            f'<div>{label} <progress value="{done}" max="{max(self.rounds, 1)}"></progress> '
            f"<small>{html.escape(words)}</small></div>"
        )
