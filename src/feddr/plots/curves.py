"""Histories as figures: what was measured at the global model, and in a figure of its own what clients' models do.

The two sets of metrics answer different questions, so they never share a panel.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from feddr.history import History, Row
from feddr.plots.styles import COLOURS, LINES, MARKERS, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

AXES = {
    "round": "round",
    "time": "virtual time (s)",
    "updates": "rounds, or updates of the server",
    "megabytes": "megabytes sent, up and down",
    "local_steps": "local steps",
}
"""What a metric is drawn against."""


@dataclass(frozen=True)
class Panel:
    """One metric against another; ``log`` where its scale is logarithmic, ``percent`` where it is a share."""

    y: str
    label: str
    x: str = "round"
    log: bool = False
    percent: bool = False


GLOBAL = (
    Panel("train_loss", "training loss", log=True),
    Panel("train_accuracy", "training accuracy", percent=True),
    Panel("test_accuracy", "test accuracy", percent=True),
    Panel("F", "objective F", x="megabytes", log=True),
    Panel("gradient_mapping", "norm of the gradient mapping", log=True),
    Panel("sparsity", "zeros where g acts", percent=True),
    Panel("F", "objective F", x="local_steps", log=True),
)
TIMED = (
    Panel("train_loss", "training loss", x="time", log=True),
    Panel("train_accuracy", "training accuracy", x="time", percent=True),
    Panel("test_accuracy", "test accuracy", x="time", percent=True),
    Panel("F", "objective F", x="time", log=True),
    Panel("F", "objective F", x="updates", log=True),
    Panel("F", "objective F", x="megabytes", log=True),
)
PERSONAL = (
    Panel("personal_train_loss", "training loss", log=True),
    Panel("personal_train_accuracy", "training accuracy", percent=True),
    Panel("personal_test_accuracy", "test accuracy", percent=True),
)


def curves(histories: Mapping[str, History], title: str = "") -> "Figure":
    """Return the metrics at the global model xbar, one line for each history.

    Losses, accuracies and the gradient mapping are drawn against rounds, the objective against what was sent. The last
    panel has the sparsity where a model has zeros, and the objective against local steps otherwise. Panels without
    data are left out.

    Parameters
    ----------
    histories
        By label, in the order of the legend.
    title
        What comes before "at the global model".

    Examples
    --------
    >>> from feddr.history import Row
    >>> rows = [Row(round=0, F=2.0, train_loss=2.0), Row(round=10, F=1.0, train_loss=1.0)]
    >>> figure = curves({"FedDR": History(rows)})
    >>> [(axes.get_ylabel(), axes.get_xlabel()) for axes in figure.axes][:2]
    [('training loss', 'round'), ('objective F', 'megabytes sent, up and down')]
    """
    title = f"{title}: metrics at the global model" if title else "Metrics at the global model"
    return _figure(histories, _global(histories), title)


def personal_curves(histories: Mapping[str, History], title: str = "") -> "Figure":
    """Return the metrics of clients' own models on their own data, which are not those at the global model.

    Examples
    --------
    >>> from feddr.history import Row
    >>> rows = [Row(round=0, personal_train_loss=2.0), Row(round=1, personal_train_loss=1.0)]
    >>> figure = personal_curves({"FedDR": History(rows)})
    >>> [axes.get_ylabel() for axes in figure.axes][:1]
    ['training loss']
    """
    note = "each client's own model on its own data"
    return _figure(histories, PERSONAL, f"{title}: {note}" if title else note.capitalize())


def time_curves(histories: Mapping[str, History], title: str = "") -> "Figure":
    """Return the metrics at the global model against virtual time, updates and bytes, for runs that have a clock.

    Examples
    --------
    >>> from feddr.history import Row
    >>> rows = [Row(round=0, time=0.0, F=2.0), Row(round=1, time=3.5, F=1.0)]
    >>> figure = time_curves({"AsyncFedDR": History(rows)})
    >>> figure.axes[0].get_xlabel()
    'virtual time (s)'
    """
    note = "metrics at the global model over virtual time"
    timed = {label: history for label, history in histories.items() if has_time({label: history})}
    return _figure(timed, TIMED, f"{title}: {note}" if title else note.capitalize())


def has_curves(histories: Mapping[str, History]) -> bool:
    """Return whether a metric was measured that ``curves`` draws.

    Examples
    --------
    >>> from feddr.history import Row
    >>> has_curves({"FedDR": History([Row(round=1, F=0.5)])}), has_curves({"FedDR": History([Row(round=1)])})
    (True, False)
    """
    return any(_measured(histories, panel) for panel in _global(histories))


def has_time(histories: Mapping[str, History]) -> bool:
    """Return whether a run had a clock.

    Examples
    --------
    >>> from feddr.history import Row
    >>> has_time({"FedDR": History([Row(round=1, F=0.5)])})
    False
    """
    return any(math.isfinite(row.time) for history in histories.values() for row in history.rows)


def has_personal(histories: Mapping[str, History]) -> bool:
    """Return whether metrics of clients' own models were measured.

    Examples
    --------
    >>> from feddr.history import Row
    >>> has_personal({"FedDR": History([Row(round=1, personal_train_loss=0.5)])})
    True
    """
    return any(_measured(histories, panel) for panel in PERSONAL)


def save(figure: "Figure", path: str | Path) -> None:
    """Write a figure to a file, in the format of its name.

    Examples
    --------
    >>> from feddr.history import Row
    >>> import tempfile
    >>> figure = curves({"FedDR": History([Row(round=0, F=2.0), Row(round=1, F=1.0)])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(figure, Path(folder) / "curves.png")
    ...     print(sorted(path.name for path in Path(folder).iterdir()))
    ['curves.png']
    """
    figure.savefig(path, dpi=150)


def _global(histories: Mapping[str, History]) -> list[Panel]:
    """Return the panels of ``curves``, with the sparsity or the objective against local steps."""
    # The start has zeros of its own, such as all biases; they say nothing about the method.
    sparse = any(row.sparsity > 0 for history in histories.values() for row in history.rows if row.round > 0)
    dropped = ("F", "local_steps") if sparse else ("sparsity", "round")
    return [panel for panel in GLOBAL if (panel.y, panel.x) != dropped]


def _figure(histories: Mapping[str, History], panels: Sequence[Panel], title: str) -> "Figure":
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from feddr.plots.notebook import NotebookFigure

    shown = [panel for panel in panels if _measured(histories, panel)]
    if not shown:
        raise ValueError("A figure needs a metric that was measured, got histories with none; evaluate them first.")
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    width, height = max(4.0 * columns, 5.0), 3.0 * rows + 0.9
    figure = NotebookFigure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    figure.suptitle(title, fontsize=13)
    drawn: dict[str, Line2D] = {}
    for number, panel in enumerate(shown, start=1):
        drawn |= _draw(figure.add_subplot(rows, columns, number), histories, panel)
    in_order = {label: drawn[label] for label in histories if label in drawn}
    longest = max(map(len, in_order))
    figure.legend(
        in_order.values(),
        [label.replace("$", r"\$") for label in in_order],
        loc="outside lower center",
        ncols=max(1, min(len(in_order), int(width * 11 / (longest + 8)))),
        frameon=False,
        handlelength=3.5,
    )
    return figure


def _draw(axes: "Axes", histories: Mapping[str, History], panel: Panel) -> "dict[str, Line2D]":
    """Draw one line for each history that measured the metric."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    drawn = {}
    styles = line_styles(list(histories))
    for i, ((label, history), style) in enumerate(zip(histories.items(), styles, strict=True)):
        points = _points(history, panel)
        if points:
            step = max(1, len(points) // 8)
            (drawn[label],) = axes.plot(
                *zip(*points, strict=True),
                color=COLOURS[style.colour],
                linestyle=LINES[style.dash],
                marker=MARKERS[style.dash],
                # Markers of different lines at different places, so that lines which coincide are both seen.
                markevery=(i % step, step),
                markersize=4.5,
                linewidth=1.6,
            )
    axes.set_xlabel(AXES[panel.x])
    axes.set_ylabel(f"{panel.label} (%)" if panel.percent else panel.label)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10], integer=panel.x in ("round", "updates")))
    if panel.x in ("local_steps", "updates"):
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.log:
        _log_scale(axes, [y for history in histories.values() for _, y in _points(history, panel)])
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


def _log_scale(axes: "Axes", values: Sequence[float]) -> None:
    """Make the scale logarithmic, unless there are values that it cannot show or that a linear one shows as well."""
    low, high = min(values), max(values)
    if low > 0 and high >= 2 * low:
        log_ticks(axes, low, high)


def log_ticks(axes: "Axes", low: float, high: float) -> None:
    """Make the scale of y logarithmic, with a few ticks as plain numbers also where it spans less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    subs = (1, 1.5, 2, 3, 4, 5, 7) if high < 10 * low else (1, 2, 5) if high < 100 * low else (1,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _points(history: History, panel: Panel) -> list[tuple[float, float]]:
    """Return the finite points of a panel."""
    scale = 100.0 if panel.percent else 1.0
    pairs = [(_x(row, panel.x), scale * getattr(row, panel.y)) for row in history.rows]
    return [pair for pair in pairs if all(map(math.isfinite, pair))]


def _x(row: Row, name: str) -> float:
    if name == "megabytes":
        return (row.bytes_up + row.bytes_down) / 1e6
    return float(row.round if name == "updates" else getattr(row, name))


def _measured(histories: Mapping[str, History], panel: Panel) -> bool:
    return any(_points(history, panel) for history in histories.values())
