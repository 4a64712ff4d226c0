"""Prescribed local steps: plain, proximal and dual gradient steps, for algorithms that are defined by them.

Most algorithms leave the way to their local solver. A few are defined by it: their clients take plain steps of a known
length lr, with the proximal operator of g in one of several places. Only a solver that takes such steps can serve them.
"""

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp

from feddr import tree
from feddr.prox.regulariser import Prox
from feddr.tree import Tree


class Descent(Protocol):
    """What surrounds a step of length lr, of which ``taken`` is the sum so far."""

    def begin(self, start: Tree, prox: Prox, /) -> Tree:
        """Return the point from which the solver starts, given that of the subproblem."""

    def model(self, point: Tree, taken: Any, prox: Prox, /) -> Tree:
        """Return where the gradient is to be computed, given the point that the solver moves."""

    def follow(self, point: Tree, lr: Any, prox: Prox, /) -> Tree:
        """Return the point at which the next step starts, given the one that the solver has moved to."""


class Plain(NamedTuple):
    """x := x - lr grad phi(x), which leaves g to the server."""

    def begin(self, start: Tree, prox: Prox) -> Tree:
        return start

    def model(self, point: Tree, taken: Any, prox: Prox) -> Tree:
        return point

    def follow(self, point: Tree, lr: Any, prox: Prox) -> Tree:
        return point


class Proximal(NamedTuple):
    """x := prox_{lr g}(x - lr grad phi(x)): proximal gradient steps for phi + g."""

    def begin(self, start: Tree, prox: Prox) -> Tree:
        return start

    def model(self, point: Tree, taken: Any, prox: Prox) -> Tree:
        return point

    def follow(self, point: Tree, lr: Any, prox: Prox) -> Tree:
        return prox(point, lr)


class Dual(NamedTuple):
    """z := z - lr grad phi(prox_{tau g}(z)), tau := tau + lr: dual averaging for phi + g, started at (z, tau).

    The solver starts at the dual point z and returns one.
    """

    tau: Any

    def begin(self, start: Tree, prox: Prox) -> Tree:
        return start

    def model(self, point: Tree, taken: Any, prox: Prox) -> Tree:
        return _prox(point, self.tau + taken, prox)

    def follow(self, point: Tree, lr: Any, prox: Prox) -> Tree:
        return point


class Decoupled(NamedTuple):
    """z := z - lr grad phi(prox_{t lr g}(z)) in step t = 0, 1, ..., from prox_{eta g} of the subproblem's start.

    The solver returns the point z before the prox. With eta = 0 it starts at the subproblem's start itself.
    """

    eta: Any

    def begin(self, start: Tree, prox: Prox) -> Tree:
        return tree.map(lambda a, b: jnp.where(self.eta > 0, a, b), _prox(start, self.eta, prox), start)

    def model(self, point: Tree, taken: Any, prox: Prox) -> Tree:
        return _prox(point, taken, prox)

    def follow(self, point: Tree, lr: Any, prox: Prox) -> Tree:
        return point


def _prox(point: Tree, eta: Any, prox: Prox) -> Tree:
    """Return prox_{eta g}, also for eta = 0: those of feddr.prox take it, others may divide by it."""
    return prox(point, jnp.maximum(eta, 1e-30))


def length(solver: Any, k: Any) -> Any:
    """Return the length lr of the solver's steps in round k, and refuse a solver whose steps are not plain ones."""
    if solver.step_size is None:
        raise ValueError(
            f"The algorithm's rules prescribe plain gradient steps, got local={solver}; use SGD without momentum."
        )
    return solver.rate(k) if hasattr(solver, "rate") else float(solver.step_size)
