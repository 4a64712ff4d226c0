"""Stochastic gradient descent: the local solver of most experiments."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.local import batches
from feddr.local.schedules import RoundSchedule, first
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
        Step size; or a function of the round, such as ``schedules.Cosine(lr=0.1, rounds=100, end=0.001)``.
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
    A fixed amount of work certifies no accuracy of the prox: the reported error is NaN. Where lr changes from round to
    round, ``step_size`` and ``work``, from which "auto" step sizes eta follow, are those of the first round.

    Examples
    --------
    >>> solver = SGD(lr=0.01, epochs=20, batch_size=10)
    >>> solver.num_steps(size=25), round(solver.work(size=25), 9)
    (60, 0.6)
    """

    lr: float | RoundSchedule
    epochs: int = 1
    batch_size: int | None = 10
    momentum: float = 0.0

    certified: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if callable(self.lr):
            first(self.lr)
        else:
            scalars.positive(self, "lr")
        scalars.numbers(self, "momentum")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum}.")
        batches.check(self)

    @property
    def step_size(self) -> float | None:
        # With momentum the steps grow to lr / (1 - momentum), and a prox of lr g would count g too little.
        return None if self.momentum else first(self.lr)

    def rate(self, k: Any) -> Any:
        """Return the step size in round k."""
        return self.lr(k) if callable(self.lr) else self.lr

    def num_steps(self, size: int) -> int:
        return batches.num_steps(size, self.epochs, self.batch_size)

    def work(self, size: int) -> float:
        steps, m = self.num_steps(size), self.momentum
        return first(self.lr) * (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        return batches.shuffled(size, self.epochs, self.batch_size, rng)

    def init(self, sub: Subproblem, context: SolverContext) -> SolverState:
        velocity = tree.map(jnp.zeros_like, sub.start) if self.momentum else None
        memory = (self.rate(context.round), velocity) if callable(self.lr) else velocity
        return SolverState(sub.start, memory, error=jnp.nan, done=False)

    def step(self, state: SolverState, gradient: Tree) -> SolverState:
        lr, velocity = state.memory if callable(self.lr) else (self.lr, state.memory)
        velocity = tree.axpy(self.momentum, velocity, gradient) if self.momentum else None
        direction = gradient if velocity is None else velocity
        memory = (lr, velocity) if callable(self.lr) else velocity
        return state._replace(point=tree.axpy(-lr, direction, state.point), memory=memory)
