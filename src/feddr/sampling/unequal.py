"""Schemes with a probability for each client: independent coins, or a fixed number of clients."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from feddr.sampling.scheme import TOLERANCE, check_length, each_positive, subset
from feddr.validation import scalars


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
            object.__setattr__(self, "p", each_positive("a probability 0 < p_i <= 1", cast(Any, self.p), 1))
            return
        p = scalars.number("p", self.p)
        if not 0 < p <= 1:
            raise ValueError(f"Independent needs a probability 0 < p <= 1, got p={p}; with p=0 nobody takes part.")
        object.__setattr__(self, "p", p)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one p for everybody or one for each of the n clients."""
        scalars.whole("The number of clients n", n, 1)
        if isinstance(self.p, Sequence):
            check_length("Independent", len(self.p), n)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the clients whose coins came up."""
        self.check(n)
        if isinstance(self.p, Sequence):
            return np.flatnonzero(rng.random(n) < np.asarray(self.p)).astype(np.int64)
        # Given its binomial size, S is uniform: the same law as n coins, without tossing them.
        return subset(n, int(rng.binomial(n, self.p)), rng)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i."""
        self.check(n)
        return np.array(self.p) if isinstance(self.p, Sequence) else np.full(n, float(self.p))


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
        p = each_positive("a probability 0 < p_i <= 1", self.p, 1)
        m = math.fsum(p)
        if round(m) < 1 or abs(m - round(m)) > TOLERANCE * len(p):
            raise ValueError(f"Systematic needs a whole sum_i p_i >= 1, got {m}; see Systematic.proportional.")
        object.__setattr__(self, "p", p)

    @classmethod
    def proportional(cls, sizes: Sequence[float], m: int) -> "Systematic":
        """Return the scheme with p_i = min(1, c size_i), where c makes them sum to m."""
        m = scalars.whole("Systematic's m", m, 1)
        size = np.array(each_positive("a size 0 < size_i < inf", sizes, sys.float_info.max))
        if m > len(size):
            raise ValueError(f"Systematic draws m distinct clients, got m={m} for n={len(size)}; take m <= n.")
        largest = np.sort(size)[::-1]
        rest = np.cumsum(largest[::-1])[::-1]  # rest[k]: all but the k largest together
        # The fewest certain clients such that nobody else's share of the remaining m - k places exceeds one.
        k = int(np.argmax((m - np.arange(m)) * largest[:m] <= rest[:m]))
        return cls(tuple(np.minimum(1, (m - k) / rest[k] * size)))

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one p for each of the n clients."""
        check_length("Systematic", len(self.p), n)

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
