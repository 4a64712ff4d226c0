"""The figures of ``feddr reproduce``: a row of three panels for each experiment, a line with a band for each method."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from feddr.history import History
from feddr.plots import labels
from feddr.plots.curves import log_ticks
from feddr.plots.styles import COLOURS, LINES, MARKERS, LineStyle, line_styles
from feddr.reproduce.bands import band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Lines = Mapping[str, Sequence[History]]

METRICS = {
    "train_loss": "training loss",
    "train_accuracy": "training accuracy (%)",
    "test_accuracy": "test accuracy (%)",
}
AXES = {
    "round": "round",
    "megabytes": "megabytes sent, up and down",
    "uploaded": "megabytes sent up",
    "time": "virtual time (s)",
}
WHERE = {"": "at the global model xbar", "personal_": "each client's own model on its own data"}
LOSSES = 1e-3, 10.0
"""Limits of the axis of losses, so that a method that diverges does not flatten the others into a line."""


def panels(rows: "Mapping[str, Lines]", title: str, x: str, prefix: str = "") -> "Figure":
    """Return three panels for each row; lines are means over the seeds, bands go from the least to the largest.

    Parameters
    ----------
    rows
        By title, for each line its histories, one for each seed.
    x
        "round", "megabytes", "uploaded" or "time"; what is uploaded has a logarithmic scale, the same in all panels.
    prefix
        "" for the metrics at xbar, "personal_" for those of the clients' own models.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from feddr.plots.notebook import NotebookFigure

    height = 2.35 * len(rows) + 1.1
    figure = NotebookFigure(figsize=(10.5, height), layout=ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.06))
    figure.suptitle(f"{title}:\n{WHERE[prefix]}", fontsize=11)
    fullest = max(rows.values(), key=len)
    same = all(set(lines) <= set(fullest) for lines in rows.values())
    for i, (name, lines) in enumerate(rows.items()):
        drawn = _styles(fullest if same else lines)
        for j, (metric, label) in enumerate(METRICS.items()):
            axes = figure.add_subplot(len(rows), 3, 3 * i + j + 1)
            _draw(axes, lines, drawn, prefix + metric, x)
            axes.set_ylabel(label, fontsize=8)
            if j == 1:
                axes.set_title(name.replace("$", r"\$"), fontsize=9)
            if x == "uploaded":
                axes.set_xscale("log", nonpositive="mask")  # nothing was sent before the first round
                axes.set_xlim(*_range(rows, x))
            if i == len(rows) - 1:
                axes.set_xlabel(AXES[x], fontsize=8)
            if j == 2 and not same:
                axes.legend(fontsize=6, frameon=False, loc="best")
    if same:
        handles, names = figure.axes[3 * list(rows.values()).index(fullest)].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _range(rows: "Mapping[str, Lines]", x: str) -> tuple[float, float]:
    """Return the least and the largest place of all lines after their start."""
    places = [point.x for lines in rows.values() for one in lines.values() for point in band(one, "F", x)]
    return min(value for value in places if value > 0), max(places)


def _styles(labels: "Mapping[str, object]") -> dict[str, LineStyle]:
    return dict(zip(labels, line_styles(list(labels)), strict=True))


def _draw(axes: "Axes", lines: "Lines", drawn: Mapping[str, LineStyle], metric: str, x: str) -> None:
    loss = metric.endswith("loss")
    scale = 1.0 if loss else 100.0
    for label, histories in lines.items():
        points = band(histories, metric, x)
        style = drawn[label]
        # A line without points stays in the legend.
        xs, mean, low, high = zip(*points, strict=True) if points else ((), (), (), ())
        axes.plot(
            xs,
            [scale * value for value in mean],
            color=COLOURS[style.colour],
            linestyle=LINES[style.dash],
            marker=MARKERS[style.dash],
            markevery=max(1, len(points) // 6),
            markersize=3,
            linewidth=1.3,
            label=label,
        )
        if len(histories) > 1 and points:
            edges = [scale * value for value in low], [scale * value for value in high]
            axes.fill_between(xs, *edges, color=COLOURS[style.colour], alpha=0.12, linewidth=0)
    if x == "megabytes":
        # SCAFFOLD sends twice as much in a round; beyond what the others have sent there is nothing to compare.
        ends = sorted(points[-1].x for histories in lines.values() if (points := band(histories, metric, x)))
        axes.set_xlim(right=1.03 * ends[len(ends) // 2] if ends else None)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    if loss:
        _loss_scale(axes, lines, metric, x)


def _loss_scale(axes: "Axes", lines: "Lines", metric: str, x: str) -> None:
    values = [point.mean for histories in lines.values() for point in band(histories, metric, x)]
    values = [value for value in values if math.isfinite(value) and value > 0]
    if not values:
        return
    low, high = max(LOSSES[0], min(values)), min(LOSSES[1], max(values))
    if high > low:
        log_ticks(axes, low, high)
        axes.set_ylim(0.9 * low, 1.1 * high)


class Dot(NamedTuple):
    """A point of the sparsity-accuracy curve: the row that it is from, and means over the seeds, as shares."""

    row: str
    sparsity: float
    accuracy: float
    least: float
    largest: float


LEAST = 0.01
"""Percent of entries that are not zero, as which fewer are drawn: a logarithmic scale has no end."""


def curve(dots: Mapping[str, Sequence[Dot]], title: str) -> "Figure":
    """Return test accuracy against what is not zero, a line for each method and a point for each strength.

    The scale is logarithmic, with sparser models further right: from 99 to 99.9 % zeros is as far as from 90 to 99.
    """
    from matplotlib.ticker import FuncFormatter

    from feddr.plots.notebook import NotebookFigure

    figure = NotebookFigure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    texts: list[labels.Label] = []
    for label, style in _styles(dots).items():
        line = dots[label]
        kept = [max(LEAST, 100 * (1 - dot.sparsity)) for dot in line]
        means = [100 * dot.accuracy for dot in line]
        spread = [
            [100 * (dot.accuracy - dot.least) for dot in line],
            [100 * (dot.largest - dot.accuracy) for dot in line],
        ]
        axes.errorbar(
            kept,
            means,
            yerr=spread,
            color=COLOURS[style.colour],
            linestyle=LINES[style.dash],
            marker=MARKERS[style.dash],
            linewidth=1.5,
            capsize=2,
            label=label,
        )
        texts += [
            labels.Label(x, y, dot.row, COLOURS[style.colour]) for dot, x, y in zip(line, kept, means, strict=True)
        ]
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.invert_xaxis()
    axes.margins(0.08, 0.12)
    axes.set_xlabel("entries of xbar that are not zero (%), fewer to the right")
    axes.set_ylabel("test accuracy at xbar (%)")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    labels.add(axes, texts)
    return figure
