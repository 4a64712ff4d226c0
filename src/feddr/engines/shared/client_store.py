"""Client states of those who took part: in memory up to a budget, beyond it in a memory-mapped file."""

import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from feddr.validation import scalars

BUDGET = 2 * 2**30
"""Bytes of client state that are kept in memory unless a run says otherwise."""

SEGMENT = 64 * 2**20
"""Bytes of a file, at least; a file never grows, so that nothing moves while another thread reads."""


class ClientStore(MutableMapping[int, Any]):
    """A mapping from clients to their states that grows with the clients seen, not with the federation.

    States have one structure: the same arrays, of the same shapes, for every client. The first clients stay in memory;
    those that do not fit any more lie in unnamed temporary files, which end with the process. A state that is read
    from there is a copy.

    Parameters
    ----------
    budget
        Bytes in memory, at most.
    folder
        Where the files lie; the system's temporary folder by default.
    """

    def __init__(self, budget: int = BUDGET, folder: Path | None = None) -> None:
        self.budget, self.folder = scalars.whole("client_memory", budget, 0, "it is in bytes"), folder
        self._memory: dict[int, Any] = {}
        self._places: dict[int, int] = {}
        self._segments: list[NDArray[Any]] = []
        self._record = np.dtype([])
        self._structure: Any = None
        self._plain: list[bool] = []

    def __getitem__(self, client: int) -> Any:
        slot = self._places.get(client)
        if slot is None:
            return self._memory[client]
        row = self._row(slot)
        pairs = zip(self._plain, row.dtype.names, strict=True)
        return jax.tree.unflatten(
            self._structure, [row[name].item() if plain else np.array(row[name]) for plain, name in pairs]
        )

    def __setitem__(self, client: int, state: Any) -> None:
        if self._structure is None:
            self._learn(state)
        if client in self._memory or (len(self._memory) + 1) * self.bytes_each <= self.budget:
            self._memory[client] = state
            return
        leaves, structure = jax.tree.flatten(state)
        if structure != self._structure:
            raise ValueError(f"The states of all clients need one structure, client {client} has {structure}.")
        self._check(client, leaves)
        slot = self._places.get(client, len(self._places))
        if slot == len(self._segments) * self._per_segment:
            self._segments.append(self._new_segment())
        row = self._row(slot)
        for name, leaf in zip(row.dtype.names, leaves, strict=True):
            row[name] = leaf
        self._places[client] = slot  # last, so that another thread never sees a place without its state

    def __delitem__(self, client: int) -> None:
        raise TypeError("A client's state is replaced, never removed.")

    def __iter__(self) -> Iterator[int]:
        yield from self._memory
        yield from self._places

    def __len__(self) -> int:
        return len(self._memory) + len(self._places)

    def __contains__(self, client: object) -> bool:
        return client in self._memory or client in self._places

    @property
    def bytes_each(self) -> int:
        """Bytes of one client's state."""
        return self._record.itemsize

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of the states that lie in files."""
        return len(self._places) * self.bytes_each

    def _learn(self, state: Any) -> None:
        leaves, self._structure = jax.tree.flatten(state)
        arrays = [np.asarray(leaf) for leaf in leaves]
        self._record = np.dtype([(f"leaf{j}", a.dtype, a.shape) for j, a in enumerate(arrays)])
        self._plain = [type(leaf) in (int, float) for leaf in leaves]  # which combine with arrays in their own way

    def _check(self, client: int, leaves: list[Any]) -> None:
        """Refuse a state whose shape or type differs from that of the first one."""
        for leaf, name in zip(map(np.asarray, leaves), self._record.names or (), strict=True):
            field = self._record[name]
            if leaf.shape != field.shape or not np.can_cast(leaf.dtype, field.base):
                raise ValueError(
                    f"The states of all clients need one structure, client {client} has {leaf.dtype} of shape "
                    f"{leaf.shape} where {field.base} of shape {field.shape} is kept; begin with that type and shape."
                )

    @property
    def _per_segment(self) -> int:
        return -(-SEGMENT // max(self.bytes_each, 1))

    def _row(self, slot: int) -> Any:
        segment, row = divmod(slot, self._per_segment)
        return self._segments[segment][row]

    def _new_segment(self) -> NDArray[Any]:
        with tempfile.TemporaryFile(prefix="feddr-", dir=self.folder) as file:
            return np.memmap(file, dtype=self._record, mode="w+", shape=(self._per_segment,))
