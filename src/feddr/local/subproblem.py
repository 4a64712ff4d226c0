"""The subproblem: the one thing that an algorithm may ask of a client.

minimise over x:   phi(x) = f_i(x) + <v, x> + ||x - z||^2 / (2 eta),   started at s

How it is minimised is up to the solver, except for algorithms that prescribe the steps (descent.py).
"""

from typing import Any, NamedTuple

from feddr import tree
from feddr.local.descent import Descent
from feddr.tree import Tree


class Subproblem(NamedTuple):
    """minimise f_i(x) + <linear, x> + ||x - center||^2 / (2 eta), started at ``start``.

    Parameters
    ----------
    start
        Where the solver begins.
    center, eta
        The proximal term; without a center there is none.
    linear
        The linear term v; without it v = 0.
    descent
        The steps to take, where the algorithm prescribes them; g takes part in some of them.
    probe
        A point at which the gradient of f_i over all of the client's samples is wanted, too.
    last
        The client's last model, from which relative accuracies are measured; the start where there is none.
    """

    start: Tree
    center: Tree | None = None
    eta: float = float("inf")
    linear: Tree | None = None
    descent: Descent | None = None
    probe: Tree | None = None
    last: Tree | None = None

    def gradient(self, x: Tree, gradient: Tree) -> Tree:
        """Return the gradient of phi at x, given the gradient of f_i."""
        if self.linear is not None:
            gradient = tree.add(gradient, self.linear)
        if self.center is not None:
            gradient = tree.map(lambda d, a, z: d + (a - z) / self.eta, gradient, x, self.center)
        return gradient


class Solution(NamedTuple):
    """What a local solver returns.

    Parameters
    ----------
    x
        The approximate minimiser; a dual point after ``Dual`` steps.
    steps
        Number of gradients that were computed.
    error
        A bound on the distance to the exact minimiser; NaN where the solver certifies none.
    gradient
        Mean over the steps of the gradients of f_i that were computed, only where the algorithm asks for it; the
        gradient at the probe where the subproblem has one.
    length
        Sum of the step sizes, where the subproblem prescribes the steps.
    missed
        Whether the solver ended before its stopping rule held: after its last step, or by rounding; None without one.
    met
        The least and the largest curvature of f_i at the start x^0 and along the solver's steps, where it was estimated
        and tested; None where it is known, or of no use to the solver.
    """

    x: Tree
    steps: Any
    error: Any
    gradient: Tree | None = None
    length: Any = None
    missed: Any = None
    met: "Estimate | None" = None


class Curvature(NamedTuple):
    """Bounds l <= L on the eigenvalues of the Hessian of f_i."""

    lower: Any = float("nan")
    upper: Any = float("nan")


class Estimate(NamedTuple):
    """The eigenvalues of the Hessian of f_i at one point, or curvatures along some steps: elsewhere they differ."""

    lower: Any
    upper: Any


class SolverContext(NamedTuple):
    """What a solver may know beside the subproblem: the client's curvature and probability p_i, and the round k."""

    curvature: Curvature | Estimate = Curvature()
    round: Any = 0
    probability: Any = 1.0
