"""Recovery: what it takes to make the states of clients again that a worker has lost.

A client's state follows from its state at an earlier time and the messages that it has been sent since: randomness
depends on (seed, client, update) alone. So the driver keeps the messages since the last checkpoint, and a worker that
takes the place of another begins with the states of the checkpoint and computes the rounds since again.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr.checkpoint import encoding
from feddr.checkpoint.manager import CheckpointManager
from feddr.engines.shared.client_store import ClientStore
from feddr.engines.workers.worker import Past
from feddr.tree import Tree


class Asked(NamedTuple):
    """The clients that were asked in a round, in order, and those that were skipped."""

    clients: NDArray[np.int64]
    skipped: frozenset[int]


class Recovery:
    """The messages of the rounds since the last checkpoint, beyond a budget of memory in a temporary file.

    Parameters
    ----------
    budget
        Bytes of messages in memory, at most.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.checkpoints: CheckpointManager | None = None
        self._clear()

    def _clear(self) -> None:
        self.asked: dict[int, Asked] = {}
        self.messages = ClientStore(self.budget)

    def add(self, k: int, message: Tree, clients: NDArray[np.int64], skipped: frozenset[int]) -> None:
        """Remember a round; those that a checkpoint has seen are forgotten."""
        saved = self._saved
        if saved is not None and all(round_ <= saved for round_ in self.asked):
            self._clear()
        self.messages[k], self.asked[k] = message, Asked(clients, skipped)

    def start(self, first: int, last: int) -> tuple[list[encoding.Arrays], dict[int, int]]:
        """Return the states in the last checkpoint of the clients from ``first`` up to ``last``, and their updates."""
        if self.checkpoints is None or self.checkpoints.checkpoints is None or self._saved is None:
            return [], {}
        saved = self.checkpoints.checkpoints.check(self._saved)
        segments = (owned(segment, first, last) for segment in saved.clients())
        updates = encoding.mapping(encoding.strip_prefix("run/updates", saved.state()))
        return [one for one in segments if len(one["clients"])], {i: k for i, k in updates.items() if first <= i < last}

    def since(self, first: int, last: int) -> Iterator[Past]:
        """Yield the rounds since the last checkpoint in which these clients were asked."""
        saved = -1 if self._saved is None else self._saved
        for k, (clients, skipped) in self.asked.items():
            own = clients[(first <= clients) & (clients < last)].tolist()
            if k > saved and own:
                yield Past(k, self.messages[k], own, skipped)

    @property
    def _saved(self) -> int | None:
        """The round of the last checkpoint, None where there is none."""
        return None if self.checkpoints is None else self.checkpoints.newest


def owned(segment: encoding.Arrays, first: int, last: int) -> encoding.Arrays:
    """Return what a segment of a checkpoint has of the clients from ``first`` up to ``last``."""
    clients = segment["clients"]
    rows = (first <= clients) & (clients < last)
    return {name: array[rows] for name, array in segment.items()}
