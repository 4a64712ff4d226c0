"""Files in the format of LIBSVM: a line for each sample, its label and then ``index:value`` where it is not zero.

References
----------
C.-C. Chang, C.-J. Lin (2011). LIBSVM: a library for support vector machines. ACM TIST 2(3).
"""

import math
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from feddr.data import FederatedData
from feddr.data.split import Partition, Shares, assign, options_of
from feddr.datasets import files
from feddr.datasets.federate import Array, federate

MOST_CLASSES = 1000


def libsvm(
    path: str,
    partition: Partition = "iid",
    num_clients: int = 10,
    num_features: int | None = None,
    labels: Literal["classes", "numbers"] = "classes",
    first_index: int = 1,
    standardise: bool = False,
    test_share: float = 0.1,
    seed: int = 0,
    shards_per_client: int | None = None,
    labels_per_client: int | None = None,
    beta: float | None = None,
    sigma: float | None = None,
    min_samples: int | None = None,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    r"""Return the samples of a LIBSVM file, dealt out over clients.

    Parameters
    ----------
    path
        The file: plain text, ``.gz``, ``.bz2`` or ``.xz``. What follows a # is a comment.
    partition, num_clients, shards_per_client, labels_per_client, beta, sigma, min_samples
        As in ``feddr.datasets.mnist``.
    num_features
        Width of a sample; the largest index by default. Files of one set may have different largest indices.
    labels
        ``"classes"``: whole numbers, which become 0, 1, ... in their order (-1 and 1 become 0 and 1); ``"numbers"``:
        targets to predict, kept as they are.
    first_index
        1 in files of LIBSVM; 0 in some that others write.
    standardise
        Whether to centre and scale each feature by the training samples of all clients together.
    test_share, validation_share
        Of each client's samples; 0 for no such part.
    stratify
        Whether each part of a client has its labels in the same shares, up to rounding.
    seed
        Draws the partition, and which samples are for what.

    Returns
    -------
    FederatedData
        ``x``: float32, (samples, features), dense; ``y``: int32, or float32 for numbers.

    Raises
    ------
    ValueError
        With the line that is not in LIBSVM's format, or the option that does not go with the partition.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "rows.txt")
    ...     _ = file.write_text("+1 1:0.5 3:2\n-1 2:1\n")
    ...     data = libsvm(str(file), num_clients=2, test_share=0)
    >>> data.num_clients, data.train.samples["x"].shape
    (2, (2, 3))
    """
    if labels not in ("classes", "numbers"):
        raise ValueError(f'labels must be "classes" or "numbers", got {labels!r}.')
    x, targets = read_libsvm(Path(path).expanduser(), num_features, first_index)
    y: Array = targets
    classes: tuple[str, ...] = ()
    if labels == "classes":
        values, y = np.unique(targets, return_inverse=True)
        classes = tuple(f"{value:g}" for value in values)
        if np.any(values != np.floor(values)) or len(values) > MOST_CLASSES:
            raise ValueError(
                f"{path}: classes must be whole numbers, at most {MOST_CLASSES} of them, it has {len(values)} from "
                f'{values[0]:g} to {values[-1]:g}; use labels="numbers".'
            )
    options = options_of(shards_per_client, labels_per_client, beta, sigma, min_samples)
    clients = assign(y, partition, num_clients, seed, options)
    shares = Shares(test_share, validation_share, stratify, seed)
    return federate(x, y, clients, shares, standardise=standardise, classes=classes)


def read_libsvm(
    path: Path, num_features: int | None = None, first_index: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the samples as a dense array, and their labels."""
    if num_features is not None and num_features < 1:
        raise ValueError(f"num_features must be at least 1, got {num_features}.")
    if first_index not in (0, 1):
        raise ValueError(f"first_index must be 0 or 1, got {first_index}.")
    labels: list[float] = []
    rows: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float32]] = []
    largest = first_index - 1
    for number, line in enumerate(files.lines(path), 1):
        tokens = line.split("#", 1)[0].split()
        if not tokens:
            continue
        where = f"{path}, line {number}"
        try:
            pairs = [token.split(":") for token in tokens[1:]]
            label = float(tokens[0])
            index = np.array([int(i) for i, _ in pairs], np.int64)
            with np.errstate(over="ignore"):
                value = np.array([float(v) for _, v in pairs]).astype(np.float32)
        except (ValueError, OverflowError):
            raise ValueError(
                f"{where}: needs a label and pairs index:value, got {line.strip()[:60]}; it is not a file of LIBSVM."
            ) from None
        if not math.isfinite(label) or not np.isfinite(value).all():
            raise ValueError(f"{where}: label and values must be finite, got {line.strip()[:60]}.")
        if len(index) and (index[0] < first_index or np.any(np.diff(index) <= 0)):
            raise ValueError(
                f"{where}: indices must increase from {first_index}, got {index[:8].tolist()}; files that count from 0 "
                "need first_index=0."
            )
        labels.append(label)
        rows.append(index - first_index)
        values.append(value)
        largest = max(largest, int(index[-1]) if len(index) else largest)
    width = largest - first_index + 1
    if not labels or width < 1:
        raise ValueError(f"{path}: has no samples with features.")
    if num_features is not None and width > num_features:
        raise ValueError(f"{path}: num_features must be at least its largest index, {width}, got {num_features}.")
    width = width if num_features is None else num_features
    if 4 * width * len(labels) > files.LIMIT:
        raise ValueError(
            f"{path}: {len(labels):,} samples of {width:,} features need {4 * width * len(labels):,} bytes as a dense "
            f"array, at most {files.LIMIT:,} are given; choose features or samples first."
        )
    x = np.zeros((len(labels), width), np.float32)
    for i, (index, value) in enumerate(zip(rows, values, strict=True)):
        x[i, index] = value
    return x, np.array(labels)
