"""Client sampling: which clients take part in a round, and how likely each one is.

Every scheme is proper (Tran-Dinh et al. 2021, Assumption 3): client i takes part in a round with probability p_i > 0.
Richtarik and Takac describe most of the schemes, Madow the last one.

References
----------
P. Richtarik, M. Takac (2016). Parallel coordinate descent methods for big data optimization. Math. Program. 156.
W. G. Madow (1949). On the theory of systematic sampling, II. Ann. Math. Stat. 20.
"""

import math
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from feddr.validation import scalars
from feddr.validation.messages import one_line

_TOLERANCE = 1e-9  # for sums of probabilities that were written as decimals


class Sampling(Protocol):
    """A law for the set S of clients that take part in a round.

    Examples
    --------
    >>> scheme: Sampling = Uniform(2)
    >>> scheme.check(5)
    >>> len(scheme.draw(5, np.random.default_rng(0))), scheme.probabilities(5).tolist()
    (2, [0.4, 0.4, 0.4, 0.4, 0.4])
    """

    def check(self, n: int) -> None:
        """Raise ValueError unless the scheme fits n clients and every p_i > 0."""

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return S: distinct client ids from 0 to n - 1, in increasing order."""

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = P(i in S) for each of the n clients."""


def p_hat(sampling: Sampling, n: int) -> float:
    """Return the smallest inclusion probability, min_i p_i.

    Examples
    --------
    >>> p_hat(Independent([0.5, 0.1, 1.0]), n=3)
    0.1
    """
    return float(sampling.probabilities(n).min())


@dataclass(frozen=True)
class Full:
    """Everybody, always: S = {0, ..., n - 1}, p_i = 1.

    Examples
    --------
    >>> Full().draw(3, np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """

    def check(self, n: int) -> None:
        """Raise ValueError unless there is at least one client."""
        scalars.whole("The number of clients n", n, 1)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG002  nothing is random here
        """Return all clients."""
        self.check(n)
        return np.arange(n, dtype=np.int64)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = 1."""
        self.check(n)
        return np.ones(n)


@dataclass(frozen=True)
class Uniform:
    """Every set of m clients is equally likely ("tau-nice"): p_i = m / n. A draw costs O(m), however large n is.

    Examples
    --------
    >>> import numpy as np
    >>> len(Uniform(10).draw(1_000_000, np.random.default_rng(0)))
    10
    >>> p_hat(Uniform(10), n=40)
    0.25
    """

    m: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", scalars.whole("Uniform's m", self.m, 1))

    def check(self, n: int) -> None:
        """Raise ValueError unless m <= n."""
        if self.m > n:
            raise ValueError(f"Uniform draws m distinct clients, got m={self.m} for n={n}; take m <= n.")

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return m clients, drawn without replacement."""
        self.check(n)
        return _subset(n, self.m, rng)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = m / n."""
        self.check(n)
        return np.full(n, self.m / n)


@dataclass(frozen=True)
class Independent:
    """Client i takes part with probability p_i, independently of the others; S may be empty.

    Parameters
    ----------
    p
        One probability for everybody (a draw then costs O(|S|)), or one for each client.

    Raises
    ------
    ValueError
        Where a probability is not above 0 and at most 1.

    Examples
    --------
    >>> Independent(0.5).probabilities(3).tolist()
    [0.5, 0.5, 0.5]
    >>> Independent([0.1, 1.0]).draw(2, np.random.default_rng(0)).tolist()
    [1]
    """

    p: float | Sequence[float]

    def __post_init__(self) -> None:
        several = isinstance(self.p, Sequence | np.ndarray) and not isinstance(self.p, str | bytes)
        if several and np.ndim(self.p):
            object.__setattr__(self, "p", _each("a probability 0 < p_i <= 1", cast(Any, self.p), 1))
            return
        p = scalars.number("p", self.p)
        if not 0 < p <= 1:
            raise ValueError(f"Independent needs a probability 0 < p <= 1, got p={p}; with p=0 nobody takes part.")
        object.__setattr__(self, "p", p)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one p for everybody or one for each of the n clients."""
        scalars.whole("The number of clients n", n, 1)
        if isinstance(self.p, Sequence):
            _length("Independent", len(self.p), n)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the clients whose coins came up."""
        self.check(n)
        if isinstance(self.p, Sequence):
            return np.flatnonzero(rng.random(n) < np.asarray(self.p)).astype(np.int64)
        # Given its binomial size, S is uniform: the same law as n coins, without tossing them.
        return _subset(n, int(rng.binomial(n, self.p)), rng)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i."""
        self.check(n)
        return np.array(self.p) if isinstance(self.p, Sequence) else np.full(n, float(self.p))


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
        given = self.blocks.tolist() if isinstance(self.blocks, np.ndarray) else self.blocks
        if not isinstance(given, Sequence):
            object.__setattr__(self, "blocks", scalars.whole("Partitioned's number of blocks", given, 1))
            return
        try:
            blocks = tuple(tuple(sorted(map(operator.index, block))) for block in given)
        except TypeError:
            raise ValueError(
                f"Partitioned needs blocks of client ids, such as [[0, 2], [1]], got {one_line(given)}."
            ) from None
        if not blocks or not all(blocks):
            raise ValueError(f"Partitioned needs blocks with a client in each, got {blocks}; leave empty blocks out.")
        for i, found in enumerate(sorted(i for block in blocks for i in block)):
            if found > i:
                raise ValueError(f"Every client needs p_i > 0, client {i} is in no block; put it in one.")
            if found < i:
                raise ValueError(f"Blocks hold each id from 0 exactly once, got {found} twice or below 0; remove it.")
        object.__setattr__(self, "blocks", blocks)

    def check(self, n: int) -> None:
        """Raise ValueError unless the blocks hold n clients and none is empty."""
        if isinstance(self.blocks, Sequence):
            _length("Partitioned", sum(map(len, self.blocks)), n)
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


