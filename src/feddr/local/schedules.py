"""Learning rates that change from round to round; within one update the rate stays what it was at its start.

A schedule is any function of the round, counted from 1, written with jax.numpy where it is not plain arithmetic: the
round is an argument of the compiled update, so that no round compiles anything again. A start-up round, in which all
clients take part before the first, is round 0. In an asynchronous run the round is the version of xbar that the
client reads, plus one.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from feddr.validation import scalars


class RoundSchedule(Protocol):
    """From the round to the learning rate.

    Examples
    --------
    >>> schedule: RoundSchedule = lambda k: 0.1 / k
    >>> schedule(2)
    0.05
    """

    def __call__(self, k: Any, /) -> Any:
        """Return the rate of round k."""


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from ``lr`` in round 1 to ``end`` in round ``rounds``, and ``end`` from there on.

    Parameters
    ----------
    lr
        In the first round.
    rounds
        Over which it falls.
    end
        In the last of them; above 0.

    Raises
    ------
    ValueError
        Where a rate is not positive, or ``rounds`` no whole number.

    Examples
    --------
    >>> schedule = Cosine(lr=0.1, rounds=101, end=0.02)
    >>> [round(float(schedule(k)), 4) for k in (1, 51, 101, 500)]
    [0.1, 0.06, 0.02, 0.02]
    """

    lr: float
    rounds: int
    end: float

    def __post_init__(self) -> None:
        scalars.positive(self, "lr")
        scalars.positive(self, "end")
        scalars.count(self, "rounds", 2)

    def __call__(self, k: Any) -> Any:
        """Return the rate of round k."""
        done = jnp.clip((k - 1) / (self.rounds - 1), 0.0, 1.0)
        return self.end + (self.lr - self.end) * 0.5 * (1.0 + jnp.cos(jnp.pi * done))


@dataclass(frozen=True)
class Step:
    """``lr``, multiplied by ``factor`` after every so many rounds.

    Parameters
    ----------
    lr
        In the first rounds.
    every
        Rounds with the same rate.
    factor
        Between them.

    Raises
    ------
    ValueError
        Where ``lr`` or ``factor`` is not positive, or ``every`` no whole number.

    Examples
    --------
    >>> schedule = Step(lr=0.1, every=10, factor=0.5)
    >>> [round(float(schedule(k)), 4) for k in (1, 10, 11, 21)]
    [0.1, 0.1, 0.05, 0.025]
    """

    lr: float
    every: int
    factor: float = 0.5

    def __post_init__(self) -> None:
        scalars.positive(self, "lr")
        scalars.positive(self, "factor")
        scalars.count(self, "every", 1)

    def __call__(self, k: Any) -> Any:
        """Return the rate of round k."""
        return self.lr * self.factor ** (jnp.maximum(k - 1, 0) // self.every)


def first(lr: float | RoundSchedule) -> float:
    """Return the learning rate of the first round, which stands for all where a single number is asked for.

    Raises
    ------
    ValueError
        Where a schedule does not return one positive number.

    Examples
    --------
    >>> first(0.1), first(Step(0.2, every=10))
    (0.1, 0.2)
    """
    if not callable(lr):
        return lr
    try:
        with jax.ensure_compile_time_eval():  # also where an update is being compiled
            value = np.asarray(lr(1), np.float64)
    except TypeError as error:
        raise ValueError(f"lr must be a positive number or a function of the round, got {lr!r}: {error}.") from None
    if value.shape != () or not 0 < value < np.inf:
        raise ValueError(f"lr must be a positive number in every round, {lr!r} is {value.tolist()} in round 1.")
    return float(f"{float(value):.7g}")  # as it was meant: JAX computes it in float32
