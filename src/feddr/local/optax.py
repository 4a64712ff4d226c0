"""Any optimiser of optax as a local solver."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from feddr import tree
from feddr.local import batches
from feddr.local.schedules import RoundSchedule, first
from feddr.local.solver import Batches, SolverState
from feddr.local.subproblem import SolverContext, Subproblem
from feddr.tree import Tree


@dataclass(frozen=True)
class Optax:
    """An optimiser of optax on random batches; its state is new in each local update.

    Parameters
    ----------
    optimiser
        Such as ``optax.adam(1e-3)``.
    epochs, batch_size
        As in ``SGD``.
    schedule
        A function of the round, by whose value every step of a round is multiplied, as its lr would be: with
        ``schedules.Cosine(lr=1e-3, rounds=100, end=1e-5)`` the optimiser is ``optax.adam(1.0)``. None for no change.

    Examples
    --------
    >>> import optax
    >>> solver = Optax(optax.adam(1e-3), epochs=5, batch_size=32)
    """

    optimiser: optax.GradientTransformation
    epochs: int = 1
    batch_size: int | None = 10
    schedule: RoundSchedule | None = None

    certified: ClassVar[bool] = False
    step_size: ClassVar[None] = None

    def __post_init__(self) -> None:
        batches.check(self)
        if self.schedule is not None:
            first(self.schedule)

    def num_steps(self, size: int) -> int:
        return batches.num_steps(size, self.epochs, self.batch_size)

    def work(self, size: int) -> float:
        distances = _distances(self.optimiser, _power_of_two(self.num_steps(size)))
        return float(distances[self.num_steps(size) - 1]) * first(self.schedule or 1.0)

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        return batches.shuffled(size, self.epochs, self.batch_size, rng)

    def init(self, sub: Subproblem, context: SolverContext) -> SolverState:
        memory = self.optimiser.init(sub.start)
        if self.schedule is not None:
            memory = (self.schedule(context.round), memory)
        return SolverState(sub.start, memory, error=jnp.nan, done=False)

    def step(self, state: SolverState, gradient: Tree) -> SolverState:
        factor, memory = (None, state.memory) if self.schedule is None else state.memory
        updates, memory = self.optimiser.update(gradient, memory, state.point)
        if factor is not None:
            updates, memory = tree.map(lambda a: factor * a, updates), (factor, memory)
        return state._replace(point=optax.apply_updates(state.point, updates), memory=memory)


def _power_of_two(steps: int) -> int:
    return 1 << (steps - 1).bit_length()


@lru_cache(maxsize=32)
def _distances(optimiser: optax.GradientTransformation, steps: int) -> NDArray[np.float32]:
    """Return how far each number of steps leads, from zero along a constant gradient of one."""

    def step(carry: tuple[jax.Array, Any], _: None) -> tuple[tuple[jax.Array, Any], jax.Array]:
        x, memory = carry
        updates, memory = optimiser.update(jnp.ones(()), memory, x)
        x = optax.apply_updates(x, updates)
        return (x, memory), jnp.abs(x)

    zero = jnp.zeros(())
    return np.asarray(jax.lax.scan(step, (zero, optimiser.init(zero)), None, length=steps)[1])
