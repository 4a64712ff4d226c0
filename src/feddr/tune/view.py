"""Terminal output of a search: what it will do, how far it is, and a table at the end."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from feddr.metrics import better
from feddr.runs.progress import LiveBars, Pace, PlainLines, View
from feddr.tune.jobs import RunRecord
from feddr.tune.output import goal
from feddr.tune.plan import Search
from feddr.tune.ranking import RankedSetting, best, rank, words
from feddr.tune.store import Store

STOPPING = "finishing the runs under way, Ctrl-C again to stop at once"

TOP = 3
"""Settings of each algorithm in the table."""


def announce(search: Search, done: int, workers: str) -> list[str]:
    """Return lines with the search space, the metric and the cost of a search."""
    varying = {label: len(tried) for label, tried in search.settings.items() if search.space.axes[label]}
    most, random = max(varying.values()), search.space.random
    full = [label for label, size in varying.items() if size == most or not random]
    trials = f"{most} trials for {'each of ' if len(full) > 1 else ''}{', '.join(full)}"
    if not random and len(set(varying.values())) > 1:
        trials = "UNEQUAL: " + ", ".join(f"{size} trials for {label}" for label, size in varying.items())
    lines = [f"Search: {'random draws' if random else 'a grid'}, {trials}."]
    lines += [f"{label}: {varying[label]} trials, all that there are." for label in varying if label not in full]
    fixed = [label for label in search.settings if label not in varying]
    if fixed:
        lines.append(f"{', '.join(fixed)}: nothing to vary, one trial.")
    lines += [f"  {label}: {_axes(search, label)}" for label in varying]
    seeds = f"seed{'s' if len(search.seeds) > 1 else ''} {', '.join(map(str, search.seeds))}"
    left = f", {done} of them done" if done else ""
    lines.append(f"Budget: {budget(search)} a run, each trial with {seeds}: {search.size} runs{left}, {workers}.")
    end = "least" if better(search.metric) == "min" else "largest"
    lines.append(f"Best is the {end} of {goal(search)}.")
    if "test_" in search.metric:
        lines.append(
            "The test samples choose the settings here, so they do not measure them any more; with a validation_share "
            f"in [data], {search.metric.replace('test_', 'validation_')} would."
        )
    return lines


def budget(search: Search) -> str:
    """Return the rounds or updates of a run, in words."""
    keys = {key for axes in search.space.axes.values() for key in axes}
    count = {"rounds": search.config.rounds, "updates": search.config.updates}
    return " or ".join(
        f"{name} that vary" if name in keys else f"{number} {name}" for name, number in count.items() if number
    )


def table(search: Search, ranking: Mapping[str, Sequence[RankedSetting]], top: int = TOP) -> Table:
    """Return the best settings of each algorithm, with what one run took; the best of all algorithms in bold."""
    winners = [one.mean for one in best(ranking).values() if one.mean is not None]
    pick = min if better(search.metric) == "min" else max
    result = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    result.add_column("\nalgorithm", overflow="fold")
    result.add_column("\nrank", justify="right", no_wrap=True)
    result.add_column("\nsetting", overflow="fold")
    for title in (f"{search.metric}\nmean", f"{search.metric}\nspread", "local\nsteps", "MB\nsent", "\nsec."):
        result.add_column(title, justify="right", no_wrap=True)
    for label, standings in ranking.items():
        ranked = [one for one in standings if one.rank is not None]
        for one in ranked[:top]:
            style = "bold" if one.rank == 1 and one.mean == pick(winners) and len(ranking) > 1 else ""
            cells = [_number(one.mean), _number(one.spread), *_spent(one)]
            result.add_row(Text(label), str(one.rank), Text(one.words), Text(cells[0], style), *cells[1:])
        if not ranked:
            result.add_row(Text(label), "-", Text(_trouble(standings)), *["-"] * 5)
    return result


class RunsView(View, Protocol):
    """Shows how many runs have ended."""

    def update(self, record: RunRecord) -> None:
        """Show that a run has ended."""


def view(search: Search, store: Store, console: Console) -> RunsView:
    """Return bars for a terminal, and now and then a line for a file or a pipe."""
    return SearchBars(search, store, console) if console.is_terminal else SearchLines(search, store, console)


class SearchLines(PlainLines):
    """A line every tenth of the runs, or so."""

    def __init__(self, search: Search, store: Store, console: Console) -> None:
        super().__init__(console, STOPPING)
        self.search, self.store = search, store

    def update(self, record: RunRecord) -> None:
        """Print a line, if it is time."""
        done, size = _done(self.search, self.store), self.search.size
        last = f"{record.algorithm} {words(record.settings)}, seed {record.seed}: {_result(self.search, record)}"
        self.run_ended(done, size, last, every=max(1, size // 10))


class SearchBars(LiveBars):
    """A bar for each algorithm with its best setting so far, and one for the whole with the time that is left."""

    def __init__(self, search: Search, store: Store, console: Console) -> None:
        self.search, self.store = search, store
        super().__init__(
            console,
            BarColumn(12),
            TextColumn("{task.completed:.0f}/{task.total:.0f}", justify="right"),
            TextColumn("{task.fields[words]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
        )
        self.pace = Pace()
        blank: dict[str, Any] = {"words": "", "left": ""}
        self.total = self.progress.add_task("runs", total=search.size, **blank)
        self.tasks = {
            label: self.progress.add_task(label, total=len(tried) * len(search.seeds), **blank)
            for label, tried in search.settings.items()
        }
        self._show()

    def update(self, record: RunRecord) -> None:  # noqa: ARG002  the store has it
        """Move the bars."""
        runs = self.search.size - _done(self.search, self.store)
        self._show(f"eta {self.pace.left(runs)}")

    def stopping(self) -> None:
        """Say so beside the bar, when it is redrawn next."""
        words: dict[str, Any] = {"words": STOPPING}
        self.progress.update(self.total, **words)

    def _show(self, left: str = "") -> None:
        done, winners = _done(self.search, self.store), best(rank(self.search, self.store.records))
        time_left: dict[str, Any] = {"left": left}
        self.progress.update(self.total, completed=done, **time_left)
        for label, task in self.tasks.items():
            count = sum(key[0] == label for key in self.store.records if _belongs(self.search, key))
            winner = winners.get(label)
            fields: dict[str, Any] = {
                "words": f"{self.search.metric} {_number(winner.mean)} at {winner.words}" if winner else ""
            }
            self.progress.update(task, completed=count, **fields)


def _done(search: Search, store: Store) -> int:
    return sum(_belongs(search, key) for key in store.records)


def _belongs(search: Search, key: tuple[str, int, int]) -> bool:
    """Return whether a run of the store belongs to this search: an earlier one may have had more seeds or trials."""
    label, number, seed = key
    return number in search.settings.get(label, {}) and seed in search.seeds


def _axes(search: Search, label: str) -> str:
    axes = search.space.axes[label]
    return ", ".join(f"{key.removeprefix('algorithm.')} in {_values(axis.spec)}" for key, axis in axes.items())


def _values(spec: Any) -> str:
    if isinstance(spec, str):
        return spec
    shown = [f"{one:g}" if isinstance(one, float) else str(one) for one in spec]
    return "{" + ", ".join(shown if len(shown) <= 6 else [*shown[:3], f"... {len(shown)} values ...", shown[-1]]) + "}"


def _result(search: Search, record: RunRecord) -> str:
    if record.value is not None:
        return f"{search.metric} {_number(record.value)}"
    return f"{record.status}{'' if record.round is None else f' in round {record.round}'}"


def _trouble(standings: Sequence[RankedSetting]) -> str:
    return "; ".join(f"{one.words}: {one.trouble}" for one in standings[:TOP] if one.trouble) or "no run has ended"


def _spent(one: RankedSetting) -> list[str]:
    sent = (one.average("bytes_up") + one.average("bytes_down")) / 1e6
    return [
        f"{one.average('local_steps'):,.0f}",
        f"{sent:,.2f}" if sent < 10 else f"{sent:,.0f}",
        f"{one.average('seconds'):,.1f}",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"
