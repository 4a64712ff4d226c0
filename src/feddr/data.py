"""Federated data: the samples of all clients in one array, with the offsets where each client begins.

Clients may differ in size by any factor; nothing is padded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Samples = dict[str, NDArray[np.generic]]
"""Named arrays with one row for each sample."""


@dataclass(frozen=True)
class Part:
    """The samples of all clients, one client after the other.

    Client i owns the rows ``offsets[i]`` to ``offsets[i + 1]`` of every array.
    """

    samples: Samples
    offsets: NDArray[np.int64]

    @property
    def num_clients(self) -> int:
        """Number of clients n."""
        return len(self.offsets) - 1

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
class FederatedData:
    """Training samples of each client and, where there are any, test samples.

    Examples
    --------
    >>> import numpy as np
    >>> data = FederatedData.from_clients([{"x": np.eye(2), "y": [0, 1]}, {"x": np.ones((1, 2)), "y": [1]}])
    >>> data.num_clients, data.train.sizes.tolist()
    (2, [2, 1])
    """

    train: Part
    test: Part | None = None

    def __post_init__(self) -> None:
        if self.test is not None and self.test.num_clients != self.train.num_clients:
            raise ValueError(
                f"Training and test parts must have the same clients, got {self.train.num_clients} and "
                f"{self.test.num_clients}; a client without test samples gets an empty test part."
            )

    @property
    def num_clients(self) -> int:
        """Number of clients n."""
        return self.train.num_clients

    @classmethod
    def from_clients(
        cls, train: Sequence[Mapping[str, ArrayLike]], test: Sequence[Mapping[str, ArrayLike]] | None = None
    ) -> "FederatedData":
        """Build a federation from one mapping of named arrays for each client.

        Parameters
        ----------
        train
            For each client, arrays with one row a sample: ``{"x": ..., "y": ...}``. Every client has the same names
            and at least one sample.
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


def _concatenate(clients: Sequence[Mapping[str, ArrayLike]], part: str) -> Part:
    if len(clients) == 0:
        raise ValueError(f"A federation needs at least one client, got an empty list for {part}.")
    names = sorted(clients[0])
    if not names:
        raise ValueError(f"Every client needs at least one named array, {part} client 0 has none; give {{'x': ...}}.")
    arrays: dict[str, list[NDArray[np.generic]]] = {name: [] for name in names}
    sizes = []
    for i, client in enumerate(clients):
        if sorted(client) != names:
            raise ValueError(f"Every client needs the arrays {names}, {part} client {i} has {sorted(client)}.")
        rows = {name: np.asarray(client[name]) for name in names}
        lengths = {name: array.shape[0] if array.ndim else None for name, array in rows.items()}
        if None in lengths.values() or len(set(lengths.values())) != 1:
            raise ValueError(f"The arrays of a client need one row a sample, {part} client {i} has lengths {lengths}.")
        for name, array in rows.items():
            first = arrays[name][0] if arrays[name] else array
            if array.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"Samples of all clients need one shape, {part} client {i} has {name} of shape {array.shape[1:]}, "
                    f"client 0 has {first.shape[1:]}."
                )
            arrays[name].append(array)
        sizes.append(len(rows[names[0]]))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Part({name: np.concatenate(parts) for name, parts in arrays.items()}, offsets)
