"""What a local solver is, and the one loop that runs it."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.local import descent
from feddr.local.subproblem import Estimate, Solution, SolverContext, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree


class Batches(NamedTuple):
    """The rows of a client's samples that each step uses: the first ``used[t]`` entries of ``rows[t]``.

    Parameters
    ----------
    rows
        Of shape (steps, batch_size): numbers of samples of the client, from 0.
    used
        Of shape (steps,): from 1 to batch_size.

    Examples
    --------
    >>> batches = Batches(rows=np.array([[4, 0], [2, 0]], np.int32), used=np.array([2, 1], np.int32))
    >>> [rows[:used].tolist() for rows, used in zip(*batches)]  # the second step uses one row
    [[4, 0], [2]]
    """

    rows: NDArray[np.int32]
    used: NDArray[np.int32]


class SolverState(NamedTuple):
    """Where a solver stands.

    Parameters
    ----------
    point
        Where the next gradient is wanted; the result once the loop has ended.
    memory
        What the solver carries from step to step: momentum, moments, its own step size.
    error
        A bound on the distance from ``point`` to the exact minimiser, NaN where there is none.
    done
        Whether to stop before the last step.
    missed
        Whether the solver's stopping rule does not hold at ``point``; None for a solver without one.
    met
        The curvatures of f_i that the solver met, as in ``Solution``.
    """

    point: Tree
    memory: Any
    error: Any
    done: Any
    missed: Any = None
    met: Estimate | None = None


class LocalSolver(Protocol):
    """A way to solve the subproblem: what is done with one gradient of phi.

    A solver sees neither data nor loss. It says which rows each step uses, or that every step uses all of them.

    Examples
    --------
    >>> import feddr
    >>> solver: LocalSolver = feddr.local.SGD(lr=0.1, batch_size=4)
    >>> solver.num_steps(10), solver.step_size, solver.certified
    (3, 0.1, False)
    """

    @property
    def batch_size(self) -> int | None:
        """Rows in a step, None for all rows of the client."""

    @property
    def certified(self) -> bool:
        """Whether it bounds its own error, for which it needs to know the curvature of f_i."""

    @property
    def step_size(self) -> float | None:
        """The lr of a solver whose steps are x := x - lr grad phi(x), None for any other.

        Where lr changes from round to round, it is that of the first, and the solver has a method ``rate(k)``.
        """

    def num_steps(self, size: int) -> int:
        """Return the number of steps, at most, for a client with ``size`` samples."""

    def work(self, size: int) -> float | None:
        """Return how far all steps together lead along a constant gradient of one, lr x steps; None if it varies."""

    def batches(self, size: int, rng: np.random.Generator) -> Batches | None:
        """Return the rows of each step, None where every step uses all rows."""

    def init(self, sub: Subproblem, context: SolverContext) -> SolverState:
        """Return the first state."""

    def step(self, state: SolverState, gradient: Tree) -> SolverState:
        """Return the next state, given the gradient of phi at ``state.point``."""


def solve(
    solver: LocalSolver,
    sub: Subproblem,
    oracle: Callable[[Tree, Any], Tree],
    steps: Any,
    context: SolverContext,
    needs_gradient: bool,
    prox: Prox,
) -> Solution:
    """Run ``solver`` on ``sub`` in one traceable loop.

    Parameters
    ----------
    oracle
        From (x, t) to the gradient of f_i at x on the rows of step t.
    steps
        The number of steps at most; it may be traced, so clients of all sizes share one compiled loop.
    needs_gradient
        Whether to return the mean of the gradients of f_i.
    prox
        From (x, eta) to prox_{eta g}(x), for steps in which g takes part.

    Raises
    ------
    ValueError
        Where the subproblem prescribes plain steps and the solver takes others.

    Examples
    --------
    >>> import feddr
    >>> sub = Subproblem(start=jnp.zeros(2))
    >>> solution = solve(
    ...     feddr.local.SGD(lr=1.0, batch_size=None),
    ...     sub,
    ...     oracle=lambda x, t: x - jnp.array([1.0, 2.0]),
    ...     steps=1,
    ...     context=SolverContext(),
    ...     needs_gradient=True,
    ...     prox=lambda x, eta: x,
    ... )
    >>> solution.x.tolist(), int(solution.steps), solution.gradient.tolist()
    ([1.0, 2.0], 1, [-1.0, -2.0])
    """
    lr = 0.0 if sub.descent is None else descent.length(solver, context.round)
    if sub.descent is not None:
        sub = sub._replace(start=sub.descent.begin(sub.start, prox))

    def unfinished(carry: tuple[Any, SolverState, Tree]) -> Any:
        t, state, _ = carry
        return (t < steps) & jnp.logical_not(state.done)

    def step(carry: tuple[Any, SolverState, Tree]) -> tuple[Any, SolverState, Tree]:
        t, state, total = carry
        x = state.point if sub.descent is None else sub.descent.model(state.point, lr * t, prox)
        gradient = oracle(x, t)
        state = solver.step(state, sub.gradient(x, gradient))
        if sub.descent is not None:
            state = state._replace(point=sub.descent.follow(state.point, lr, prox))
        return t + 1, state, tree.add(total, gradient) if needs_gradient else None

    total = tree.map(jnp.zeros_like, sub.start) if needs_gradient else None
    t, state, total = jax.lax.while_loop(unfinished, step, (jnp.int32(0), solver.init(sub, context), total))
    mean = tree.map(lambda a: a / jnp.maximum(t, 1).astype(a.dtype), total) if needs_gradient else None
    length = None if sub.descent is None else lr * t
    return Solution(state.point, t, state.error, mean, length, state.missed, state.met)
