"""Nesterov's accelerated gradient method, which knows how far it is from the exact prox."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.local.solver import Batches, SolverState
from feddr.local.stopping import Stopping, Tolerance
from feddr.local.subproblem import Estimate, SolverContext, Subproblem
from feddr.tree import Tree
from feddr.validation import scalars

ROUNDING = 1e3
"""Rounding of a gradient, at most, in units of eps M (1 + ||x||); less does not show a curvature below mu."""


class Trial(NamedTuple):
    """A step under test: from y, where the gradient is ``slope``; ``on`` while the solver waits for that at its end.

    ``taken`` counts the steps that passed; the curvature of f_i met on the way is that of phi less ``pull`` = 1/eta.
    """

    on: Any
    y: Tree
    slope: Tree
    taken: Any
    pull: Any
    met: Estimate


class Memory(NamedTuple):
    """The last gradient step and the client's last model, what is known of phi and the client, and the progress so far.

    The eigenvalues of phi's Hessian lie between mu and smoothness; ``best`` is the least gradient norm, found
    ``since`` gradients ago. Steps are tested where the curvature is an estimate: there is a trial then.
    """

    x: Tree
    last: Tree
    mu: Any
    smoothness: Any
    context: SolverContext
    best: Any
    since: Any
    steps: Any
    trial: Trial | None


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
        A limit on the gradients that should not be met; where it is, the error is reported as infinite.

    Raises
    ------
    ValueError
        Where tol is not positive, or max_steps is not a whole number of 1 or more.

    Notes
    -----
    The iteration is x+ = y - grad phi(y) / M, y+ = x+ + beta (x+ - x) with M = L + 1/eta, q = mu / M,
    beta = (1 - sqrt q) / (1 + sqrt q) (Nesterov 2018, scheme 2.2.22). The gradient falls by exp(-10) or more in
    20 / sqrt q steps; where it has not fallen at all in as many, rounding is in the way, and the solver ends with the
    error that it reached.

    The bounds (l, L) are those of the problem if it has them (``Problem.curvature``). Else they are estimates at the
    start x^0, which need not hold where the solver comes to, and every step is tested. The scheme needs
    phi(x+) <= phi(y) - ||grad phi(y)||^2 / (2 M). Since phi(y) >= phi(x+) + <grad phi(x+), y - x+> + mu/2 ||y - x+||^2,

        <grad phi(x+), grad phi(y)> >= (1 - mu / M) / 2 ||grad phi(y)||^2

    is enough. Where it fails, M is doubled and the scheme restarts at y. It compares gradients and no values of phi,
    whose differences are lost to rounding near the solution, and costs a second gradient a step. Where rounding decides
    it, M grows until a step no longer moves y, and the solver ends there.

    The error needs no L. For a convex f_i it is a bound, whatever was estimated; else it holds if f_i is nowhere more
    concave than at x^0 and along the steps, whose curvature <grad phi(y) - grad phi(x+), y - x+> / ||y - x+||^2 lowers
    mu where it is less. Where that leaves nothing of mu the solver ends, with an infinite error. The range of the
    curvatures that it met is a part of the solution: no L below them is right.

    Examples
    --------
    >>> Accelerated(tol=1e-10)
    Accelerated(tol=1e-10, stopping=None, max_steps=10000)
    >>> Accelerated().certified, Accelerated().rule
    (True, Tolerance(tol=1e-08))
    """

    tol: float = 1e-8
    stopping: Stopping | None = None
    max_steps: int = 10_000

    batch_size: ClassVar[None] = None
    certified: ClassVar[bool] = True
    step_size: ClassVar[None] = None

    def __post_init__(self) -> None:
        scalars.positive(self, "tol")
        scalars.count(self, "max_steps", 1)

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

    def init(self, sub: Subproblem, context: SolverContext) -> SolverState:
        mu = 1.0 / sub.eta + jnp.minimum(context.curvature.lower, 0.0)
        smoothness = 1.0 / sub.eta + jnp.maximum(context.curvature.upper, 0.0)
        dtype = jnp.result_type(*jax.tree.leaves(sub.start))
        infinity = jnp.asarray(jnp.inf, dtype)
        zero = jnp.int32(0)
        mu, smoothness, context = tree.map(lambda a: jnp.asarray(a, dtype), (mu, smoothness, context))
        last = sub.start if sub.last is None else sub.last
        trial = None
        if isinstance(context.curvature, Estimate):
            still, pull = tree.map(jnp.zeros_like, sub.start), jnp.asarray(1.0 / sub.eta, dtype)
            trial = Trial(jnp.asarray(False), sub.start, still, zero, pull, context.curvature)
        memory = Memory(sub.start, last, mu, smoothness, context, infinity, since=zero, steps=zero, trial=trial)
        return SolverState(sub.start, memory, infinity, False, missed=True, met=None if trial is None else trial.met)

    def step(self, state: SolverState, gradient: Tree) -> SolverState:
        memory: Memory = state.memory
        memory = memory._replace(steps=memory.steps + 1)
        if memory.trial is None:
            return self._step(state.point, gradient, memory)
        return self._tested(state.point, gradient, memory, memory.trial)

    def _step(self, y: Tree, gradient: Tree, memory: Memory) -> SolverState:
        """Take a step from y, where M and mu are bounds."""
        norm = _norm(gradient)
        root = jnp.sqrt(memory.mu / memory.smoothness)
        error = norm / memory.mu
        since = jnp.where(norm < memory.best, 0, memory.since + 1)
        moved = _norm(tree.sub(y, memory.last))
        holds = self.rule.holds(error, moved, memory.steps - 1, memory.context)
        done = holds | (since > 20 / root)

        x = _descend(y, gradient, memory.smoothness)
        point = _where(done, y, _extrapolate(x, memory.x, root))
        memory = memory._replace(x=x, best=jnp.minimum(norm, memory.best), since=since)
        return SolverState(point, memory, jnp.where(done, error, jnp.inf), done, ~holds)

    def _tested(self, point: Tree, gradient: Tree, memory: Memory, trial: Trial) -> SolverState:
        """Take a step from y, or accept or reject a trial step, where M and mu are estimates."""
        y = _where(trial.on, trial.y, point)
        norm, slope, size = _norm(gradient), _norm(trial.slope), _norm(y)
        finite, eps = jnp.isfinite(norm), float(np.finfo(norm.dtype).eps)
        smoothness = memory.smoothness

        ratio = jnp.where(trial.on, _dot(gradient, trial.slope) / slope**2, 1)
        bend = smoothness * (1 - ratio)
        rounding = ROUNDING * eps * smoothness**2 * (1 + size) / slope
        mu = jnp.where(trial.on & finite & (bend + rounding < memory.mu), jnp.maximum(bend, 0), memory.mu)
        kept = trial.on & finite & (ratio >= (1 - mu / smoothness) / 2)
        failed = trial.on & ~kept
        taken = trial.taken + kept
        met = Estimate(
            jnp.where(trial.on & finite, jnp.minimum(trial.met.lower, bend + rounding - trial.pull), trial.met.lower),
            jnp.where(trial.on & finite, jnp.maximum(trial.met.upper, bend - rounding - trial.pull), trial.met.upper),
        )
        smoothness = jnp.where(failed, 2 * smoothness, smoothness)
        root = jnp.sqrt(mu / smoothness)

        error = jnp.where(mu > 0, norm / mu, jnp.inf)
        since = jnp.where(norm < memory.best, 0, memory.since + 1)
        moved = _norm(tree.sub(point, memory.last))
        holds = finite & self.rule.holds(error, moved, taken, memory.context)
        still = jnp.where(failed, slope, norm) <= eps * smoothness * size
        stuck = still | (since > 40 / root) | (mu <= 0)
        lost = ~finite & (memory.steps == 1)
        done = holds | stuck | lost | (memory.steps >= self.max_steps)
        error = jnp.where(holds, error, jnp.where(stuck & finite, jnp.where(failed, slope, norm) / mu, jnp.inf))

        away = ~trial.on & ~finite  # the momentum has led to where phi is not finite
        down = _where(trial.on, trial.slope, gradient)
        following = _where(kept, _extrapolate(point, memory.x, root), _descend(y, down, smoothness))
        following = _where(away & ~lost, memory.x, following)
        ending = _where(holds | kept, point, _where(away & ~lost, memory.x, _where(lost, gradient, y)))
        memory = memory._replace(
            x=_where(kept, point, _where(failed, y, memory.x)),
            mu=mu,
            smoothness=smoothness,
            best=jnp.fmin(norm, memory.best),
            since=since,
            trial=Trial(~kept & ~away, y, down, taken, trial.pull, met),
        )
        return SolverState(_where(done, ending, following), memory, jnp.where(done, error, jnp.inf), done, ~holds, met)


def _descend(y: Tree, gradient: Tree, smoothness: Any) -> Tree:
    return tree.map(lambda a, d: a - d / smoothness, y, gradient)


def _extrapolate(x: Tree, before: Tree, root: Any) -> Tree:
    beta = (1 - root) / (1 + root)
    return tree.map(lambda new, old: new + beta * (new - old), x, before)


def _where(condition: Any, a: Tree, b: Tree) -> Tree:
    return tree.map(lambda one, other: jnp.where(condition, one, other), a, b)


def _dot(a: Tree, b: Tree) -> jax.Array:
    return jnp.asarray(sum(jax.tree.leaves(tree.map(lambda one, other: jnp.sum(one * other), a, b))))


def _norm(a: Tree) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(a)))
