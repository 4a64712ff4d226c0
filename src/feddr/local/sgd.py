"""Stochastic gradient descent: the local solver of most experiments."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.local import batches
from feddr.local.solver import Batches, SolverState
from feddr.local.subproblem import SolverContext, Subproblem
from feddr.tree import Tree
from feddr.validation import scalars


@dataclass(frozen=True)
class SGD:
    """x := x - lr * grad phi(x) on random batches; with momentum, v := momentum * v + grad phi(x) and x := x - lr * v.

    Parameters
    ----------
    lr
        Step size.
    epochs
        Passes over the client's samples, each in a new random order.
    batch_size
        Samples in a step; the last batch of an epoch holds what is left, and its gradient is the mean over just those.
        None takes all samples in every step.
    momentum
        Between 0 and 1; 0 for none. The velocity starts at zero in each local update.

    Raises
    ------
    ValueError
        Where lr is not positive, momentum is not in [0, 1), or epochs or batch_size are not whole numbers of 1 or
        more.

    Notes
    -----
    A fixed amount of work certifies no accuracy of the prox: the reported error is NaN.

    Examples
    --------
    >>> solver = SGD(lr=0.01, epochs=20, batch_size=10)
    >>> solver.num_steps(size=25), round(solver.work(size=25), 9)
    (60, 0.6)
    """

    lr: float
    epochs: int = 1
    batch_size: int | None = 10
    momentum: float = 0.0

    certified: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "lr")
        scalars.numbers(self, "momentum")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum}.")
        batches.check(self)

    @property
    def step_size(self) -> float | None:
        # With momentum the steps grow to lr / (1 - momentum), and a prox of lr g would count g too little.
        return None if self.momentum else self.lr

    def num_steps(self, size: int) -> int:
        return batches.num_steps(size, self.epochs, self.batch_size)

    def work(self, size: int) -> float:
        steps, m = self.num_steps(size), self.momentum
        return self.lr * (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        return batches.shuffled(size, self.epochs, self.batch_size, rng)

    def init(self, sub: Subproblem, context: SolverContext) -> SolverState:
        velocity = tree.map(jnp.zeros_like, sub.start) if self.momentum else None
        return SolverState(sub.start, velocity, error=jnp.nan, done=False)

    def step(self, state: SolverState, gradient: Tree) -> SolverState:
        velocity = tree.axpy(self.momentum, state.memory, gradient) if self.momentum else None
        direction = gradient if velocity is None else velocity
        return state._replace(point=tree.axpy(-self.lr, direction, state.point), memory=velocity)
