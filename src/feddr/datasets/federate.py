"""From samples and a partition to a federation: every client keeps a part of its own samples for testing."""

import math
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from feddr.data import ClientSamples, FederatedData, Samples
from feddr.datasets import partition
from feddr.datasets.partition import Indices

Partition = Literal["iid", "shards", "dirichlet", "quantity", "few_labels"]
Array = NDArray[np.generic]

OPTIONS: dict[str, tuple[str, ...]] = {
    "iid": (),
    "shards": ("shards_per_client",),
    "dirichlet": ("beta", "min_samples"),
    "quantity": ("sigma", "min_samples"),
    "few_labels": ("labels_per_client", "sigma"),
}
"""What each partition may be told."""


def assign(labels: Array, by: str, num_clients: int, seed: int, **options: float | None) -> list[Indices]:
    """Call the partition of this name with the options that are not None, and refuse those that it does not have."""
    if by not in OPTIONS:
        raise ValueError(f"partition must be one of {', '.join(OPTIONS)}, got {by!r}.")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    check_options(by, given, OPTIONS[by])
    if given.get("min_samples") == 0:
        raise ValueError("min_samples must be at least 1, got 0; a client without samples cannot take part.")
    found: list[Indices] = getattr(partition, by)(labels, num_clients, seed=seed, **given)
    return found


def check_options(by: str, options: dict[str, Any], allowed: Sequence[str] = ()) -> None:
    """Refuse an option that would have no effect."""
    for name, value in options.items():
        if value is not None and name not in allowed:
            able = " or ".join(f'"{other}"' for other, names in OPTIONS.items() if name in names)
            raise ValueError(f'{name} is for partition={able}, got {name}={value} with "{by}"; leave out one of them.')


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
    train, test = split(clients, test_share, seed)
    parts = [gather(x, y, rows) for rows in (train, test) if rows is not None]
    if standardise:
        _standardise([part.samples["x"] for part in parts])
    return FederatedData(
        parts[0],
        parts[1] if len(parts) > 1 else None,
        features=tuple(features),
        classes=tuple(classes),
        clients=tuple(names),
    )


def split(clients: Sequence[Indices], test_share: float, seed: int) -> tuple[list[Indices], list[Indices] | None]:
    """Split off a share of each client's samples; client i's draw depends on (seed, i) alone."""
    if not 0 <= test_share < 1:
        raise ValueError(f"test_share must be at least 0 and below 1, got {test_share}.")
    train, test = [], []
    for i, rows in enumerate(clients):
        if len(rows) == 0:
            raise ValueError(f"Every client needs samples, client {i} has none; leave it out or take fewer clients.")
        mixed = _generator(seed, 62, i).permutation(rows)
        cut = len(rows) - min(math.floor(test_share * len(rows) + 0.5), len(rows) - 1)
        train.append(mixed[:cut])
        test.append(mixed[cut:])
    return train, test if test_share > 0 else None


def gather(x: Array, y: Array, clients: Sequence[Indices]) -> ClientSamples:
    """Copy the samples of all clients, one client after the other, once."""
    rows = np.concatenate(clients)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in clients])]).astype(np.int64)
    samples: Samples = {"x": pixels(x[rows].reshape(len(rows), math.prod(x.shape[1:]))), "y": _labels(y[rows])}
    return ClientSamples(samples, offsets)


def pixels(x: Array) -> NDArray[np.float32]:
    """Return numbers as float32, bytes as float32 from 0 to 1."""
    if x.dtype == np.uint8:
        return np.divide(x, np.float32(255), dtype=np.float32)
    return x.astype(np.float32, copy=False)


def _labels(y: Array) -> Array:
    return y.astype(np.int32 if np.issubdtype(y.dtype, np.integer) else np.float32)


def _standardise(parts: Sequence[NDArray[Any]]) -> None:
    mean = parts[0].mean(axis=0, dtype=np.float64)
    deviation = parts[0].std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0
    for x in parts:
        x -= mean.astype(np.float32)
        x /= deviation.astype(np.float32)


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
    return np.sort(_generator(seed, 63).choice(total, wanted, replace=False))


def _generator(seed: int, *key: int) -> np.random.Generator:
    """Return a stream of its own for each key; 62 and 63 set these apart from those of others with the same seed."""
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"The seed must be a whole number >= 0, got {seed}.")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=key))
