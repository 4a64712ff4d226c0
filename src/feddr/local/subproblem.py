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
        Where the solver begins: a tree of arrays with the structure and the shapes of the parameters.
    center, eta
        The proximal term: a tree like ``start``, and a scalar; without a center there is none.
    linear
        The linear term v, a tree like ``start``; without it v = 0.
    descent
        The steps to take, where the algorithm prescribes them; g takes part in some of them.
    probe
        A point, a tree like ``start``, at which the gradient of f_i over all of the client's samples is wanted, too.
    last
        The client's last model, a tree like ``start``, from which relative accuracies are measured; the start where
        there is none.

    Examples
    --------
    >>> import numpy as np
    >>> sub = Subproblem(start=np.zeros(2), center=np.array([1.0, 2.0]), eta=0.5)
    >>> sub.gradient(np.ones(2), gradient=np.zeros(2)).tolist()  # where that of f_i is zero
    [0.0, -2.0]
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
        The approximate minimiser, a tree with the structure and the shapes of the parameters; a dual point after
        ``Dual`` steps.
    steps
        Number of gradients that were computed, a scalar.
    error
        A bound on the distance to the exact minimiser, a scalar; NaN where the solver certifies none.
    gradient
        Mean over the steps of the gradients of f_i that were computed, a tree like ``x``, only where the algorithm asks
        for it; the gradient at the probe where the subproblem has one.
    length
        Sum of the step sizes, a scalar, where the subproblem prescribes the steps.
    missed
        Whether the solver ended before its stopping rule held: after its last step, or by rounding; None without one.
    met
        The least and the largest curvature of f_i at the start x^0 and along the solver's steps, where it was estimated
        and tested; None where it is known, or of no use to the solver.
    draw
        A whole number below 2**64, another one for each update, from which random choices of a compressed upload
        follow; engines set it where uploads are compressed.

    Examples
    --------
    >>> import numpy as np
    >>> solution = Solution(x=np.ones(2), steps=10, error=1e-6)
    >>> solution.gradient is None
    True
    """

    x: Tree
    steps: Any
    error: Any
    gradient: Tree | None = None
    length: Any = None
    missed: Any = None
    met: "Estimate | None" = None
    draw: int | None = None


class Curvature(NamedTuple):
    """Bounds l <= L on the eigenvalues of the Hessian of f_i.

    Examples
    --------
    >>> Curvature(0.0, 2.5)
    Curvature(lower=0.0, upper=2.5)
    """

    lower: Any = float("nan")
    upper: Any = float("nan")


class Estimate(NamedTuple):
    """The eigenvalues of the Hessian of f_i at one point, or curvatures along some steps: elsewhere they differ.

    Examples
    --------
    >>> Estimate(lower=-0.1, upper=3.0)
    Estimate(lower=-0.1, upper=3.0)
    """

    lower: Any
    upper: Any


class SolverContext(NamedTuple):
    """What a solver may know beside the subproblem: the client's curvature and probability p_i, and the round k.

    Examples
    --------
    >>> SolverContext(Curvature(0.0, 2.5), round=3, probability=0.1)
    SolverContext(curvature=Curvature(lower=0.0, upper=2.5), round=3, probability=0.1)
    """

    curvature: Curvature | Estimate = Curvature()
    round: Any = 0
    probability: Any = 1.0
