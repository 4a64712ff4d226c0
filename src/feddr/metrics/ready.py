"""Ready-made metrics, each a function of (outputs, batch) over all samples of a part."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""Bins of equal width, over the confidence of predictions, in ``calibration_error``."""


def f1(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), over classes that occur or are predicted (macro F1).

    Examples
    --------
    >>> f1(np.array([1.0, -1.0, 2.0]), {"y": np.array([1, 0, 0])})
    0.6666666666666666
    """
    y, classes = _labels("f1", outputs, batch)
    counts = np.bincount(y * classes + _predicted(outputs), minlength=classes**2).reshape(classes, classes)
    right, total = np.diag(counts), counts.sum(axis=0) + counts.sum(axis=1)
    return float(np.mean(2.0 * right[total > 0] / total[total > 0]))


def auc(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the area under the ROC curve; of several classes the mean of each against the rest.

    Classes that no sample has, or all have, are left out; NaN where that leaves none.

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), {"y": np.array([0, 0, 1, 1])})
    0.75
    """
    y, _classes = _labels("auc", outputs, batch)
    if outputs.ndim == 1:
        return _area(np.asarray(outputs, np.float64), y == 1)
    scores = _log_probabilities(outputs)
    areas = [_area(scores[:, k], y == k) for k in np.unique(y)]
    known = [area for area in areas if not np.isnan(area)]
    return float(np.mean(known)) if known else float("nan")


def log_loss(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the mean of -log p(y), where p is the sigmoid or the softmax of the outputs.

    Examples
    --------
    >>> round(log_loss(np.array([0.0, 0.0]), {"y": np.array([0, 1])}), 6)
    0.693147
    """
    y, _ = _labels("log_loss", outputs, batch)
    return float(-np.mean(_log_probabilities(outputs)[np.arange(len(y)), y]))


def calibration_error(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the expected calibration error (ECE): the mean gap between confidence and accuracy, over 15 bins.

    The confidence is the probability of the predicted class; bins have equal width, and weigh by their samples.

    Examples
    --------
    >>> round(calibration_error(np.array([30.0, 30.0]), {"y": np.array([1, 0])}), 6)  # sure of both, right in one
    0.5
    """
    y, _ = _labels("calibration_error", outputs, batch)
    confidence = np.exp(_log_probabilities(outputs).max(axis=1))
    bins = np.searchsorted(np.linspace(0.0, 1.0, BINS + 1)[1:-1], confidence)
    gaps = np.bincount(bins, (_predicted(outputs) == y) - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(y))


def r2(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return 1 - sum (y - output)^2 / sum (y - mean y)^2; the mean over outputs where there are several.

    NaN where all targets are equal.

    Examples
    --------
    >>> r2(np.array([1.0, 2.0, 3.0]), {"y": np.array([1.0, 2.0, 4.0])})
    0.7857142857142857
    """
    y = np.asarray(_column("r2", batch), np.float64)
    if y.shape != outputs.shape:
        raise ValueError(
            f"r2 needs one output for each target y, got outputs of shape {outputs.shape} and y of shape {y.shape}; "
            "use f1, auc or log_loss for classes."
        )
    residual = np.sum((y - np.asarray(outputs, np.float64)) ** 2, axis=0)
    total = np.sum((y - y.mean(axis=0)) ** 2, axis=0)
    return float(np.mean(1.0 - residual / total)) if np.all(total > 0) else float("nan")


def _area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return how likely a positive sample has a larger score than a negative one; ties count half."""
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return float("nan")
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    count = int(positive.sum())
    return float((ranks[which][positive].sum() - count * (count + 1) / 2.0) / pairs)


def _log_probabilities(outputs: NDArray[Any]) -> NDArray[np.float64]:
    """Return the logarithm of the probability of each class, of shape (samples, classes)."""
    scores = np.asarray(outputs, np.float64)
    if scores.ndim == 1:
        return np.stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)], axis=1)
    largest = scores - scores.max(axis=1, keepdims=True)
    return largest - np.log(np.exp(largest).sum(axis=1, keepdims=True))


def _predicted(outputs: NDArray[Any]) -> NDArray[np.int64]:
    predicted = outputs > 0 if outputs.ndim == 1 else outputs.argmax(axis=1)
    return np.asarray(predicted, np.int64)


def _labels(name: str, outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int64], int]:
    """Return the labels of the samples, and the number of classes."""
    y = np.asarray(_column(name, batch))
    classes = 2 if outputs.ndim == 1 else outputs.shape[-1]
    whole = y.astype(np.int64) if y.dtype.kind in "biuf" else None
    if outputs.ndim > 2 or y.ndim != 1 or whole is None or np.any((whole != y) | (whole < 0) | (whole >= classes)):
        raise ValueError(
            f"{name} needs one label for each sample, whole numbers from 0 to {classes - 1}, got outputs of shape "
            f"{outputs.shape} and y of shape {y.shape}; use r2 or a function of your own."
        )
    return whole, classes


def _column(name: str, batch: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    if "y" not in batch:
        raise ValueError(f"{name} needs the array y, the samples have {', '.join(batch)}; give a function of your own.")
    return batch["y"]