@dataclass(frozen=True)
class DoublyUniform:
    """A random size, then every set of that size is equally likely; S may be empty if q[0] > 0.

    Parameters
    ----------
    q
        Probabilities q_j = P(|S| = j) of the sizes j = 0, 1, 2, ...; they sum to 1.

    Raises
    ------
    ValueError
        Where the q_j are negative or do not sum to 1, or nobody ever takes part.

    Examples
    --------
    >>> DoublyUniform([0.0, 0.5, 0.5]).probabilities(3).tolist()  # one client or two
    [0.5, 0.5, 0.5]
    """

    q: Sequence[float]

    def __post_init__(self) -> None:
        q = tuple(float(v) for v in self.q)
        if not all(0 <= v <= 1 for v in q) or abs(math.fsum(q) - 1) > _TOLERANCE:
            raise ValueError(f"DoublyUniform needs q_j >= 0 that sum to 1, got q={q}; divide by the sum.")
        if not any(q[1:]):
            raise ValueError("Every client needs p_i > 0, with q[0] = 1 client 0 has p_i = 0; lower q[0].")
        object.__setattr__(self, "q", q)

    def check(self, n: int) -> None:
        """Raise ValueError unless every possible size is at most n."""
        largest = max(j for j, v in enumerate(self.q) if v > 0)
        if largest > n:
            raise ValueError(f"DoublyUniform draws up to {largest} distinct clients, got n={n}; set q_j = 0 for j > n.")

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a uniform set of a random size."""
        self.check(n)
        return _subset(n, int(rng.choice(len(self.q), p=self.q)), rng)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = sum_j j q_j / n."""
        self.check(n)
        return np.full(n, math.fsum(j * v for j, v in enumerate(self.q)) / n)


@dataclass(frozen=True)
class Systematic:
    """Fixed size and any inclusion probabilities: systematic sampling over a random order (Madow 1949).

    Put the clients in random order, lay intervals of lengths p_i end to end, and take those that hold one of the points
    U, U + 1, ..., U + m - 1, with U uniform on [0, 1). No interval is longer than 1, so no client is taken twice.

    Parameters
    ----------
    p
        Inclusion probabilities, 0 < p_i <= 1; their sum is the whole number m = |S|.

    Examples
    --------
    >>> Systematic.proportional([100, 50, 50], m=2).p
    (1.0, 0.5, 0.5)
    """

    p: Sequence[float]

    def __post_init__(self) -> None:
        p = _each("a probability 0 < p_i <= 1", self.p, 1)
        m = math.fsum(p)
        if round(m) < 1 or abs(m - round(m)) > _TOLERANCE * len(p):
            raise ValueError(f"Systematic needs a whole sum_i p_i >= 1, got {m}; see Systematic.proportional.")
        object.__setattr__(self, "p", p)

    @classmethod
    def proportional(cls, sizes: Sequence[float], m: int) -> "Systematic":
        """Return the scheme with p_i = min(1, c size_i), where c makes them sum to m."""
        m = scalars.whole("Systematic's m", m, 1)
        size = np.array(_each("a size 0 < size_i < inf", sizes, sys.float_info.max))
        if m > len(size):
            raise ValueError(f"Systematic draws m distinct clients, got m={m} for n={len(size)}; take m <= n.")
        largest = np.sort(size)[::-1]
        rest = np.cumsum(largest[::-1])[::-1]  # rest[k]: all but the k largest together
        # The fewest certain clients such that nobody else's share of the remaining m - k places exceeds one.
        k = int(np.argmax((m - np.arange(m)) * largest[:m] <= rest[:m]))
        return cls(tuple(np.minimum(1, (m - k) / rest[k] * size)))

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one p for each of the n clients."""
        _length("Systematic", len(self.p), n)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return sum_i p_i clients."""
        self.check(n)
        order = rng.permutation(n)
        ends = np.cumsum(np.asarray(self.p)[order])
        steps = np.arange(round(ends[-1]))
        taken = np.searchsorted(ends, rng.random() + steps, side="right")
        # Where p_i is near 1, rounding could put two points into one interval or the last beyond the end: move them on.
        taken = steps + np.minimum(np.maximum.accumulate(taken - steps), n - len(steps))
        return np.sort(order[taken]).astype(np.int64)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i."""
        self.check(n)
        return np.array(self.p)


def _subset(n: int, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.choice(n, m, replace=False, shuffle=False))


def _length(scheme: str, clients: int, n: int) -> None:
    if clients != n:
        raise ValueError(f"{scheme} is for {clients} clients, got n={n}; give each of the n clients its place.")


def _each(what: str, values: Sequence[float], largest: float) -> tuple[float, ...]:
    found = [float(scalars.number(what.capitalize(), v)) for v in values]
    for i, v in enumerate(found):
        if not 0 < v <= largest:
            raise ValueError(f"Every client needs {what}, client {i} has {v}; leave out a client with 0.")
    return tuple(found)
