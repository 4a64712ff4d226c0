"""How smooth a problem is: bounds on the Hessians of its clients, known or estimated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from feddr.algorithms.algorithm import ProblemLike
    from feddr.problem import Problem


@dataclass(frozen=True)
class Smoothness:
    """Bounds on the eigenvalues of the Hessians of f_1, ..., f_n.

    Parameters
    ----------
    lowers, uppers
        The bounds of each client.
    exact
        Whether they hold everywhere; else they are estimates from some points.

    Examples
    --------
    >>> found = Smoothness(np.array([0.0, -0.5]), np.array([2.0, 3.0]), exact=True)
    >>> found.per_client.tolist(), found.L, found.lower
    ([2.0, 3.0], 3.0, -0.5)
    """

    lowers: NDArray[np.float64]
    uppers: NDArray[np.float64]
    exact: bool

    @property
    def per_client(self) -> NDArray[np.float64]:
        """The smoothness L_i of each client: the largest absolute value of its bounds."""
        return np.maximum(np.abs(self.lowers), np.abs(self.uppers))

    @property
    def L(self) -> float:
        """The smoothness of all clients: max_i L_i."""
        return float(self.per_client.max())

    @property
    def lower(self) -> float:
        """The least eigenvalue of any client."""
        return float(self.lowers.min())

    def including(self, met: Mapping[int, tuple[float, float]]) -> "Smoothness":
        """Return these bounds, or wider ones where a client has met curvatures (least, largest) beyond them."""
        lowers, uppers = self.lowers.copy(), self.uppers.copy()
        for i, (least, largest) in met.items():
            lowers[i], uppers[i] = min(lowers[i], least), max(uppers[i], largest)
        return Smoothness(lowers, uppers, self.exact)

    def words(self, L: float) -> str:
        """Say where L comes from: this one, or one that was made of it."""
        if self.exact:
            return f"The smoothness L = {L:.4g} is known for this loss"
        return (
            f"The smoothness L = {L:.4g} is an estimate, at the start and after a short descent, by Lanczos iteration: "
            "where the loss is more curved, nothing is guaranteed"
        )

    def __str__(self) -> str:
        return f"L = {self.L:.4g}" if self.exact else f"L = {self.L:.4g} (estimate)"


def smoothness(
    problem: "ProblemLike", points: Sequence[Any] = (), *, radius: float = 0.0, draws: int = 3, seed: int = 0
) -> Smoothness:
    """Return bounds on the curvature of every client.

    Where the problem knows them (``Problem.curvature``; least squares and logistic regression with linear models do)
    they are exact. Else they are estimates, and no bounds: by the Lanczos method on Hessian-vector products at the
    start, after a short descent from it, at the given points, and at random points around all of them.

    Parameters
    ----------
    points
        Where else to look, such as the end of a run.
    radius
        Random points are drawn with this standard deviation in each entry around each point; 0 for none.
    draws
        Random points for each point.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> found = smoothness(problem)
    >>> found.exact, round(found.L, 3)
    (True, 1.5)
    """
    n = problem.data.num_clients
    known = [problem.known_curvature(i) for i in range(n)]
    if all(bounds is not None for bounds in known):
        lowers, uppers = np.array(known, dtype=np.float64).T
        return Smoothness(lowers, uppers, exact=True)

    from feddr import precision, tree
    from feddr.problem import Problem
    from feddr.theory.curvature import ClientCurvature

    if not isinstance(problem, Problem):
        raise ValueError(
            f"Only the smoothness of a loss in JAX can be estimated, got a {type(problem).__name__}; give it "
            "curvature=(l, L), or the algorithm numbers for eta and alpha."
        )
    if radius < 0 or draws < 1:
        raise ValueError(f"radius must be at least 0 and draws at least 1, got {radius} and {draws}.")
    rng = np.random.default_rng(seed)
    samples = None
    if problem.data.on_demand is None:
        samples = precision.samples(problem.data.train.samples, np.float64)
    clients = ClientCurvature(problem, samples, np.float64)
    x0 = tree.cast(problem.init, np.float64)
    at_start = [clients.at(i, x0) for i in range(n)]
    places = [_descended(problem, max(one.upper for one in at_start)), *points]
    if radius:
        around = (x0, *places)
        places += [tree.map(lambda a: a + radius * rng.normal(size=a.shape), x) for x in around for _ in range(draws)]
    extremes = np.array([[at_start[i], *(clients.at(i, x) for x in places)] for i in range(n)])
    return Smoothness(extremes[:, :, 0].min(axis=1), extremes[:, :, 1].max(axis=1), exact=False)


DESCENT = 30
"""Proximal gradient steps, at most, after which the curvature is looked at again."""


def _descended(problem: "Problem", L: float) -> Any:
    """Return where proximal gradient steps on F lead to from x^0, each as long as 1/L allows: L doubles where it must.

    The start may be flat where the way is not: the losses of outliers are, and all samples are outliers at first.
    """
    from feddr import tree
    from feddr.prox.compiled import compiled_prox

    prox = compiled_prox(problem.regulariser)
    x = tree.cast(problem.init, np.float64)
    f, gradient = problem.value_and_gradient(x)
    if not np.isfinite(f):
        return x
    L = max(L, 1e-3 * tree.norm(gradient) / (1 + tree.norm(x)), 1e-12)
    for _ in range(DESCENT):
        for _ in range(100):
            new = prox(tree.axpy(-1 / L, gradient, x), 1 / L)
            step = tree.sub(new, x)
            slope = sum(float(np.vdot(a, b)) for a, b in zip(tree.leaves(gradient), tree.leaves(step), strict=True))
            there, next_gradient = problem.value_and_gradient(new)
            if there <= f + slope + L / 2 * tree.norm(step) ** 2 + 1e-12 * abs(f):
                break
            L *= 2
        else:
            return x
        x, f, gradient = new, there, next_gradient
        if tree.norm(step) <= 1e-6 * (1 + tree.norm(x)):
            break
    return x
