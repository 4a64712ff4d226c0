"""Which rows go where: a partition by name, and the training, validation and test rows of each client."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr.data import partition
from feddr.data.partition import Indices

Partition = Literal["iid", "shards", "dirichlet", "quantity", "few_labels"]
Array = NDArray[np.generic]

OPTIONS: dict[str, tuple[str, ...]] = {
    "iid": (),
    "shards": ("shards_per_client",),
    "dirichlet": ("beta", "min_samples"),
    "quantity": ("sigma", "min_samples"),
    "few_labels": ("labels_per_client", "sigma"),
}
"""The options of each partition."""


def assign(labels: Array, by: str, num_clients: int, seed: int, options: dict[str, Any]) -> list[Indices]:
    """Call the partition of this name with its options, and refuse those that it does not have."""
    if by not in OPTIONS:
        raise ValueError(f"partition must be one of {', '.join(OPTIONS)}, got {by!r}.")
    check_options(by, options, OPTIONS[by])
    if options.get("min_samples") == 0:
        raise ValueError("min_samples must be at least 1, got 0; a client without samples cannot take part.")
    rows: list[Indices] = getattr(partition, by)(labels, num_clients, seed=seed, **options)
    return rows


def options_of(
    shards_per_client: int | None,
    labels_per_client: int | None,
    beta: float | None,
    sigma: float | None,
    min_samples: int | None,
) -> dict[str, Any]:
    """Return the options of partitions that are not None, by name."""
    return {name: value for name, value in locals().items() if value is not None}


def check_options(by: str, options: dict[str, Any], allowed: Sequence[str] = ()) -> None:
    """Refuse an option that would have no effect."""
    for name, value in options.items():
        if name not in allowed:
            able = " or ".join(f'"{other}"' for other, names in OPTIONS.items() if name in names)
            raise ValueError(f'{name} is for partition={able}, got {name}={value} with "{by}"; leave out one of them.')


class SplitRows(NamedTuple):
    """The rows of each client, for training and, where there are such parts, for validation and testing."""

    train: list[Indices]
    validation: list[Indices] | None
    test: list[Indices] | None


def split(
    clients: Sequence[Indices],
    test_share: float,
    seed: int,
    validation_share: float = 0.0,
    labels: Array | None = None,
    first_client: int = 0,
) -> SplitRows:
    """Split off shares of each client's samples; client i's draw depends on (seed, i) alone.

    Parameters
    ----------
    clients
        The rows of each client.
    test_share, validation_share
        Of each client's rows, rounded; at least one row is left for training. The test rows do not depend on how many
        are for validation.
    labels
        For stratified parts: one whole number for each row of the table. Each label of a client then has its share in
        each part, up to one row or so.
    first_client
        The number i of the first of these clients; a site that has one client's rows alone draws what all would draw.
    """
    for name, share in (("test_share", test_share), ("validation_share", validation_share)):
        if not 0 <= share < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, got {share}.")
    if test_share + validation_share >= 1:
        raise ValueError(
            f"test_share and validation_share must leave some for training, got {test_share} + {validation_share}."
        )
    parts = SplitRows([], [], [])
    for i, rows in enumerate(clients, first_client):
        if len(rows) == 0:
            raise ValueError(f"Every client needs samples, client {i} has none; leave it out or take fewer clients.")
        mixed = generator(seed, 62, i).permutation(rows)
        if labels is not None:
            mixed = mixed[_spread(labels[mixed])]
        cut = len(rows) - min(math.floor(test_share * len(rows) + 0.5), len(rows) - 1)
        first = cut - min(math.floor(validation_share * len(rows) + 0.5), cut - 1)
        for part, piece in zip(parts, (mixed[:first], mixed[first:cut], mixed[cut:]), strict=True):
            assert part is not None
            part.append(piece)
    return SplitRows(
        parts.train, parts.validation if validation_share > 0 else None, parts.test if test_share > 0 else None
    )


@dataclass(frozen=True)
class Shares:
    """How much of each client's samples is for testing and for validation, and how these are drawn.

    Parameters
    ----------
    test, validation
        Of each client's samples, rounded; at least one is left for training.
    stratify
        Whether each part of a client has its labels in the same shares, up to rounding.
    seed
        Draws which samples are for what.

    Examples
    --------
    >>> rows = Shares(test=0.25, validation=0.25).split([np.arange(8)])
    >>> [len(part[0]) for part in rows]
    [4, 2, 2]
    """

    test: float = 0.0
    validation: float = 0.0
    stratify: bool = False
    seed: int = 0

    def split(self, clients: Sequence[Indices], labels: Array | None = None) -> SplitRows:
        """Return the rows of each part; labels, one for each row, are whole numbers where they are classes.

        Raises
        ------
        ValueError
            Where a share is out of range, or where numbers to predict are to be stratified.
        """
        strata = None
        if self.stratify:
            if labels is None or labels.dtype.kind == "f":
                raise ValueError("stratify needs classes, got a regression; leave one of them out.")
            strata = labels
        return split(clients, self.test, self.seed, self.validation, strata)


def _spread(labels: Array) -> Indices:
    """Return an order in which every run of rows has each label about as often as all rows have it.

    The r-th row of a label with n rows goes to (r + 1/2) / n of the way.
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    ranks = np.empty(len(codes))
    ranks[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.argsort((ranks + 0.5) / counts[codes], kind="stable").astype(np.int64)


def generator(seed: int, *key: int) -> np.random.Generator:
    """Return a stream of its own for each key; 62 and 63 set these apart from those of others with the same seed."""
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"The seed must be a whole number >= 0, got {seed}.")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=key))
