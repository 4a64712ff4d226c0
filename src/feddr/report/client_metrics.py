"""How each client fares with the global model, as a report shows it: from the worst to the best."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.history.clients import CLIENT_METRICS, ClientHistory
from feddr.metrics import better, statistics
from feddr.report.reading import reading

MOST_BARS = 300
"""Bars of a chart; of more clients, evenly spaced ones are drawn, the worst and the best among them."""

DIGITS = 6


def client_metrics(folder: Path) -> dict[str, Any] | None:
    """Return the metrics of each client at the last evaluation; None where a run has not measured them.

    Of each metric: values and clients from the worst to the best, the statistics, and whether more is better.
    """
    path = folder / CLIENT_METRICS
    if not path.is_file():
        return None
    with reading(path):
        history = ClientHistory.from_csv(path)
        if not len(history):
            return None
        table = history.last
        metrics = {name: _sorted(name, table[name], table["client"]) for name in history.columns if name in table}
    return {"round": max(history.tables), "metrics": {name: one for name, one in metrics.items() if one["values"]}}


def _sorted(name: str, values: NDArray[np.float64], clients: NDArray[np.int64]) -> dict[str, Any]:
    end = better(name) or "max"
    known = np.isfinite(values)
    values, clients = values[known], clients[known]
    order = np.argsort(values if end == "max" else -values, kind="stable")
    if len(order) > MOST_BARS:
        order = order[np.linspace(0, len(order) - 1, MOST_BARS).round().astype(np.int64)]
    summary = statistics(values, end) if len(values) else {}
    return {
        "better": end,
        "total": len(values),
        "values": [float(f"{value:.{DIGITS}g}") for value in values[order]],
        "clients": clients[order].tolist(),
        **{word: float(f"{value:.{DIGITS}g}") for word, value in summary.items()},
    }
