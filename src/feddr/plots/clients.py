"""How each client fares with the global model: its metric as a sorted bar chart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from feddr.history import History
from feddr.metrics import better, statistics
from feddr.plots.styles import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFERRED = ("test_accuracy", "train_accuracy", "test_loss", "train_loss")
"""What is drawn unless something else is asked for: the first that was measured."""


def clients(history: History, metric: str | None = None, names: Sequence[str] = ()) -> "Figure":
    """Return the metric of each client at xbar, at the last evaluation, as bars from the worst to the best.

    Parameters
    ----------
    history
        Of a run with ``per_client=True``.
    metric
        A column of ``history.clients``, such as ``"test_accuracy"`` (the default where it was measured).
    names
        Of the clients, by their number; numbers by default.

    Raises
    ------
    ValueError
        Where the run did not measure its clients, or not this metric.

    Examples
    --------
    >>> history = History()
    >>> history.clients.add(5, {"client": [0, 1, 2], "test_accuracy": [0.9, 0.4, 0.7]})
    >>> axes = clients(history).axes[0]
    >>> [round(bar.get_height()) for bar in axes.patches]
    [40, 70, 90]
    """
    from matplotlib.figure import Figure

    if not len(history.clients):
        raise ValueError("A picture of clients needs their metrics, the history has none; run with per_client=True.")
    table = history.clients.last
    if metric is None:
        metric = next((name for name in PREFERRED if name in table), history.clients.columns[0])
    if metric not in history.clients.columns or metric not in table:
        raise ValueError(f"Clients have the metrics {', '.join(history.clients.columns)}, got {metric!r}.")
    end = better(metric) or "max"
    known = ~np.isnan(table[metric])
    values, who = table[metric][known], table["client"][known]
    order = np.argsort(values if end == "max" else -values, kind="stable")
    percent = metric.endswith("accuracy")
    scale = 100.0 if percent else 1.0
    label = metric.replace("_", " ") + (" (%)" if percent else "")
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(np.arange(len(order)), scale * values[order], width=0.9, color=COLOURS[0])
    summary = statistics(values, end)
    for style, word in {"-": "median", "--": "p10"}.items():
        words = {"p10": "one client in ten is worse"}.get(word, word)
        axes.axhline(scale * summary[word], color=COLOURS[1], linestyle=style, linewidth=1.2, label=words)
    if len(order) <= 40:
        shown = [names[i] if i < len(names) else str(i) for i in who[order].tolist()]
        axes.set_xticks(np.arange(len(order)), shown, rotation=90 if max(map(len, shown), default=0) > 3 else 0)
        axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel(f"{len(order)} clients, the worst first")
    axes.set_ylabel(label)
    axes.set_title(f"Each client with the global model, round {max(history.clients.tables)}", loc="left")
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return figure
