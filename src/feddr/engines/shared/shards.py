"""Shards: a fixed division of the clients into 64 parts, and sums over them with the same bits wherever they are made.

The sum of floating-point numbers depends on its order. Here that order is a property of the clients alone: inside a
shard in the order of clients, and over shards by a binary tree: neighbours first, then pairs of neighbours, and so on.
Whoever has all shards of a node of the tree can compute its sum and pass on that one vector.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVELS = 6
SHARDS = 2**LEVELS
"""Parts of the clients, whatever their number and that of threads, workers and machines."""

Vector = NDArray[np.float64]


class TreeNode(NamedTuple):
    """A node of the tree of shards: those from ``number << level`` up to ``(number + 1) << level``, without the last.

    Examples
    --------
    >>> TreeNode(3, 1).start, TreeNode(3, 1).stop
    (8, 16)
    """

    level: int
    number: int

    @property
    def start(self) -> int:
        """The first shard."""
        return self.number << self.level

    @property
    def stop(self) -> int:
        """The shard after the last."""
        return (self.number + 1) << self.level


ROOT = TreeNode(LEVELS, 0)
"""All shards."""


def shard_of(client: int, n: int) -> int:
    """Return the shard of a client, one of n: shards are blocks of neighbours, as equal as possible.

    Examples
    --------
    >>> [shard_of(client, 128) for client in (0, 1, 2, 127)]
    [0, 0, 1, 63]
    """
    return client * SHARDS // n


def first_client(shard: int, n: int) -> int:
    """Return the first client of a shard, and n for the shard after the last.

    Examples
    --------
    >>> first_client(1, 128), first_client(64, 128)
    (2, 128)
    """
    return -(-shard * n // SHARDS)


def cover(start: int, stop: int) -> list[TreeNode]:
    """Return the fewest nodes that together are the shards from ``start`` up to ``stop``, in order.

    Examples
    --------
    >>> cover(0, 32)
    [TreeNode(level=5, number=0)]
    >>> [(node.start, node.stop) for node in cover(13, 26)]
    [(13, 14), (14, 16), (16, 24), (24, 26)]
    """
    nodes = []
    while start < stop:
        level = 0
        while start % (2 << level) == 0 and start + (2 << level) <= stop:
            level += 1
        nodes.append(TreeNode(level, start >> level))
        start = nodes[-1].stop
    return nodes


def fold(nodes: Iterable[TreeNode], sums: Iterable[tuple[TreeNode, Vector]]) -> Iterator[tuple[TreeNode, Vector]]:
    """Yield the sum of each of some nodes, given those of nodes below them; all in order, those without any left out.

    What is left out counts as zero. Vectors may be overwritten. At most one for each level is held at a time.

    Examples
    --------
    >>> ones = [(TreeNode(0, shard), np.ones(1)) for shard in (3, 4, 63)]
    >>> [(node.level, total.tolist()) for node, total in fold([ROOT], ones)]
    [(6, [3.0])]
    """
    wanted = iter(nodes)
    node = next(wanted)
    starts: list[int] = []
    totals: list[Vector] = []

    def merge(below: int) -> None:
        """Add up neighbours whose common node is below a level; the bit length of an exclusive or is that level."""
        while len(totals) > 1 and (starts[-2] ^ starts[-1]).bit_length() < below:
            right, left = totals.pop(), totals.pop()
            with np.errstate(over="ignore", invalid="ignore"):  # whoever takes the sum looks whether it is finite
                totals.append(np.add(left, right, out=left if left.flags.writeable else None))
            starts.pop()

    for (level, number), vector in sums:
        start = number << level
        if starts and start <= starts[-1]:
            raise ValueError(f"Sums must come in the order of shards, got {start} after {starts[-1]}; sort them.")
        while start >= node.stop:
            merge(LEVELS + 1)
            if totals:
                yield node, totals.pop()
                starts.pop()
            node = next(wanted)
        if starts:
            merge((starts[-1] ^ start).bit_length())
        starts.append(start)
        totals.append(vector)
    merge(LEVELS + 1)
    if totals:
        yield node, totals.pop()
