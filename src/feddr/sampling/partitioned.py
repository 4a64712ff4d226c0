"""Partitioned sampling: each round has one block of a fixed partition of the clients."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feddr.sampling.scheme import check_length
from feddr.validation import scalars
from feddr.validation.messages import one_line


@dataclass(frozen=True)
class Partitioned:
    """One block of a fixed partition of the clients, each block equally likely ("non-overlapping uniform").

    Parameters
    ----------
    blocks
        The number of blocks (client i is then in block i mod blocks), or the blocks themselves, which hold each of the
        clients 0, ..., n - 1 exactly once.

    Raises
    ------
    ValueError
        Where a block is empty, or a client is in none or in two.

    Examples
    --------
    >>> scheme = Partitioned([[0, 3], [1, 2]])
    >>> scheme.draw(4, np.random.default_rng(0)).tolist() in ([0, 3], [1, 2]), scheme.probabilities(4).tolist()
    (True, [0.5, 0.5, 0.5, 0.5])
    """

    blocks: int | Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        wanted = self.blocks.tolist() if isinstance(self.blocks, np.ndarray) else self.blocks
        if not isinstance(wanted, Sequence):
            object.__setattr__(self, "blocks", scalars.whole("Partitioned's number of blocks", wanted, 1))
            return
        try:
            blocks = tuple(tuple(sorted(map(operator.index, block))) for block in wanted)
        except TypeError:
            raise ValueError(
                f"Partitioned needs blocks of client ids, such as [[0, 2], [1]], got {one_line(wanted)}."
            ) from None
        if not blocks or not all(blocks):
            raise ValueError(f"Partitioned needs blocks with a client in each, got {blocks}; leave empty blocks out.")
        for i, client in enumerate(sorted(i for block in blocks for i in block)):
            if client > i:
                raise ValueError(f"Every client needs p_i > 0, client {i} is in no block; put it in one.")
            if client < i:
                raise ValueError(f"Blocks hold each id from 0 exactly once, got {client} twice or below 0; remove it.")
        object.__setattr__(self, "blocks", blocks)

    def check(self, n: int) -> None:
        """Raise ValueError unless the blocks hold n clients and none is empty."""
        if isinstance(self.blocks, Sequence):
            check_length("Partitioned", sum(map(len, self.blocks)), n)
        elif self.blocks > n:
            raise ValueError(f"Every block needs a client, got {self.blocks} blocks for n={n}; take at most n blocks.")

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the clients of one block."""
        self.check(n)
        if isinstance(self.blocks, Sequence):
            return np.array(self.blocks[int(rng.integers(len(self.blocks)))], np.int64)
        return np.arange(rng.integers(self.blocks), n, self.blocks, dtype=np.int64)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = 1 / number of blocks."""
        self.check(n)
        return np.full(n, 1 / (len(self.blocks) if isinstance(self.blocks, Sequence) else self.blocks))
