"""What outputs and labels say: predicted classes, log-probabilities, and labels that are checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def log_probabilities(outputs: NDArray[Any]) -> NDArray[np.float64]:
    """Return the logarithm of the probability of each class, of shape (samples, classes).

    Examples
    --------
    >>> np.exp(log_probabilities(np.array([0.0]))).tolist()
    [[0.5, 0.5]]
    """
    scores = np.asarray(outputs, np.float64)
    if scores.ndim == 1:
        return np.stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)], axis=1)
    largest = scores - scores.max(axis=1, keepdims=True)
    return largest - np.log(np.exp(largest).sum(axis=1, keepdims=True))


def predicted(outputs: NDArray[Any]) -> NDArray[np.int64]:
    """Return the predicted class of each sample: the largest output, or 1 where the only one is above 0.

    Examples
    --------
    >>> predicted(np.array([0.5, -0.5])).tolist()
    [1, 0]
    """
    classes = outputs > 0 if outputs.ndim == 1 else outputs.argmax(axis=1)
    return np.asarray(classes, np.int64)


def labels(name: str, outputs: NDArray[Any], batch: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int64], int]:
    """Return the labels of the samples, and the number of classes.

    Raises
    ------
    ValueError
        Where there are no labels, or they are not classes that the outputs have; it names the metric.

    Examples
    --------
    >>> y, classes = labels("f1", np.zeros((2, 3)), {"y": np.array([2, 0])})
    >>> y.tolist(), classes
    ([2, 0], 3)
    """
    y = np.asarray(column(name, batch))
    classes = 2 if outputs.ndim == 1 else outputs.shape[-1]
    whole = y.astype(np.int64) if y.dtype.kind in "biuf" else None
    if outputs.ndim > 2 or y.ndim != 1 or whole is None or np.any((whole != y) | (whole < 0) | (whole >= classes)):
        raise ValueError(
            f"{name} needs one label for each sample, whole numbers from 0 to {classes - 1}, got outputs of shape "
            f"{outputs.shape} and y of shape {y.shape}; use r2 or a function of your own."
        )
    return whole, classes


def column(name: str, batch: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return y, which the metric of this name needs.

    Raises
    ------
    ValueError
        Where there is none.

    Examples
    --------
    >>> column("r2", {"y": np.array([0.5])}).tolist()
    [0.5]
    """
    if "y" not in batch:
        raise ValueError(f"{name} needs the array y, the samples have {', '.join(batch)}; give a function of your own.")
    return batch["y"]
