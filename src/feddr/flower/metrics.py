"""The history of a deployed run: rows from what the server knows or measures, and from what nodes report."""

import dataclasses
import math
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from feddr import precision, tree
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.measured import MetricSet
from feddr.flower import site_metrics
from feddr.flower.description import ModelWriter
from feddr.flower.federation import Federation
from feddr.flower.messages import Metrics
from feddr.flower.records import Counters
from feddr.history import COLUMNS, History, Row
from feddr.metrics import choose
from feddr.problem import Problem
from feddr.prox.regulariser import sparsity
from feddr.storage import atomic
from feddr.tree import Tree


class MetricsWriter:
    """Adds rows to the history, and keeps history.csv and model.safetensors up to date.

    Parameters
    ----------
    version
        Where the run stands; later rows in the file belong to a future that did not come about.
    weights
        w_i of each client.
    withheld
        Notified of a client, a metric of which it tells no sums, and its reason, once each.

    Attributes
    ----------
    asked
        The metrics whose sums nodes are asked for, by name, with commas between them.
    left
        The clients that have left, whose metrics nobody waits for.
    """

    def __init__(
        self,
        folder: Path,
        federation: Federation,
        dtype: np.dtype[Any],
        weights: list[float],
        withheld: Callable[[int, str, str], None],
    ) -> None:
        self.folder, self.federation, self.dtype, self.weights = folder, federation, dtype, weights
        self.history = History()
        self.reports: dict[int, dict[int, Metrics]] = {}
        problem = federation.evaluation if isinstance(federation.evaluation, Problem) else None
        self.left: Container[int] = ()
        self._evaluator = None if problem is None else Evaluator(problem, dtype)
        chosen = choose(federation.metrics)
        self._own = None if self._evaluator is None else MetricSet(self._evaluator.problem, self._evaluator, chosen)
        self.asked = site_metrics.question(chosen) if federation.evaluation == "nodes" else ""
        self._withheld, self._known_reasons = withheld, set[tuple[int, str]]()
        self._model = ModelWriter(folder, federation.description or problem)

    def resume(self, version: int) -> None:
        """Load the rows that were written, up to a version."""
        path = self.folder / "history.csv"
        if path.exists():
            self.history.rows = [row for row in History.from_csv(path).rows if row.round <= version]

    @property
    def newest(self) -> int:
        """The version of the newest row, -1 for none."""
        return self.history.last.round if self.history.rows else -1

    def add(self, version: int, xbar: Tree, counters: Counters, asynchronous: bool, spent: Mapping[str, float]) -> Row:
        """Add a row for this version; ``spent`` has its columns of privacy."""
        x = tree.cast(xbar, self.dtype)
        stale = counters.stale_count and asynchronous
        measured: dict[str, Any] = self._known(x) if self._evaluator is None else self._evaluator.at(x)
        row = Row(
            round=version,
            wall_time=counters.wall_time,
            bytes_up=counters.bytes_up,
            bytes_down=counters.bytes_down,
            local_steps=counters.local_steps,
            prox_error=counters.prox_error,
            staleness_mean=counters.stale_sum / counters.stale_count if stale else math.nan,
            staleness_max=float(counters.stale_max) if stale else math.nan,
            metrics={**({} if self._own is None else self._own.at(x)[0]), **spent},
            **measured,
        )
        self.history.rows.append(row)
        self._save()
        self._model.save(x)
        return row

    def save_model(self, xbar: Tree) -> None:
        """Write the model, where it has changed since the newest row."""
        self._model.save(tree.cast(xbar, self.dtype))

    def report(self, version: int, metrics: Metrics) -> Row | None:
        """Store a client's metrics, and return the row of this version once all clients have reported."""
        answers = site_metrics.read(metrics.sums, self.asked)
        for column, reason in site_metrics.reasons(answers).items():
            if (metrics.client, column) not in self._known_reasons:
                self._known_reasons.add((metrics.client, column))
                self._withheld(metrics.client, column, reason)
        reports = self.reports.setdefault(version, {})
        reports[metrics.client] = metrics
        members = [i for i in range(len(self.weights)) if i not in self.left]
        if not reports.keys() >= set(members):
            return None
        share = math.fsum(self.weights[i] for i in members)
        del self.reports[version]
        sites = [site_metrics.read(reports[i].sums, self.asked) for i in members]
        for k, row in enumerate(self.history.rows):
            if row.round == version:
                f = math.fsum(self.weights[i] * reports[i].loss for i in members) / share
                self.history.rows[k] = filled = dataclasses.replace(
                    row,
                    F=f + row.g,
                    f=f,
                    train_loss=_mean([(one.loss, one.samples) for one in reports.values()]),
                    train_accuracy=_mean([(one.accuracy, one.samples) for one in reports.values()]),
                    test_accuracy=_mean([(one.test_accuracy, one.test_samples) for one in reports.values()]),
                    metrics={k: v for k, v in site_metrics.over_all(self.asked, sites).items() if k not in COLUMNS},
                )
                self._save()
                return filled
        return None

    def _known(self, x: Tree) -> dict[str, float]:
        with precision.scope(self.dtype):
            g = float(self.federation.regulariser.value(x))
        return {"g": g, "sparsity": sparsity(self.federation.regulariser, x)}

    def _save(self) -> None:
        with atomic.replacing(self.folder / "history.csv") as path:
            self.history.to_csv(path)


def _mean(values: list[tuple[float, int]]) -> float:
    """Return the mean of means over so many samples each."""
    used = [(value, count) for value, count in values if count > 0]
    total = sum(count for _, count in used)
    return math.fsum(value * count for value, count in used) / total if total else math.nan
