"""From samples and a partition to a federation: parts of each client's samples are for testing and validation."""

import math
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feddr.data import ClientSamples, FederatedData
from feddr.data.partition import Indices
from feddr.data.split import Shares, generator
from feddr.preparation import NumericColumn, Preparation
from feddr.preparation.common import array_scaling
from feddr.validation.arrays import pixels

Array = NDArray[np.generic]


def federate(
    x: Array,
    y: Array,
    clients: Sequence[Indices],
    shares: Shares,
    *,
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
    shares
        Of each client's samples for testing and for validation.
    standardise
        Whether to subtract the mean of each feature and divide by its standard deviation, both over the training
        samples of all clients.
    """
    rows = shares.split(clients, y)
    if not standardise and not features:
        train, validation, test = (None if part is None else gather(x, y, part) for part in rows)
        assert train is not None
        return FederatedData(train, test, classes=tuple(classes), clients=tuple(names), validation=validation)
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
