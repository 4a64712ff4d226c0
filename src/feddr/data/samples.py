"""Samples of clients: all of them in one array one client after the other, or made when they are needed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def concatenate(clients: Sequence[Mapping[str, ArrayLike]], part: str) -> ClientSamples:
    """Return the samples of all clients, one client after the other; ``part`` names them in messages."""
    if len(clients) == 0:
        raise ValueError(f"A federation needs at least one client, got an empty list for {part}.")
    if isinstance(clients, Mapping):
        raise ValueError(
            "Clients must be a list, with a mapping of arrays for each, got a mapping of "
            f"{', '.join(map(repr, list(clients)[:3]))}; give list(clients.values()), or from_arrays(X, y, "
            "clients=names)."
        )
    for i, client in enumerate(clients):
        if not isinstance(client, Mapping):
            raise ValueError(
                f"Every client needs a mapping of named arrays, {part} client {i} is a {type(client).__name__}; give "
                "{'x': ..., 'y': ...}."
            )
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


def gather(samples: Samples, clients: Sequence[NDArray[np.int64]]) -> ClientSamples:
    """Copy the rows of all clients, one client after the other, once."""
    rows = np.concatenate(clients)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in clients])]).astype(np.int64)
    return ClientSamples({name: array[rows] for name, array in samples.items()}, offsets)
