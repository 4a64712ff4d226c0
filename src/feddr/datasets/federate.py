"""From samples and a partition to a federation: every client keeps a part of its own samples for testing."""

import math
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feddr.data import ClientSamples, FederatedData
from feddr.data.partition import Indices
from feddr.data.split import generator, split
from feddr.preparation import NumericColumn, Preparation
from feddr.preparation.common import array_scaling
from feddr.validation.arrays import pixels

Array = NDArray[np.generic]


def federate(
    x: Array,
    y: Array,
    clients: Sequence[Indices],
    *,
    test_share: float,
    seed: int,
    standardise: bool = False,
    features: Sequence[str] = (),
    classes: Sequence[str] = (),
    names: Sequence[str] = (),
) -> FederatedData:
    """Return the federation in which client i has the samples ``clients[i]``.

    Parameters
    ----------
    x, y
        One row for each sample. Bytes are pixels and become numbers from 0 to 1; whole numbers in y become int32, and
        all other numbers float32.
    test_share
        Of each client's samples, drawn at random; at least one is left for training. 0 for no test part.
    standardise
        Whether to subtract the mean of each feature and divide by its standard deviation, both over the training
        samples of all clients.
    """
    rows = split(clients, test_share, seed)
    if not standardise and not features:
        test = None if rows.test is None else gather(x, y, rows.test)
        return FederatedData(gather(x, y, rows.train), test, classes=tuple(classes), clients=tuple(names))
    columns = tuple(map(NumericColumn, features or (f"x{j}" for j in range(x.shape[1]))))
    mean, scale = array_scaling(x, np.concatenate(rows.train)) if standardise else ((), ())
    preparation = Preparation(columns, mean, scale, classes=tuple(classes))
    return FederatedData.from_rows({"x": preparation.transform(x), "y": _labels(y)}, rows, names, preparation)


def gather(x: Array, y: Array, clients: Sequence[Indices]) -> ClientSamples:
    """Copy the samples of all clients, one client after the other, once."""
    rows = np.concatenate(clients)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in clients])]).astype(np.int64)
    features = pixels("x", x[rows].reshape(len(rows), math.prod(x.shape[1:])))
    return ClientSamples({"x": features, "y": _labels(y[rows])}, offsets)


def _labels(y: Array) -> Array:
    return y.astype(np.int32 if np.issubdtype(y.dtype, np.integer) else np.float32)


def check_labels(where: Path | str, y: Array, num_classes: int) -> None:
    """Refuse a file with labels that are not 0, 1, ..., num_classes - 1."""
    numbers = y.astype(np.float64)
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < num_classes) & (numbers == np.floor(numbers))))
    if len(wrong):
        raise ValueError(
            f"{where}: labels must be whole numbers from 0 to {num_classes - 1}, sample {wrong[0]} has "
            f"{numbers[wrong[0]]:g}; it is another file, or a damaged one."
        )


def draw(total: int, wanted: int | None, seed: int, what: str) -> Indices:
    """Return which of ``total`` clients take part: all of them, or so many drawn at random."""
    if wanted is None:
        return np.arange(total)
    if not isinstance(wanted, Integral) or not 1 <= wanted <= total:
        raise ValueError(f"num_clients must lie in 1..{total}, the number of {what}, got {wanted}.")
    return np.sort(generator(seed, 63).choice(total, wanted, replace=False))
