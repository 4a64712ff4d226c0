"""Federated data: the samples of all clients in one array, with the offsets where each client begins.

Clients may differ in size by any factor; nothing is padded. A federation that does not fit, or need not be there at
once, makes the samples of a client when they are needed.
"""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.display import Card, as_html, as_text
from feddr.validation import arrays

Samples = dict[str, NDArray[np.generic]]
"""Named arrays with one row for each sample."""


@dataclass(frozen=True)
class ClientSamples:
    """The samples of all clients, one client after the other.

    Client i owns the rows ``offsets[i]`` to ``offsets[i + 1]`` of every array.

    Examples
    --------
    >>> part = ClientSamples({"x": np.arange(3.0)}, offsets=np.array([0, 2, 3]))
    >>> part.sizes.tolist(), part.client(1)["x"].tolist()
    ([2, 1], [2.0])
    """

    samples: Samples
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        samples = {name: arrays.samples(name, array) for name, array in self.samples.items()}
        object.__setattr__(self, "samples", samples)
        if self.num_samples > arrays.WHOLE.max:  # the simulator counts them in 32 bits
            raise ValueError(
                f"A federation holds at most {arrays.WHOLE.max:,} samples, got {self.num_samples:,}; use "
                "FederatedData.generated."
            )

    @property
    def num_clients(self) -> int:
        """Number of clients n."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"ClientSamples({self.num_samples} samples of {self.num_clients} clients: {', '.join(self.samples)})"

    @property
    def num_samples(self) -> int:
        """Number of samples of all clients together."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of samples of each client."""
        return np.diff(self.offsets)

    def client(self, i: int) -> Samples:
        """Return the samples of client i (views, not copies)."""
        rows = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return {name: array[rows] for name, array in self.samples.items()}


@dataclass(frozen=True)
class OnDemand:
    """Where the samples of a client come from when they are needed.

    Parameters
    ----------
    make
        From a client to its samples, the same whenever it is asked.
    sizes
        Number of samples of each client.
    panel
        The clients that metrics are computed on, in increasing order.

    Examples
    --------
    >>> made = OnDemand(lambda i: {"x": np.full(2, float(i))}, sizes=np.array([2, 2]), panel=np.array([0]))
    >>> made.client(1)["x"].tolist()
    [1.0, 1.0]
    """

    make: Callable[[int], Mapping[str, ArrayLike]]
    sizes: NDArray[np.int64]
    panel: NDArray[np.int64]

    def client(self, i: int) -> Samples:
        """Make the samples of client i."""
        samples = {name: arrays.samples(f"{name} of client {i}", array) for name, array in self.make(i).items()}
        lengths = {name: len(array) if array.ndim else None for name, array in samples.items()}
        if set(lengths.values()) != {int(self.sizes[i])}:
            raise ValueError(f"Client {i} was said to have {self.sizes[i]} samples, but arrays of {lengths} were made.")
        return samples


