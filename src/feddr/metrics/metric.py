"""What a metric is, which ones a run was given, and which end of a column is the better one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.metrics import ready
from feddr.validation.messages import hint

Better = Literal["min", "max"]
"""Which end of a metric is the better one."""

Part = Literal["train", "validation", "test"]
"""A part of the data: what models are trained on, chosen by, and judged by."""

MetricFunction = Callable[[NDArray[Any], Mapping[str, NDArray[Any]]], ArrayLike]
"""From (outputs, batch) of all samples of a part to one number, or to one for each sample, whose mean is taken."""

PARTS: tuple[Part, ...] = ("test", "validation", "train")

COLUMNS: Mapping[str, Better] = {
    "F": "min",
    "f": "min",
    "train_loss": "min",
    "gradient_mapping": "min",
    "train_accuracy": "max",
    "test_accuracy": "max",
    "sparsity": "max",
    "personal_train_loss": "min",
    "personal_train_accuracy": "max",
    "personal_test_accuracy": "max",
}
"""The columns of every history that are better at one end."""

STATISTICS = ("worst", "p10", "median", "best")
"""Of the clients' values, where they are asked for: one client in ten is worse than p10."""


@dataclass(frozen=True)
class Metric:
    """A metric under a name.

    Parameters
    ----------
    name
        Of its column, after ``test_``, ``validation_`` or ``train_``.
    function
        From (outputs, batch) to one number, or to one for each sample, whose mean is taken. Outputs are an array with
        one row a sample, those of all samples of the part; the batch has the named arrays of these samples.
    better
        ``"max"`` where larger is better, else ``"min"``.
    of
        What the function is given first: the ``"outputs"`` of the model, each sample's ``"loss"``, or whether each is
        predicted rightly (``"correct"``).
    part
        ``"train"``, ``"validation"`` or ``"test"``; None for the test part where there is one, and the training part
        otherwise.

    Raises
    ------
    ValueError
        Where the name is no word, or ``better``, ``of`` or ``part`` is none of these.

    Examples
    --------
    >>> largest_error = Metric("largest_error", lambda outputs, batch: abs(outputs - batch["y"]).max(), better="min")
    >>> largest_error(np.array([1.0, 2.5]), {"y": np.array([1.0, 2.0])})
    0.5
    """

    name: str
    function: MetricFunction
    better: Better = "max"
    of: Literal["outputs", "loss", "correct"] = "outputs"
    part: Part | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"The name of a metric must be a word, got {self.name!r}; such as Metric('recall', ...).")
        for field, known in {"better": ("min", "max"), "of": ("outputs", "loss", "correct")}.items():
            if getattr(self, field) not in known:
                raise ValueError(f"{field} must be one of {', '.join(known)}, got {getattr(self, field)!r}.")
        if self.part not in (None, *PARTS):
            raise ValueError(f'part must be "train", "validation", "test" or None, got {self.part!r}.')

    def __call__(self, values: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
        """Return the metric over all of these samples; NaN where there are none."""
        if not len(values):
            return float("nan")
        computed = np.asarray(self.function(values, batch), np.float64)
        if computed.shape not in ((), (len(values),)):
            raise ValueError(
                f"The metric {self.name} must return one number, or one for each of {len(values)} samples, got shape "
                f"{computed.shape}."
            )
        return float(computed.mean())


def _mean(values: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    del batch
    return values


READY: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("loss", _mean, "min", "loss"),
        Metric("accuracy", _mean, "max", "correct"),
        Metric("f1", ready.f1),
        Metric("auc", ready.auc),
        Metric("log_loss", ready.log_loss, "min"),
        Metric("r2", ready.r2),
        Metric("calibration_error", ready.calibration_error, "min"),
    )
}
"""The ready-made metrics by name; ``test_``, ``validation_`` or ``train_`` before it chooses the part."""


