"""Several seeds of each method as one line, the mean, with a band from the least to the largest value."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from feddr.history import History
from feddr.metrics import better
from feddr.plots.curves import log_ticks
from feddr.plots.styles import COLOURS, LINES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("F", "train_accuracy", "test_accuracy", "gradient_mapping")
"""What is drawn against rounds beside the metrics that the runs were asked for."""

MOST = 6
"""Panels of a figure."""


def bands(histories: Mapping[str, Sequence[History]], title: str = "", metrics: Sequence[str] = ()) -> "Figure":
    """Return metrics against rounds, a line for each method: the mean over its runs, in a band of all of them.

    Parameters
    ----------
    histories
        By label, one for each seed; evaluations that not all of them have are left out.
    title
        Above the panels.
    metrics
        Columns to draw; by default the objective, the accuracies, the gradient mapping and what the runs were asked
        for, as far as they were measured.

    Raises
    ------
    ValueError
        Where nothing of this was measured.

    Examples
    --------
    >>> from feddr.history import Row
    >>> runs = [History([Row(round=0, F=2.0), Row(round=1, F=last)]) for last in (1.0, 0.5)]
    >>> axes = bands({"FedDR": runs}).axes[0]
    >>> axes.lines[0].get_ydata().tolist()
    [2.0, 0.75]
    """
    from matplotlib.figure import Figure

    asked = [name for runs in histories.values() for one in runs for name in one.metrics if "_client_" not in name]
    wanted = list(dict.fromkeys(metrics or (*SHOWN, *asked)))
    points = {name: {label: _points(runs, name) for label, runs in histories.items()} for name in wanted}
    shown = {name: lines for name, lines in points.items() if any(len(line) for line in lines.values())}
    if not shown:
        raise ValueError(
            f"A figure needs a metric that was measured, got {', '.join(wanted)}; evaluate the runs first."
        )
    names = list(shown)[:MOST]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.1 * rows + 0.8), layout="constrained")
    figure.suptitle(title or "Metrics at the global model, mean and range over the seeds", fontsize=13)
    drawn = {}
    for number, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, columns, number)
        for i, (label, line) in enumerate(shown[name].items()):
            if len(line):
                colour, style = COLOURS[i % len(COLOURS)], LINES[i % len(LINES)]
                (drawn[label],) = axes.plot(line[:, 0], line[:, 1], color=colour, linestyle=style, linewidth=1.6)
                axes.fill_between(line[:, 0], line[:, 2], line[:, 3], color=colour, alpha=0.15, linewidth=0)
        every = np.concatenate([line for line in shown[name].values() if len(line)])
        if better(name) == "min" and every[:, 2].min() > 0 and every[:, 3].max() >= 2 * every[:, 2].min():
            log_ticks(axes, every[:, 2].min(), every[:, 3].max())
        axes.set_xlabel("round")
        axes.set_ylabel(name.replace("_", " "))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    labels = [label.replace("$", r"\$") for label in drawn]
    figure.legend(drawn.values(), labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    return figure


def _points(runs: Sequence[History], name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return round, mean, least and largest value at the evaluations that all runs have, of shape (points, 4)."""
    each = [
        {row.round: value for row, value in zip(one.rows, one.column(name), strict=True) if math.isfinite(value)}
        if name in one.columns
        else {}
        for one in runs
    ]
    rounds = sorted(set.intersection(*map(set, each))) if each else []
    values = [[one[k] for one in each] for k in rounds]
    points = [(k, sum(row) / len(row), min(row), max(row)) for k, row in zip(rounds, values, strict=True)]
    return np.array(points, np.float64).reshape(-1, 4)
