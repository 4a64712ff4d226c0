"""Nesterov's accelerated gradient method, stopped by a certificate."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.local.solver import Batches, State
from feddr.local.subproblem import Curvature, Subproblem
from feddr.tree import Tree


class Memory(NamedTuple):
    """The last gradient step, what is known of phi (mu <= its curvature <= smoothness), and the progress so far."""

    x: Tree
    mu: Any
    smoothness: Any
    best: Any
    since: Any


@dataclass(frozen=True)
class Accelerated:
    """Accelerated full gradients until the distance to the exact prox is at most ``tol``, for sure.

    With l <= eigenvalues of the Hessian of f_i <= L, phi is mu-strongly convex for mu = 1/eta + min(l, 0), and
    ||x - prox|| <= ||grad phi(x)|| / mu: the test that stops the solver and the error that it reports.

    Parameters
    ----------
    tol
        Largest distance to the exact minimiser.
    max_steps
        A limit that should not be met; where it is, the error is reported as infinite.

    Notes
    -----
    The iteration is x+ = y - grad phi(y) / M, y+ = x+ + beta (x+ - x) with M = L + 1/eta, q = mu / M,
    beta = (1 - sqrt q) / (1 + sqrt q) (Nesterov 2018, scheme 2.2.22). The gradient falls by exp(-10) or more in
    20 / sqrt q steps; where it has not fallen at all in as many, rounding is in the way, and the solver ends with the
    error that it reached.

    The bounds (l, L) are those of the problem if it has them (``Problem.curvature``), else estimates at the start x^0.
    """

    tol: float = 1e-8
    max_steps: int = 10_000

    batch_size: ClassVar[None] = None
    needs_curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.tol < float("inf"):
            raise ValueError(f"tol must be positive, got {self.tol}.")
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}.")

    def num_steps(self, size: int) -> int:
        return self.max_steps

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        return None

    def init(self, sub: Subproblem, curvature: Curvature) -> State:
        mu = 1.0 / sub.eta + jnp.minimum(curvature.lower, 0.0)
        smoothness = 1.0 / sub.eta + jnp.maximum(curvature.upper, 0.0)
        dtype = jnp.result_type(*jax.tree.leaves(sub.start))
        infinity = jnp.asarray(jnp.inf, dtype)
        memory = Memory(sub.start, jnp.asarray(mu, dtype), jnp.asarray(smoothness, dtype), infinity, jnp.int32(0))
        return State(sub.start, memory, infinity, done=False)

    def step(self, state: State, gradient: Tree) -> State:
        memory: Memory = state.memory
        y, norm = state.point, _norm(gradient)
        root = jnp.sqrt(memory.mu / memory.smoothness)
        error = norm / memory.mu
        since = jnp.where(norm < memory.best, 0, memory.since + 1)
        done = (error <= self.tol) | (since > 20 / root)

        beta = (1 - root) / (1 + root)
        x = tree.map(lambda a, d: a - d / memory.smoothness, y, gradient)
        following = tree.map(lambda new, old: new + beta * (new - old), x, memory.x)
        point = tree.map(lambda a, b: jnp.where(done, a, b), y, following)
        memory = memory._replace(x=x, best=jnp.minimum(norm, memory.best), since=since)
        return State(point, memory, jnp.where(done, error, jnp.inf), done)


def _norm(a: Tree) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(a)))
