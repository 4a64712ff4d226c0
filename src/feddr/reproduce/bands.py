"""Several runs with different seeds as one line: the mean, with a band from the least to the largest value."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from feddr.history import History, Row

AXES: dict[str, Callable[[Row], float]] = {
    "round": lambda row: float(row.round),
    "megabytes": lambda row: (row.bytes_up + row.bytes_down) / 1e6,
    "uploaded": lambda row: row.bytes_up / 1e6,
    "local_steps": lambda row: float(row.local_steps),
    "time": lambda row: row.time,
}
"""What metrics are drawn against, and budgets are counted in."""


class Point(NamedTuple):
    """A point of a band: where, the mean over the seeds, the least and the largest."""

    x: float
    mean: float
    low: float
    high: float


def band(histories: Sequence[History], metric: str, x: str) -> list[Point]:
    """Return the points of a metric, at the evaluations that all of the runs have.

    Parameters
    ----------
    histories
        One for each seed; rows are matched by their numbers, and the place is the mean of their places.
    metric
        A column of a history.
    x
        One of ``AXES``.
    """
    points = []
    for rows in zip(*(history.rows for history in histories), strict=False):
        values = [float(getattr(row, metric)) for row in rows]
        where = sum(AXES[x](row) for row in rows) / len(rows)
        if all(map(math.isfinite, (*values, where))):
            points.append(Point(where, sum(values) / len(values), min(values), max(values)))
    return points


def first(history: History, metric: str, target: float) -> Row | None:
    """Return the first row after the start at which a metric has reached a target from below; None if it never does."""
    return next((row for row in history.rows if row.round > 0 and getattr(row, metric) >= target), None)


def cost(histories: Sequence[History], metric: str, target: float, x: str) -> float:
    """Return the mean budget to the target, NaN unless every run reaches it."""
    reached = [first(history, metric, target) for history in histories]
    spent = [AXES[x](row) for row in reached if row is not None]
    return sum(spent) / len(spent) if spent and len(spent) == len(reached) else math.nan


def late(history: History, metric: str, x: str, budget: float, share: float = 0.1) -> float:
    """Return the mean of a metric over the evaluations in the last share of a budget, NaN where there is none."""
    near = [row for row in history.rows if (1 - share) * budget < AXES[x](row) <= budget * (1 + 1e-9)]
    values = [float(getattr(row, metric)) for row in near]
    return sum(values) / len(values) if values else math.nan


def at(histories: Sequence[History], metric: str, x: str, budget: float) -> float:
    """Return the mean of a metric at the last evaluation within a budget."""
    values = []
    for history in histories:
        within = [row for row in history.rows if AXES[x](row) <= budget * (1 + 1e-9)]
        values.append(float(getattr(within[-1], metric)) if within else math.nan)
    return sum(values) / len(values) if values else math.nan
