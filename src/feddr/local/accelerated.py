"""Nesterov's accelerated gradient method, which knows how far it is from the exact prox."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from feddr import limits, tree
from feddr.local.solver import Batches, State
from feddr.local.stopping import Stopping, Tolerance
from feddr.local.subproblem import Facts, Subproblem
from feddr.tree import Tree


class Memory(NamedTuple):
    """The last gradient step and the client's last model, what is known of phi and the client, and the progress so far.

    The eigenvalues of phi's Hessian lie between mu and smoothness; ``best`` is the least gradient norm, found
    ``since`` steps ago.
    """

    x: Tree
    last: Tree
    mu: Any
    smoothness: Any
    facts: Facts
    best: Any
    since: Any
    steps: Any


@dataclass(frozen=True)
class Accelerated:
    """Accelerated full gradients until the distance to the exact prox is small enough, for sure.

    With l <= eigenvalues of the Hessian of f_i <= L, phi is mu-strongly convex for mu = 1/eta + min(l, 0), and
    ||x - prox|| <= ||grad phi(x)|| / mu: the test that stops the solver and the error that it reports.

    Parameters
    ----------
    tol
        Largest distance to the exact minimiser.
    stopping
        Another rule instead: ``Absolute(M)``, ``Relative(theta_hat)`` or ``Epochs(E)``.
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
    stopping: Stopping | None = None
    max_steps: int = 10_000

    batch_size: ClassVar[None] = None
    certified: ClassVar[bool] = True
    step_size: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not 0 < self.tol < float("inf"):
            raise ValueError(f"tol must be positive, got {self.tol}.")
        limits.whole("max_steps", self.max_steps, 1)

    def num_steps(self, size: int) -> int:
        return self.max_steps

    def work(self, size: int) -> None:
        """Return nothing: it stops when it is accurate enough."""

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        return None

    @property
    def rule(self) -> Stopping:
        """The rule that stops it."""
        return Tolerance(self.tol) if self.stopping is None else self.stopping

    def init(self, sub: Subproblem, facts: Facts) -> State:
        mu = 1.0 / sub.eta + jnp.minimum(facts.curvature.lower, 0.0)
        smoothness = 1.0 / sub.eta + jnp.maximum(facts.curvature.upper, 0.0)
        dtype = jnp.result_type(*jax.tree.leaves(sub.start))
        infinity = jnp.asarray(jnp.inf, dtype)
        zero = jnp.int32(0)
        mu, smoothness, facts = tree.map(lambda a: jnp.asarray(a, dtype), (mu, smoothness, facts))
        last = sub.start if sub.last is None else sub.last
        memory = Memory(sub.start, last, mu, smoothness, facts, best=infinity, since=zero, steps=zero)
        return State(sub.start, memory, infinity, done=False)

    def step(self, state: State, gradient: Tree) -> State:
        memory: Memory = state.memory
        y, norm = state.point, _norm(gradient)
        root = jnp.sqrt(memory.mu / memory.smoothness)
        error = norm / memory.mu
        since = jnp.where(norm < memory.best, 0, memory.since + 1)
        steps, moved = memory.steps + 1, _norm(tree.sub(y, memory.last))
        done = self.rule.holds(error, moved, steps, memory.facts) | (since > 20 / root)

        beta = (1 - root) / (1 + root)
        x = tree.map(lambda a, d: a - d / memory.smoothness, y, gradient)
        following = tree.map(lambda new, old: new + beta * (new - old), x, memory.x)
        point = tree.map(lambda a, b: jnp.where(done, a, b), y, following)
        memory = memory._replace(x=x, best=jnp.minimum(norm, memory.best), since=since, steps=steps)
        return State(point, memory, jnp.where(done, error, jnp.inf), done)


def _norm(a: Tree) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(a)))
