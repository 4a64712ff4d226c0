"""What a federation looks like in numbers: sizes, labels, and how far each client's labels are from everyone's."""

import csv
import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feddr.data import ClientSamples, FederatedData

BINS = 10
"""Columns of the histogram where labels are numbers to predict."""


@dataclass(frozen=True)
class Summary:
    """Sizes and labels of each client.

    Parameters
    ----------
    clients
        Names of the clients.
    train, test
        Number of samples of each client.
    num_features
        Width of a sample.
    columns
        Names of the classes, or of ranges of the number to predict.
    counts
        Training samples of each client in each column.
    are_classes
        Whether the columns are classes.
    validation
        Number of validation samples of each client; empty where there is no such part.
    """

    clients: tuple[str, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    num_features: int
    columns: tuple[str, ...]
    counts: NDArray[np.int64]
    are_classes: bool
    validation: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each column in the training samples of each client."""
        shares: NDArray[np.float64] = self.counts / self.counts.sum(axis=1, keepdims=True)
        return shares

    @cached_property
    def skew(self) -> NDArray[np.float64]:
        """Total variation distance between the labels of each client and those of all: 0 alike, 1 nothing in common.

        It is half the sum over the classes of the absolute difference of their shares.
        """
        skew: NDArray[np.float64] = 0.5 * np.abs(self.shares - self._pooled).sum(axis=1)
        return skew

    @cached_property
    def skew_by_chance(self) -> NDArray[np.float64]:
        """The mean of the same if each client had drawn as many labels at random from those of all."""
        sizes, places = np.unique(self.train, return_inverse=True)
        expected = [0.5 * sum(_mean_deviation(int(n), float(p)) for p in self._pooled) for n in sizes]
        return np.array(expected)[places]

    @property
    def _pooled(self) -> NDArray[np.float64]:
        total = self.counts.sum(axis=0)
        pooled: NDArray[np.float64] = total / total.sum()
        return pooled

    def to_csv(self, path: str | Path) -> None:
        """Write a line for each client: its samples, its label skew, and its training samples in each column."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["client", "train", "test", "label_skew", *self.columns])
            for i, name in enumerate(self.clients):
                writer.writerow([name, self.train[i], self.test[i], f"{self.skew[i]:.6g}", *self.counts[i]])


def summarise(data: FederatedData) -> Summary:
    """Return the summary of a federation with features ``x`` and labels ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = {"x": np.ones((2, 3)), "y": np.array([0, 0])}, {"x": np.ones((2, 3)), "y": np.array([1, 1])}
    >>> summarise(FederatedData.from_clients([a, b])).skew.tolist()
    [0.5, 0.5]
    """
    missing = sorted({"x", "y"} - set(data.train.samples))
    if missing:
        raise ValueError(f"A summary needs the arrays x and y, the data have no {missing[0]}.")
    names, classes = data.clients, data.classes
    y = data.train.samples["y"]
    are_classes = np.issubdtype(y.dtype, np.integer) and int(y.min(initial=0)) >= 0
    if are_classes:
        parts = [part for part in (data.train, data.validation, data.test) if part is not None]
        largest = max(int(part.samples["y"].max(initial=0)) for part in parts)
        codes, width = y.astype(np.int64), max(largest + 1, len(classes))
        columns = tuple(map(str, classes)) or tuple(map(str, range(width)))
    else:
        codes, columns = _bins(y.astype(np.float64))
        width = len(columns)
    return Summary(
        clients=names or tuple(f"client {i}" for i in range(data.train.num_clients)),
        train=data.train.sizes,
        test=np.zeros(data.train.num_clients, np.int64) if data.test is None else data.test.sizes,
        num_features=int(np.prod(data.train.samples["x"].shape[1:])),
        columns=columns,
        counts=_histograms(data.train, codes, width),
        are_classes=bool(are_classes),
        validation=np.zeros(0, np.int64) if data.validation is None else data.validation.sizes,
    )


def _histograms(part: ClientSamples, codes: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    owner = np.repeat(np.arange(part.num_clients), part.sizes)
    return np.bincount(owner * width + codes, minlength=part.num_clients * width).reshape(part.num_clients, width)


def _bins(y: NDArray[np.float64]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the range of each number, of BINS ranges of one width, and their names."""
    edges = np.linspace(y.min(), y.max(), BINS + 1)
    codes = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, BINS - 1)
    return codes, tuple(f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(edges))


def _mean_deviation(n: int, p: float) -> float:
    """Return E |X / n - p| for X ~ binomial(n, p), by de Moivre's formula."""
    if p <= 0 or p >= 1:
        return 0.0
    m = min(math.floor(n * p) + 1, n)  # the least number above the mean
    log_choose = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
    return 2 * m / n * math.exp(log_choose + m * math.log(p) + (n - m + 1) * math.log1p(-p))