@dataclass(frozen=True)
class FederatedData:
    """Training samples of each client and, where there are any, test samples.

    Parameters
    ----------
    train, test
        The samples in memory: those of all clients, or of the panel where the rest are made on demand.
    on_demand
        Where the samples of all clients come from, None where they are in memory.

    Examples
    --------
    >>> import numpy as np
    >>> data = FederatedData.from_clients([{"x": np.eye(2), "y": [0, 1]}, {"x": np.ones((1, 2)), "y": [1]}])
    >>> data.num_clients, data.train.sizes.tolist()
    (2, [2, 1])
    """

    train: ClientSamples
    test: ClientSamples | None = None
    on_demand: OnDemand | None = None

    def __post_init__(self) -> None:
        if self.test is not None and self.test.num_clients != self.train.num_clients:
            raise ValueError(
                f"Training and test parts must have the same clients, got {self.train.num_clients} and "
                f"{self.test.num_clients}; a client without test samples gets an empty test part."
            )

    @property
    def num_clients(self) -> int:
        """Number of clients n."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of training samples of each client."""
        return self.train.sizes if self.on_demand is None else self.on_demand.sizes

    @property
    def panel(self) -> NDArray[np.int64]:
        """The clients that metrics are computed on: all of them, unless samples are made on demand."""
        return np.arange(self.train.num_clients) if self.on_demand is None else self.on_demand.panel

    def _card(self) -> Card:
        test = "" if self.test is None else f", {self.test.num_samples:,} for tests"
        arrays_ = (f"{name} {array.dtype}{list(array.shape[1:]) or ''}" for name, array in self.train.samples.items())
        facts = {
            "clients": f"{self.num_clients:,}",
            "samples": f"{int(self.sizes.sum()):,} for training{test}",
            "of a client": f"{self.sizes.min():,} to {self.sizes.max():,}, median {np.median(self.sizes):,.0f}",
            "a sample": ", ".join(arrays_),
        }
        return Card("FederatedData", facts, {"samples of each client, sorted": np.sort(self.sizes)[::-1].tolist()})

    __repr__, _repr_html_ = as_text, as_html

    def client(self, i: int) -> Samples:
        """Return the training samples of client i."""
        return self.train.client(i) if self.on_demand is None else self.on_demand.client(i)

    @classmethod
    def generated(
        cls,
        make: Callable[[int], Mapping[str, ArrayLike]],
        sizes: ArrayLike,
        panel: int | Sequence[int] = 1000,
        seed: int = 0,
    ) -> "FederatedData":
        """Build a federation whose clients make their samples when they take part: a million of them fit anywhere.

        Parameters
        ----------
        make
            From a client to its named arrays, the same whenever it is asked.
        sizes
            Number of samples of each client.
        panel
            The clients that metrics are computed on, or how many are drawn at random for that: F, the accuracies and
            the gradient mapping are then those of the panel, with weights scaled to sum to one. Certificates and
            recommended step sizes are about all clients, and make the samples of each.
        seed
            Draws the panel.

        Examples
        --------
        >>> import numpy as np
        >>> def make(i):
        ...     rng = np.random.default_rng(i)
        ...     return {"x": rng.normal(size=(3, 2)), "y": rng.integers(0, 2, 3)}
        >>> data = FederatedData.generated(make, sizes=np.full(1_000_000, 3), panel=100)
        >>> data.num_clients, data.train.num_samples
        (1000000, 300)
        """
        counts = _whole("sizes", sizes)
        n = len(counts)
        if n == 0 or np.any(counts < 1):
            raise ValueError(f"Every client needs at least one training sample, got {counts.min(initial=0)}.")
        if isinstance(panel, Integral):
            if panel < 1:
                raise ValueError(f"The panel needs at least one client, got {panel}.")
            panel = np.random.default_rng(seed).choice(n, min(int(panel), n), replace=False).tolist()
        chosen = np.unique(_whole("panel", panel))
        if len(chosen) == 0 or chosen[0] < 0 or chosen[-1] >= n:
            raise ValueError(f"The panel must be clients from 0 to {n - 1}, got {panel}.")
        source = OnDemand(make, counts, chosen)
        return cls(_concatenate([source.client(int(i)) for i in chosen], "panel"), on_demand=source)

    @classmethod
    def from_clients(
        cls, train: Sequence[Mapping[str, ArrayLike]], test: Sequence[Mapping[str, ArrayLike]] | None = None
    ) -> "FederatedData":
        """Build a federation from one mapping of named arrays for each client.

        Parameters
        ----------
        train
            For each client, arrays or tables with one row a sample: ``{"x": ..., "y": ...}``. Every client has the same
            names and at least one sample. Real numbers of any type, truth values and whole numbers of 32 bits.
        test
            The same for test samples; a client may have none.
        """
        part = _concatenate(train, "train")
        empty = np.flatnonzero(part.sizes == 0)
        if len(empty):
            raise ValueError(
                f"Every client needs at least one training sample, client {empty[0]} has none; leave it out."
            )
        return cls(part, None if test is None else _concatenate(test, "test"))


def _concatenate(clients: Sequence[Mapping[str, ArrayLike]], part: str) -> ClientSamples:
    if len(clients) == 0:
        raise ValueError(f"A federation needs at least one client, got an empty list for {part}.")
    names = sorted(clients[0])
    if not names:
        raise ValueError(f"Every client needs at least one named array, {part} client 0 has none; give {{'x': ...}}.")
    pieces: dict[str, list[NDArray[np.generic]]] = {name: [] for name in names}
    sizes = []
    for i, client in enumerate(clients):
        if sorted(client) != names:
            raise ValueError(f"Every client needs the arrays {names}, {part} client {i} has {sorted(client)}.")
        rows = {name: arrays.samples(f"{name} of {part} client {i}", client[name]) for name in names}
        lengths = {name: array.shape[0] if array.ndim else None for name, array in rows.items()}
        if None in lengths.values() or len(set(lengths.values())) != 1:
            raise ValueError(f"The arrays of a client need one row a sample, {part} client {i} has lengths {lengths}.")
        for name, array in rows.items():
            first = pieces[name][0] if pieces[name] else array
            if array.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"Samples of all clients need one shape, {part} client {i} has {name} of shape {array.shape[1:]}, "
                    f"client 0 has {first.shape[1:]}."
                )
            pieces[name].append(array)
        sizes.append(len(rows[names[0]]))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return ClientSamples({name: np.concatenate(parts) for name, parts in pieces.items()}, offsets)


def _whole(what: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return a list of whole numbers as an array."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iuf" or not np.array_equal(given, np.floor(given)):
        raise ValueError(f"{what} must be whole numbers, one a client, got {reprlib.repr(values)}; round them first.")
    return given.astype(np.int64)
