"""Aggregation: weighted sums of uploads in float64, in the fixed order of shards, and the bytes of a message."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms import Uploads
from feddr.engines.shared.shards import ROOT, TreeNode, Vector, fold
from feddr.tree import Tree

BLOCK = 2**16
"""Numbers of uploads that are weighted at a time, about."""

COUNTED = 4
"""Numbers at the end of a sum: of the weights, of those of new clients, of their shares, of the stale weights."""


ZERO: Vector = np.zeros(1)
"""Where a sum begins; so it is never -0, and shards without uploads need not be added."""


class WeightedUpload(NamedTuple):
    """An upload that the server takes in.

    Parameters
    ----------
    shard
        That of the client.
    weight, share
        The client's weight v_i in the server's mean, and its weight w_i in the problem.
    new
        Whether it is the first of its client.
    upload
        What the client sent.
    factor
        Of the weight, where the upload is stale.
    """

    shard: int
    weight: float
    share: float
    new: bool
    upload: Tree
    factor: float = 1.0


def weighted_sum(uploads: Iterable[WeightedUpload]) -> Uploads:
    """Add up uploads in float64: in a shard in the given order, over shards, which must not decrease, by ``fold``."""
    arriving = iter(uploads)
    first = next(arriving)
    ((_, total),) = fold([ROOT], shard_sums(itertools.chain([first], arriving)))
    return summed(total, first.upload)


def summed(total: Vector, template: Tree) -> Uploads:
    """Return the sum of all shards as the server takes it in; uploads are trees like the template."""
    weight, joined, joined_share, discounted = total[-COUNTED:].tolist()
    return Uploads(tree.unravel(total[:-COUNTED], template), weight, joined, joined_share, discounted / weight)


def shard_sums(uploads: Iterable[WeightedUpload]) -> Iterator[tuple[TreeNode, Vector]]:
    """Yield the sum of each shard as one vector, in the order in which they come; each begins at zero."""
    shard, total = -1, ZERO
    with np.errstate(over="ignore", invalid="ignore"):  # whoever takes the sum looks whether it is finite
        for some in _blocks(iter(uploads)):
            rows = _weighted(some)
            start = 0
            for number, group in itertools.groupby(some, key=lambda one: one.shard):
                stop = start + sum(1 for _ in group)
                if number != shard:
                    if shard >= 0:
                        yield TreeNode(0, shard), total
                    total = ZERO
                np.add(total, rows[start], out=rows[start])
                # NumPy adds rows one after the other, in order, where they hold more than one number.
                total = rows[start] if stop == start + 1 else np.add.reduce(rows[start:stop], axis=0)
                shard, start = number, stop
    if shard >= 0:
        yield TreeNode(0, shard), total


def _blocks(uploads: Iterator[WeightedUpload]) -> Iterator[list[WeightedUpload]]:
    """Yield small uploads some at a time, large ones one by one: NumPy takes a microsecond for any call."""
    for first in uploads:
        yield [first, *itertools.islice(uploads, BLOCK // max(tree.size(first.upload), 1))]


def _weighted(some: Sequence[WeightedUpload]) -> Vector:
    """Return a row for each upload: its entries times its weight, and what is counted."""
    leaves = tree.leaves([one.upload for one in some])
    count = len(leaves) // len(some)
    sizes = [np.size(leaf) for leaf in leaves[:count]]
    rows = np.empty((len(some), sum(sizes) + COUNTED))
    entries, start = rows[:, :-COUNTED], 0
    for j, size in enumerate(sizes):
        values = np.ravel(leaves[j]) if len(some) == 1 else np.array(leaves[j::count]).reshape(len(some), size)
        entries[:, start : start + size] = values
        start += size
    entries *= np.array([[one.factor * one.weight] for one in some])
    rows[:, start:] = [(v, new * v, new * w, factor * v) for _, v, w, new, _, factor in some]
    return rows


class ServerMessage(NamedTuple):
    """A broadcast as the clients read it, and the bytes that each of them receives."""

    content: Tree
    num_bytes: int


def server_message(algorithm: Any, server: Any, dtype: Any) -> ServerMessage:
    """Return what a server in this state broadcasts in a run with numbers of this type, rounded by ``download``."""
    message = tree.cast(algorithm.broadcast(server), dtype)
    download = getattr(algorithm, "download", None)
    if download is None:
        return ServerMessage(message, wire_bytes(message, dtype))
    return ServerMessage(download.compress(message), download.num_bytes(message))


def wire_bytes(message: Tree, dtype: Any) -> int:
    """Return the bytes of a message whose numbers travel as dtype."""
    return tree.size(message) * int(np.dtype(dtype).itemsize)


def upload_bytes(algorithm: Any, upload: Tree, dtype: Any) -> int:
    """Return the bytes of an upload of an algorithm, which may compress it."""
    compressed = getattr(algorithm, "upload_bytes", None)
    return wire_bytes(upload, dtype) if compressed is None else int(compressed(upload, dtype))


def finite(a: Tree) -> bool:
    """Return whether every entry of a tree is finite."""
    return all(np.isfinite(leaf).all() for leaf in tree.leaves(a))