def named(name: str) -> Metric:
    """Return a ready-made metric, such as ``"f1"``, ``"test_loss"`` or ``"validation_auc"``.

    Raises
    ------
    ValueError
        Where there is none of this name.

    Examples
    --------
    >>> named("f1").part is None, named("test_loss").part
    (True, 'test')
    """
    for part in PARTS:
        if name.removeprefix(f"{part}_") in READY and name not in READY:
            return replace(READY[name.removeprefix(f"{part}_")], part=part)
    if name not in READY:
        known = ", ".join(READY)
        raise ValueError(
            f"metrics are {known}, also with test_, validation_ or train_ before them, or functions of (outputs, "
            f"batch), got {name!r}.{hint(name, READY)}"
        )
    return READY[name]


def choose(metrics: Iterable[str | Metric | MetricFunction]) -> tuple[Metric, ...]:
    """Return the metrics that a run was given as names, functions or ``Metric``.

    Raises
    ------
    ValueError
        Where a name is not known, a function has none, or two metrics share one.

    Examples
    --------
    >>> def largest(outputs, batch):
    ...     return outputs.max()
    >>> [metric.name for metric in choose(["auc", largest])]
    ['auc', 'largest']
    """
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        raise ValueError(f'metrics must be a list, such as ["f1", "auc"], got {metrics!r}.')
    chosen = tuple(map(_metric, metrics))
    keys = [(metric.name, metric.part) for metric in chosen]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"Metrics need names of their own, got {key[0]} twice; rename one with Metric(name, ...).")
    return chosen


def _metric(metric: str | Metric | MetricFunction) -> Metric:
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return named(metric)
    name = getattr(metric, "__name__", "")
    if not callable(metric) or not str(name).isidentifier():
        raise ValueError(
            f"A metric is a name, a function with a name, or a Metric, got {metric!r}; such as Metric('recall', ...)."
        )
    return Metric(str(name), metric)


def better(name: str, asked: Iterable[Metric] = ()) -> Better | None:
    """Return which end of a column is the better one, None where nobody has said.

    Parameters
    ----------
    name
        A column of a history, with or without the name of a part before it, also that of a statistic of clients.
    asked
        Metrics of the run's own.

    Examples
    --------
    >>> better("test_log_loss"), better("worst_client_test_accuracy"), better("time")
    ('min', 'max', None)
    """
    if name in COLUMNS:
        return COLUMNS[name]
    for statistic in STATISTICS:
        name = name.removeprefix(f"{statistic}_client_")
    known = {**READY, **{metric.name: metric for metric in asked}}
    for part in PARTS:
        if name.startswith(f"{part}_") and name.removeprefix(f"{part}_") in known:
            name = name.removeprefix(f"{part}_")
    return known[name].better if name in known else None


def needed(column: str) -> tuple[str | None, bool]:
    """Return what a run must be asked for so that its history has a column: a metric, and metrics of each client.

    Parameters
    ----------
    column
        Of a history; one that nobody knows, such as that of a metric of your own, needs nothing that could be said.

    Examples
    --------
    >>> needed("F"), needed("validation_f1"), needed("worst_client_test_loss")
    ((None, False), ('validation_f1', False), (None, True))
    """
    if column in COLUMNS:
        return None, False
    name = column
    for statistic in STATISTICS:
        name = name.removeprefix(f"{statistic}_client_")
    if not any(name.removeprefix(f"{part}_") in READY for part in PARTS):
        return None, False
    usual = [f"{part}_{word}" for part in ("test", "train") for word in ("loss", "accuracy")]  # of clients, always
    return None if name != column and name in usual else name, name != column


def statistics(values: ArrayLike, better: Better) -> dict[str, float]:
    """Return the worst, the 10th percentile from the worst, the median and the best; NaN are left out.

    Examples
    --------
    >>> statistics([0.9, 0.5, 0.7], "max")
    {'worst': 0.5, 'p10': 0.54, 'median': 0.7, 'best': 0.9}
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    if not len(known):
        return dict.fromkeys(STATISTICS, float("nan"))
    shares = (0.0, 0.1, 0.5, 1.0) if better == "max" else (1.0, 0.9, 0.5, 0.0)
    return dict(zip(STATISTICS, map(float, np.quantile(known, shares)), strict=True))
