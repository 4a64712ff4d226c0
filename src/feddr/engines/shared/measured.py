"""The metrics that a run was asked for, at xbar: over all samples of a part, and of each client."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from feddr.algorithms.algorithm import ProblemLike
from feddr.data import ClientSamples
from feddr.engines.shared.evaluation import Kind
from feddr.engines.shared.pieces import Part
from feddr.metrics import READY, Metric, better, statistics
from feddr.tree import Tree

Columns = dict[str, NDArray[Any]]


class Evaluates(Protocol):
    """What evaluates models on a problem: the compiled ``Evaluator``, or a plain one."""

    def at(self, xbar: Tree) -> dict[str, float]:
        """Return the metrics of every history at xbar."""

    def personal(self, models: Iterable[tuple[int, Tree]]) -> dict[str, float]:
        """Return those of the clients' own models."""

    def each(self, xbar: Tree, part: Part, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions at xbar of each sample of a part."""


class MetricSet:
    """The metrics that a run was asked for; none of them costs nothing.

    Parameters
    ----------
    metrics
        From ``feddr.metrics.choose``.
    per_client
        Whether to compute them for each client, too, and with them the loss and the accuracy.

    Raises
    ------
    ValueError
        Where a metric asks for validation or test samples, and there are none.
    """

    def __init__(
        self, problem: ProblemLike, evaluator: Evaluates, metrics: Sequence[Metric] = (), per_client: bool = False
    ) -> None:
        self.problem, self.evaluator, self.metrics, self.per_client = problem, evaluator, metrics, per_client
        test = problem.data.test
        self._tested = test is not None and test.num_samples > 0
        for metric in metrics:
            part = None if metric.part is None else problem.data.part(metric.part)
            if metric.part is not None and (part is None or part.num_samples == 0):
                remedy = "give the data a validation_share, or " if metric.part == "validation" else ""
                raise ValueError(
                    f"{metric.part}_{metric.name} needs {metric.part} samples, the data has none; {remedy}ask for "
                    f"train_{metric.name}."
                )
        self._whole = {self._name(metric): metric for metric in metrics}
        self._each = {**(self._basic() if per_client else {}), **self._whole}

    def at(self, xbar: Tree) -> tuple[dict[str, float], Columns | None]:
        """Return the metrics by name, statistics of clients among them, and the table of clients if it is wanted."""
        if not self._each:
            return {}, None
        values: dict[tuple[Part, Kind], NDArray[Any]] = {}
        columns: Columns = {"client": self.problem.data.panel}
        overall: dict[str, float] = {}
        spread: dict[str, float] = {}
        for name, metric in self._each.items():
            part = cast(Part, name.partition("_")[0])
            key = part, metric.of
            if key not in values:
                values[key] = self.evaluator.each(xbar, part, metric.of)
            samples = self._samples(part)
            if name in self._whole:
                overall[name] = metric(values[key], samples.samples)
            if self.per_client:
                columns[name] = _by_client(metric, values[key], samples)
            if self.per_client and (name in self._whole or part == "test" or not self._tested):
                end = better(name, self.metrics) or metric.better
                spread |= {f"{word}_client_{name}": value for word, value in statistics(columns[name], end).items()}
        return {name: overall[name] for name in self._whole} | spread, columns if self.per_client else None

    def _samples(self, part: str) -> ClientSamples:
        samples = self.problem.data.part(part)
        assert samples is not None
        return samples

    def _name(self, metric: Metric) -> str:
        return f"{metric.part or ('test' if self._tested else 'train')}_{metric.name}"

    def _basic(self) -> Mapping[str, Metric]:
        """Return what is always wanted of clients: losses, and accuracies where there are any."""
        right = getattr(self.problem, "correct", None) is not None
        kinds = ("loss", "accuracy") if right else ("loss",)
        return {f"{part}_{name}": READY[name] for part in ("train", "test")[: 1 + self._tested] for name in kinds}


def _by_client(metric: Metric, values: NDArray[Any], part: ClientSamples) -> NDArray[np.float64]:
    """Return a metric of each client; NaN for those without samples."""
    if metric in (READY["loss"], READY["accuracy"]):  # means, for which a loop over many clients would be slow
        owner = np.repeat(np.arange(part.num_clients), part.sizes)
        with np.errstate(invalid="ignore"):
            return np.bincount(owner, values, minlength=part.num_clients) / part.sizes
    ends = itertools.pairwise(part.offsets.tolist())
    return np.array([metric(values[a:b], part.client(i)) for i, (a, b) in enumerate(ends)])
