"""Prefetching: the random batches of the next round are drawn while threads would be idle."""

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from feddr.engines.shared.compiled_clients import padded
from feddr.engines.shared.randomness import client_rng
from feddr.local import LocalSolver
from feddr.local.solver import Batches

Key = tuple[int, int]
"""A client, and how many updates it has made before."""


class BatchPrefetcher:
    """Draws the batches of a client's k-th update; they depend on (seed, client, k) alone, not on when that is.

    Threads may draw and take at the same time: what one of them misses, it draws itself.
    """

    def __init__(self, local: LocalSolver, sizes: NDArray[np.int64], seed: int) -> None:
        self.local, self.sizes, self.seed = local, sizes, seed
        self._ready: dict[Key, Batches | None] = {}

    def take(self, client: int, update: int) -> Batches | None:
        """Return the batches of an update, None where every step uses all rows."""
        return self._ready.pop((client, update), None) or self._draw((client, update))

    def ahead(self, upcoming: Iterable[Key]) -> Iterator[Callable[[], None]]:
        """Yield functions that draw the batches of these updates, large clients first; batches of others are dropped.

        They come with steps left over, as a call for one client wants them.
        """
        self._ready = {}
        for key in sorted(upcoming, key=lambda key: -int(self.sizes[key[0]])):
            yield functools.partial(self._prepare, key)

    def _prepare(self, key: Key) -> None:
        drawn = self._draw(key)
        self._ready[key] = None if drawn is None else padded(drawn)

    def _draw(self, key: Key) -> Batches | None:
        client, update = key
        return self.local.batches(int(self.sizes[client]), client_rng(self.seed, client, update))
