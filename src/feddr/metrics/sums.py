"""Metrics as sums: what each site tells about its own samples, and the metric over the samples of all sites.

The metric is that of all samples together, to rounding, though no site tells anything of a single sample. The area
under the ROC curve has no such sums: it needs the order of all scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.metrics import outputs as of

BINS = 15
"""Bins of equal width, over the confidence of predictions, in the calibration error."""

Vector = NDArray[np.float64]
Batch = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class MetricSums:
    """A metric that follows from a few numbers of each site.

    Parameters
    ----------
    sums
        From (values, batch), as a ``Metric`` has them, of the samples of a site to the numbers that it tells, (k,).
    pooled
        From the numbers of all sites, (sites, k), to the metric over all their samples.
    fits
        Whether a site may tell k numbers.

    Examples
    --------
    >>> mean = SUMS["accuracy"]
    >>> sums = [mean.sums(np.array([1.0, 0.0]), {}), mean.sums(np.array([1.0]), {})]
    >>> round(mean.pooled(np.array(sums)), 4)
    0.6667
    """

    sums: Callable[[NDArray[Any], Batch], Vector]
    pooled: Callable[[Vector], float]
    fits: Callable[[int], bool] = lambda k: k == 2

    def __call__(self, values: NDArray[Any], batch: Batch) -> float:
        """Return the metric of the samples of one site."""
        return self.pooled(self.sums(values, batch)[None])


def class_counts(outputs: NDArray[Any], batch: Batch) -> Vector:
    """Return, for each class, how many are rightly predicted, and 2 TP + FP + FN; shape (2 classes,).

    Examples
    --------
    >>> class_counts(np.array([1.0, -1.0, 2.0]), {"y": np.array([1, 0, 0])}).tolist()
    [1.0, 1.0, 3.0, 3.0]
    """
    y, classes = of.labels("f1", outputs, batch)
    counts = np.bincount(y * classes + of.predicted(outputs), minlength=classes**2).reshape(classes, classes)
    return np.concatenate([np.diag(counts), counts.sum(axis=0) + counts.sum(axis=1)]).astype(np.float64)


def macro_f1(sites: Vector) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), over classes that occur or are predicted.

    Examples
    --------
    >>> macro_f1(np.array([[1.0, 1.0, 3.0, 3.0]]))
    0.6666666666666666
    """
    right, total = sites.sum(axis=0).reshape(2, -1)
    if not np.any(total > 0):
        return float("nan")
    return float(np.mean(2.0 * right[total > 0] / total[total > 0]))


def bin_gaps(outputs: NDArray[Any], batch: Batch) -> Vector:
    """Return the number of samples and, for each bin, the sum of right predictions less confidences; (1 + BINS,).

    Examples
    --------
    >>> sums = bin_gaps(np.array([30.0, 30.0]), {"y": np.array([1, 0])})
    >>> sums[0], round(sums[-1], 6)  # two samples, both sure, one of them wrong
    (np.float64(2.0), np.float64(-1.0))
    """
    y, _ = of.labels("calibration_error", outputs, batch)
    confidence = np.exp(of.log_probabilities(outputs).max(axis=1))
    bins = np.searchsorted(np.linspace(0.0, 1.0, BINS + 1)[1:-1], confidence)
    gaps = np.bincount(bins, (of.predicted(outputs) == y) - confidence, minlength=BINS)
    return np.concatenate([[len(y)], gaps])


def expected_gap(sites: Vector) -> float:
    """Return the mean gap between confidence and accuracy, where bins weigh by their samples.

    Examples
    --------
    >>> expected_gap(np.array([[2.0, -1.0]]))
    0.5
    """
    count, *gaps = sites.sum(axis=0)
    return float(np.abs(gaps).sum() / count)


def target_moments(outputs: NDArray[Any], batch: Batch) -> Vector:
    """Return the number of samples and, for each output, the mean of y, the sum of squares about it and of residuals.

    The sum of squares about the mean, and not that of y^2, so that large targets do not cancel. Shape (1 + 3 d,).

    Examples
    --------
    >>> target_moments(np.array([1.0, 2.0]), {"y": np.array([1.0, 3.0])}).tolist()
    [2.0, 2.0, 2.0, 1.0]
    """
    y = np.asarray(of.column("r2", batch), np.float64)
    if y.shape != outputs.shape:
        raise ValueError(
            f"r2 needs one output for each target y, got outputs of shape {outputs.shape} and y of shape {y.shape}; "
            "use f1, auc or log_loss for classes."
        )
    mean = y.mean(axis=0)
    about = np.sum((y - mean) ** 2, axis=0)
    residual = np.sum((y - np.asarray(outputs, np.float64)) ** 2, axis=0)
    return np.concatenate([[len(y)], *map(np.ravel, (mean, about, residual))])


def share_explained(sites: Vector) -> float:
    """Return 1 - sum (y - output)^2 / sum (y - mean y)^2, the mean over outputs; NaN where all targets are equal.

    Sums of squares about the mean of all are those about the mean of each site, and those between these means.

    Examples
    --------
    >>> share_explained(np.array([[2.0, 2.0, 2.0, 1.0]]))
    0.5
    """
    count = sites[:, :1]
    means, about, residual = np.moveaxis(sites[:, 1:].reshape(len(sites), 3, -1), 1, 0)
    mean = (count * means).sum(axis=0) / count.sum()
    total = about.sum(axis=0) + (count * (means - mean) ** 2).sum(axis=0)
    return float(np.mean(1.0 - residual.sum(axis=0) / total)) if np.all(total > 0) else float("nan")


def log_losses(outputs: NDArray[Any], batch: Batch) -> Vector:
    """Return the number of samples and the sum of -log p(y), where p is the sigmoid or the softmax of the outputs.

    Examples
    --------
    >>> log_losses(np.array([0.0, 0.0]), {"y": np.array([0, 1])}).round(6).tolist()
    [2.0, 1.386294]
    """
    y, _ = of.labels("log_loss", outputs, batch)
    return np.array([len(y), -of.log_probabilities(outputs)[np.arange(len(y)), y].sum()])


def mean(sites: Vector) -> float:
    """Return the mean over all samples, from numbers of samples and sums.

    Examples
    --------
    >>> mean(np.array([[2.0, 1.0], [2.0, 2.0]]))
    0.75
    """
    count, total = sites.sum(axis=0)
    return float(total / count)


def _count_and_sum(values: NDArray[Any], batch: Batch) -> Vector:
    del batch
    return np.array([len(values), np.sum(values, dtype=np.float64)])


SUMS: Mapping[str, MetricSums] = {
    "loss": MetricSums(_count_and_sum, mean),
    "accuracy": MetricSums(_count_and_sum, mean),
    "f1": MetricSums(class_counts, macro_f1, lambda k: k >= 4 and k % 2 == 0),
    "log_loss": MetricSums(log_losses, mean),
    "r2": MetricSums(target_moments, share_explained, lambda k: k >= 4 and k % 3 == 1),
    "calibration_error": MetricSums(bin_gaps, expected_gap, lambda k: k == 1 + BINS),
}
"""The ready-made metrics that follow from sums."""


def pooled(name: str, sums: Sequence[ArrayLike]) -> float:
    """Return a metric over the samples of all sites, from the sums of each; NaN where there are no samples.

    Raises
    ------
    ValueError
        Where the sites have sums of different lengths.

    Examples
    --------
    >>> pooled("accuracy", [[2.0, 1.0], [2.0, 2.0]])
    0.75
    """
    with np.errstate(all="ignore"):
        return SUMS[name].pooled(np.array(sums, np.float64))
