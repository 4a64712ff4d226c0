"""Placement: which worker has which shards, by their load, in blocks whose sums are few nodes of the tree."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.engines.shared.shards import SHARDS, first_client

TOLERANCE = 0.1
"""Of a worker's fair load, by which a boundary may move to where fewer sums have to be sent."""

GAIN = 1.25
"""How much shorter rounds must become for shards to move: their new workers compile their code again."""

Range = tuple[int, int]
"""Shards from the first up to the second number."""


def loads(problem: Any, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the samples of each shard that take part in a round, in expectation: what its clients have to do."""
    n = problem.data.num_clients
    total = np.concatenate([[0.0], np.cumsum(problem.data.sizes * probabilities)])
    return np.diff(total[[first_client(shard, n) for shard in range(SHARDS + 1)]])


def improved(
    load: NDArray[np.float64], speeds: Sequence[float], shards: Sequence[Range], workers: int
) -> list[Range] | None:
    """Return better blocks of shards for so many workers, None where those that there are will do.

    Parameters
    ----------
    speeds
        Of the workers that there are, as measured; one that joins is as fast as their mean.

    Examples
    --------
    >>> improved(np.ones(64), [1.0, 1.1], [(0, 32), (32, 64)], workers=2) is None
    True
    >>> improved(np.ones(64), [1.0, 3.0], [(0, 32), (32, 64)], workers=2)
    [(0, 16), (16, 64)]
    >>> improved(np.ones(64), [1.0, 1.0], [(0, 32), (32, 64)], workers=4)
    [(0, 16), (16, 32), (32, 48), (48, 64)]
    """

    def seconds(blocks: Sequence[Range]) -> float:
        return max(float(load[a:b].sum()) / speed for (a, b), speed in zip(blocks, known, strict=False))

    known = [*speeds, *[float(np.mean(speeds))] * (workers - len(speeds))]
    better = assign_shards(load, known)
    return better if seconds(shards) >= GAIN * seconds(better) else None


def assign_shards(load: NDArray[np.float64], speeds: Sequence[float]) -> list[Range]:
    """Return blocks of shards, one for each worker, in proportion to the speeds of these.

    There are no more blocks than shards with clients.

    Examples
    --------
    >>> assign_shards(np.ones(64), [1.0, 1.0])
    [(0, 32), (32, 64)]
    >>> assign_shards(np.ones(64), [1.0, 1.0, 1.0])
    [(0, 20), (20, 44), (44, 64)]
    >>> assign_shards(np.ones(64), [1.0, 3.0])
    [(0, 16), (16, 64)]
    """
    workers = min(len(speeds), int(np.count_nonzero(load)))
    wanted = np.cumsum(speeds[:workers]) / np.sum(speeds[:workers])
    reached = np.concatenate([[0.0], np.cumsum(load) / load.sum()])
    slack = TOLERANCE * np.array(speeds[:workers]) / np.sum(speeds[:workers])
    bounds = [0]
    for j in range(workers - 1):
        # Every worker, this one and those after it, needs a shard with clients.
        least = bounds[-1] + 1 + int(np.argmax(load[bounds[-1] :] > 0))
        behind = np.flatnonzero(load)[-(workers - 1 - j)]
        near = [s for s in range(least, behind + 1) if abs(reached[s] - wanted[j]) <= slack[j]]
        nearest = min(range(least, behind + 1), key=lambda s: abs(reached[s] - wanted[j]))
        bounds.append(max(near, key=lambda s: (s & -s, -abs(reached[s] - wanted[j])), default=nearest))
    return list(itertools.pairwise([*bounds, SHARDS]))
