"""The clients' states as the driver sees them: they are with their workers, and are fetched when they are read."""

from collections.abc import ItemsView, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from feddr import tree
from feddr.checkpoint import encoding
from feddr.engines.workers.worker import batched

if TYPE_CHECKING:
    from feddr.engines.workers.run import ClusterRun

SEGMENT = 32 * 2**20
"""Bytes of client states that travel at a time, about."""


class RemoteClients(MutableMapping[int, Any]):
    """The clients' states where they are, on workers; reading one fetches it."""

    def __init__(self, run: "ClusterRun") -> None:
        self.run = run
        each = sum(np.asarray(leaf).nbytes for leaf in tree.leaves(run.first_state))
        self._at_a_time = min(max(SEGMENT // max(each, 1), 1), 10_000)

    def __getitem__(self, client: int) -> Any:
        if client not in self.run.state.updates:
            raise KeyError(client)
        return self._fetch(self.run.worker_of(client), [client])[client]

    def __setitem__(self, client: int, state: Any) -> None:
        raise TypeError("The states of clients are with their workers, and cannot be replaced from here.")

    def __delitem__(self, client: int) -> None:
        raise TypeError("A client's state is replaced, never removed.")

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.run.state.updates))

    def __len__(self) -> int:
        return len(self.run.state.updates)

    def __contains__(self, client: object) -> bool:
        return client in self.run.state.updates

    def items(self) -> ItemsView[int, Any]:
        """Return the clients with their states, which are fetched some at a time."""
        return States(self)

    def fetched(self) -> Iterator[tuple[int, Any]]:
        """Yield the clients with their states, in order."""
        for j, own in self.run.by_worker(self).items():
            for some in batched(own, self._at_a_time):
                yield from self._fetch(j, some).items()

    def _fetch(self, j: int, clients: list[int]) -> dict[int, Any]:
        states: dict[int, Any] = {}
        segments = self.run.fleet.ask({j: ("states", self.run.through, clients)})[j]
        encoding.fill(states, self.run.first_state, segments)
        return states


class States(ItemsView[int, Any]):
    """Clients with their states, fetched some at a time."""

    def __init__(self, clients: RemoteClients) -> None:
        super().__init__(clients)
        self.clients = clients

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self.clients.fetched()
