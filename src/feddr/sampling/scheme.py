"""The protocol of sampling schemes, and what the schemes have in common."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from feddr.validation import scalars

TOLERANCE = 1e-9
"""How far a sum of probabilities may be from a whole number: they are often written as decimals."""


class Sampling(Protocol):
    """A law for the set S of clients that take part in a round.

    Examples
    --------
    >>> import feddr
    >>> scheme: Sampling = feddr.sampling.Uniform(2)
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
    >>> import feddr
    >>> p_hat(feddr.sampling.Independent([0.5, 0.1, 1.0]), n=3)
    0.1
    """
    return float(sampling.probabilities(n).min())


def subset(n: int, m: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return m distinct clients of n, every set of m equally likely, in increasing order."""
    return np.sort(rng.choice(n, m, replace=False, shuffle=False))


def check_length(scheme: str, clients: int, n: int) -> None:
    """Raise ValueError unless a scheme that was written for so many clients is used for as many."""
    if clients != n:
        raise ValueError(f"{scheme} is for {clients} clients, got n={n}; give each of the n clients its place.")


def each_positive(what: str, values: Sequence[float], largest: float) -> tuple[float, ...]:
    """Return one number above 0 for each client, or raise ValueError with the first that is not."""
    numbers = tuple(float(scalars.number(what.capitalize(), v)) for v in values)
    for i, v in enumerate(numbers):
        if not 0 < v <= largest:
            raise ValueError(f"Every client needs {what}, client {i} has {v}; leave out a client with 0.")
    return numbers
