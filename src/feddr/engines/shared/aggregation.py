"""Aggregation: weighted sums of uploads in float64, in a fixed order, and the bytes of a message."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms import Uploads
from feddr.tree import Tree

BLOCK = 2**16
"""Numbers of uploads that are added up at a time, about."""


class WeightedUpload(NamedTuple):
    """An upload that the server takes in.

    Parameters
    ----------
    weight, share
        The client's weight v_i in the server's mean, and its weight w_i in the problem.
    new
        Whether it is the first of its client.
    upload
        What the client sent.
    factor
        Of the weight, where the upload is stale.
    """

    weight: float
    share: float
    new: bool
    upload: Tree
    factor: float = 1.0


def weighted_sum(uploads: Iterable[WeightedUpload]) -> Uploads:
    """Add up uploads in float64, in the given order."""
    total: Tree = None
    weight = joined = joined_share = discounted = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # whoever takes the sum looks whether it is finite
        for some in _blocks(iter(uploads)):
            factors = np.array([one.factor * one.weight for one in some])
            added = tree.map(lambda *leaves, c=factors: _weighted_sum(c, leaves), *(one.upload for one in some))
            if total is None:
                total = tree.map(lambda a: np.zeros(a.shape), added)
            tree.map(lambda sum_, more: np.add(sum_, more, out=sum_), total, added)
            for one in some:
                weight += one.weight
                discounted += one.factor * one.weight
                if one.new:
                    joined, joined_share = joined + one.weight, joined_share + one.share
    return Uploads(total, weight, joined, joined_share, discounted / weight)


def _blocks(uploads: Iterator[WeightedUpload]) -> Iterator[list[WeightedUpload]]:
    """Yield small uploads some at a time, large ones one by one: NumPy takes a microsecond for any call."""
    for first in uploads:
        yield [first, *itertools.islice(uploads, BLOCK // max(tree.size(first.upload), 1))]


def _weighted_sum(factors: NDArray[np.float64], leaves: Sequence[Any]) -> NDArray[np.float64]:
    if len(leaves) == 1:
        return np.multiply(factors[0], leaves[0], dtype=np.float64)
    stacked = np.array(leaves, np.float64)
    stacked *= factors.reshape(-1, *[1] * (stacked.ndim - 1))
    return np.add.reduce(stacked, axis=0)


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
