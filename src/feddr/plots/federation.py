"""A federation as a figure: how many samples each client has, and of which labels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from feddr import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from feddr.datasets.summary import Summary

NAMED = 40
"""As many clients have their names at the axis; more than that are counted."""

MOST_ROWS = 600


def federation(summary: "Summary", title: str = "") -> "Figure":
    """Return sorted bars of the clients' samples beside a heat map of their labels, a row for each client.

    Parameters
    ----------
    summary
        From ``feddr.datasets.summary.summarise``.
    title
        Above both.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from feddr.plots.notebook import NotebookFigure

    n, width = len(summary.clients), len(summary.columns)
    order = np.argsort(-(summary.train + summary.test), kind="stable")
    height = float(np.clip(0.22 * n + 1.7, 3.2, 6.0))
    figure = NotebookFigure(figsize=(9.6, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    figure.suptitle(title.replace("$", r"\$"), fontsize=12)
    bars, labels = figure.subplots(1, 2, width_ratios=[1, 1.5 if width > 4 else 0.8])

    _draw_bars(bars, summary.train[order], summary.test[order])
    if summary.test.any():
        figure.legend(*bars.get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False)
    bars.set_xlabel("samples")
    bars.spines[["top", "right"]].set_visible(False)
    bars.grid(axis="x", alpha=0.25, linewidth=0.6)
    bars.set_axisbelow(True)

    shares = _thinned(100 * summary.shares[order])
    # A few clients with nearly one label would leave the others pale: the top of the scale is for all beyond it.
    top = max(float(np.quantile(shares, 0.995, method="higher")), 1.0)
    image = labels.imshow(
        shares,
        cmap="Blues",
        vmin=0,
        vmax=top,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, width - 0.5, n - 0.5, -0.5),
    )
    beyond = "max" if shares.max() > top else "neither"
    figure.colorbar(image, ax=labels, label="% of a client's samples", pad=0.02, extend=beyond)
    labels.set_xlabel("class" if summary.are_classes else "number to predict")
    _label_columns(labels, summary)
    for axes in (bars, labels):
        axes.set_ylim(n - 0.5, -0.5)
    _label_clients(bars, [summary.clients[i] for i in order])
    labels.set_yticks([])
    return figure


def _draw_bars(axes: "Axes", train: "NDArray[np.int64]", test: "NDArray[np.int64]") -> None:
    n, total = len(train), train + test
    if n <= NAMED:
        axes.barh(range(n), train, height=0.85, color=plots.COLOURS[0], label="training")
        axes.barh(range(n), test, left=train, height=0.85, color=plots.COLOURS[1], label="test")
    else:
        # One shape for all of them: a bar each would be slow to draw, and too thin to be told apart.
        edges = np.arange(n + 1) - 0.5
        style: dict[str, Any] = {"orientation": "horizontal", "fill": True, "linewidth": 0}
        axes.stairs(train, edges, color=plots.COLOURS[0], label="training", **style)
        axes.stairs(total, edges, baseline=train, color=plots.COLOURS[1], label="test", **style)
    axes.set_xlim(0, 1.02 * total.max())


def _thinned(rows: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return the means of neighbouring rows where there are more than a picture can show."""
    group = -(-len(rows) // MOST_ROWS)
    starts = np.arange(0, len(rows), group)
    sizes = np.diff([*starts, len(rows)])
    means: NDArray[np.float64] = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
    return means


def _label_clients(axes: "Axes", names: list[str]) -> None:
    if len(names) <= NAMED:
        size = 9 if len(names) <= 15 else 7 if len(names) <= 25 else 5.5
        axes.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=size)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_ylabel(f"{len(names):,} clients, the largest on top")


def _label_columns(axes: "Axes", summary: "Summary") -> None:
    """Name as many columns as there is room for."""
    names = [_short(name) for name in summary.columns]
    longest = max(map(len, names))
    upright = longest * len(names) <= 62
    step = 1 if upright else -(-len(names) // 32)
    size = 9 if len(names) <= 26 else 7
    axes.set_xticks(
        range(0, len(names), step), names[::step], rotation=0 if upright or longest <= 2 else 60, fontsize=size
    )
    if not upright and longest > 2:
        for tick in axes.get_xticklabels():
            tick.set_horizontalalignment("right")
            tick.set_rotation_mode("anchor")


def _short(name: str) -> str:
    plain = name.replace("$", r"\$")
    return plain if len(plain) <= 20 else f"{plain[:19]}…"
