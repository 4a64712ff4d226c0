"""Schemes in which all clients are alike: everybody, a fixed number of clients, and a random number of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feddr.sampling.scheme import TOLERANCE, subset
from feddr.validation import scalars


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
    >>> Uniform(1).probabilities(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
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
        return subset(n, self.m, rng)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = m / n."""
        self.check(n)
        return np.full(n, self.m / n)


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
        if not all(0 <= v <= 1 for v in q) or abs(math.fsum(q) - 1) > TOLERANCE:
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
        return subset(n, int(rng.choice(len(self.q), p=self.q)), rng)

    def probabilities(self, n: int) -> NDArray[np.float64]:
        """Return p_i = sum_j j q_j / n."""
        self.check(n)
        return np.full(n, math.fsum(j * v for j, v in enumerate(self.q)) / n)
