"""Pieces: how passes over samples are divided, by shard; so sums do not depend on who goes through which samples."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from feddr.data import ClientSamples, FederatedData
from feddr.engines.shared.shards import SHARDS

Part = Literal["train", "validation", "test"]
"""Which samples."""

CHUNK = 1024
"""Samples in a step of a pass, at most; fewer where what is computed for them would not fit into a cache."""

PIECE = 8 * CHUNK
"""Samples of a shard that one pass goes through, at most; a larger shard is divided, for threads."""

STEP = 16
"""Rows that cost as much as a step of a pass does beside its rows: the gradient is added to the sum, for one."""


class RowRange(NamedTuple):
    """Rows of one shard that a pass goes through."""

    shard: int
    start: int
    stop: int


class Layout(NamedTuple):
    """How passes go through the samples of a problem, whichever part of its shards is there.

    Parameters
    ----------
    clients
        Number of clients n, which shards divide.
    rows
        Rows in a step of a pass over each part: those with the least work, as shards end where they do.
    """

    clients: int
    rows: Mapping[Part, int]

    @classmethod
    def of(cls, data: FederatedData) -> "Layout":
        """Return the layout for data that are all there."""
        n = data.num_clients
        parts: dict[Part, ClientSamples | None] = {name: data.part(name) for name in get_args(Part)}
        pieces = {name: [] if part is None else division(part, data.panel, n) for name, part in parts.items()}
        return cls(n, {name: _step([piece.stop - piece.start for piece in some]) for name, some in pieces.items()})


def division(part: ClientSamples, clients: NDArray[np.int64], n: int) -> list[RowRange]:
    """Return the pieces of a part that holds the samples of some of n clients, in order."""
    shards = clients * SHARDS // n
    changes = np.flatnonzero(np.diff(shards, prepend=-1))
    firsts = [*part.offsets[changes].tolist(), part.num_samples]
    return [
        RowRange(shard, start, min(start + PIECE, stop))
        for shard, (first, stop) in zip(shards[changes].tolist(), itertools.pairwise(firsts), strict=True)
        for start in range(first, stop, PIECE)
    ]


def _step(lengths: Sequence[int]) -> int:
    """Return the rows in a step with the least work: a last step is as long as any, and each costs STEP rows more."""
    some, choices = np.array(lengths, np.int64), range(32, CHUNK + 1, 32)
    return min(choices or [CHUNK], key=lambda rows: int((-(-some // rows)).sum()) * (rows + STEP))
