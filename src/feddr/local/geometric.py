"""Gradient descent for a random number of steps, the same for all clients of a round: the local work of Scaffnew."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.local.solver import SolverState
from feddr.local.subproblem import SolverContext, Subproblem
from feddr.tree import Tree
from feddr.validation import scalars

RARE = 1e-6
"""How likely a round is cut at the largest number of steps."""


@dataclass(frozen=True)
class Geometric:
    """x := x - lr grad phi(x) on all samples, until a coin that is tossed after every step says stop.

    The coin is one for all clients: their number of steps in round k is the same, follows from (seed, k) alone, and has
    the geometric distribution with mean 1 / p.

    Parameters
    ----------
    lr
        Step size.
    p
        The probability of stopping after a step.
    seed
        Of the coin. It does not depend on the seed of the run.

    Raises
    ------
    ValueError
        Where lr is not positive, p is not in (0, 1], or seed is not a whole number of 0 or more.

    Notes
    -----
    A round ends after ``num_steps`` steps at the latest, which one in a million would exceed. The virtual clock, which
    does not toss the coin, takes that number for the length of the work.

    Examples
    --------
    >>> solver = Geometric(lr=0.1, p=0.25)
    >>> int(solver.steps(k=7)) == int(solver.steps(k=7)) >= 1
    True
    >>> solver.num_steps(size=100), solver.work(size=100)
    (49, 0.4)
    """

    lr: float
    p: float
    seed: int = 0

    batch_size: ClassVar[None] = None
    certified: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "lr")
        scalars.numbers(self, "p")
        if not 0 < self.p <= 1:
            raise ValueError(f"p must be above 0 and at most 1, got {self.p}; 0.1 for ten steps on average.")
        scalars.count(self, "seed", 0)

    @property
    def step_size(self) -> float:
        return self.lr

    def num_steps(self, size: int) -> int:
        return 1 if self.p == 1 else math.ceil(math.log(RARE) / math.log1p(-self.p))

    def work(self, size: int) -> float:
        return self.lr / self.p

    def batches(self, size: int, rng: np.random.Generator) -> None:
        """Return nothing: every step uses all rows."""

    def steps(self, k: Any) -> Any:
        """Return the number of steps in round k."""
        if self.p == 1:
            return jnp.int32(1)
        drawn = jax.random.uniform(jax.random.fold_in(jax.random.key(self.seed), k), dtype=jnp.float32)
        return 1 + jnp.floor(jnp.log1p(-drawn) / math.log1p(-self.p)).astype(jnp.int32)

    def init(self, sub: Subproblem, context: SolverContext) -> SolverState:
        return SolverState(sub.start, self.steps(context.round), error=jnp.nan, done=False)

    def step(self, state: SolverState, gradient: Tree) -> SolverState:
        left = state.memory - 1
        return state._replace(point=tree.axpy(-self.lr, gradient, state.point), memory=left, done=left <= 0)
