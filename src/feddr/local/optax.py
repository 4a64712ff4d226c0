"""Any optimiser of optax as a local solver."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import optax

from feddr.local import batches
from feddr.local.solver import Batches, State
from feddr.local.subproblem import Facts, Subproblem
from feddr.tree import Tree


@dataclass(frozen=True)
class Optax:
    """An optimiser of optax on random batches; it starts anew in each local update.

    Parameters
    ----------
    optimiser
        Such as ``optax.adam(1e-3)``.
    epochs, batch_size
        As in ``SGD``.

    Examples
    --------
    >>> import optax
    >>> solver = Optax(optax.adam(1e-3), epochs=5, batch_size=32)
    """

    optimiser: optax.GradientTransformation
    epochs: int = 1
    batch_size: int | None = 10

    certified: ClassVar[bool] = False
    step_size: ClassVar[None] = None

    def __post_init__(self) -> None:
        batches.check(self.epochs, self.batch_size)

    def num_steps(self, size: int) -> int:
        return batches.num_steps(size, self.epochs, self.batch_size)

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        return batches.shuffled(size, self.epochs, self.batch_size, rng)

    def init(self, sub: Subproblem, facts: Facts) -> State:
        return State(sub.start, self.optimiser.init(sub.start), error=jnp.nan, done=False)

    def step(self, state: State, gradient: Tree) -> State:
        updates, memory = self.optimiser.update(gradient, state.memory, state.point)
        return state._replace(point=optax.apply_updates(state.point, updates), memory=memory)
