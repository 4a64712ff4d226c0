"""Ready-made metrics, each a function of (outputs, batch) over all samples of a part."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.metrics.outputs import labels, log_probabilities
from feddr.metrics.sums import SUMS


def f1(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), over classes that occur or are predicted (macro F1).

    Examples
    --------
    >>> f1(np.array([1.0, -1.0, 2.0]), {"y": np.array([1, 0, 0])})
    0.6666666666666666
    """
    return SUMS["f1"](outputs, batch)


def auc(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the area under the ROC curve; of several classes the mean of each against the rest.

    Classes that no sample has, or all have, are left out; NaN where that leaves none.

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), {"y": np.array([0, 0, 1, 1])})
    0.75
    """
    y, _classes = labels("auc", outputs, batch)
    if outputs.ndim == 1:
        return _area(np.asarray(outputs, np.float64), y == 1)
    scores = log_probabilities(outputs)
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
    return SUMS["log_loss"](outputs, batch)


def calibration_error(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return the expected calibration error (ECE): the mean gap between confidence and accuracy, over 15 bins.

    The confidence is the probability of the predicted class; bins have equal width, and weigh by their samples.

    Examples
    --------
    >>> round(calibration_error(np.array([30.0, 30.0]), {"y": np.array([1, 0])}), 6)  # sure of both, right in one
    0.5
    """
    return SUMS["calibration_error"](outputs, batch)


def r2(outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> float:
    """Return 1 - sum (y - output)^2 / sum (y - mean y)^2; the mean over outputs where there are several.

    NaN where all targets are equal.

    Examples
    --------
    >>> r2(np.array([1.0, 2.0, 3.0]), {"y": np.array([1.0, 2.0, 4.0])})
    0.7857142857142857
    """
    return SUMS["r2"](outputs, batch)


def _area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return how likely a positive sample has a larger score than a negative one; ties count half."""
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return float("nan")
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    count = int(positive.sum())
    return float((ranks[which][positive].sum() - count * (count + 1) / 2.0) / pairs)
