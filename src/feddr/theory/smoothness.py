"""How smooth a problem is: bounds on the Hessians of its clients, known or estimated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
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

    def __str__(self) -> str:
        return f"L = {self.L:.4g}" if self.exact else f"L = {self.L:.4g} (estimate)"


def smoothness(
    problem: "Problem", points: Sequence[Any] = (), *, radius: float = 0.0, draws: int = 3, seed: int = 0
) -> Smoothness:
    """Return bounds on the curvature of every client.

    Where the problem knows them (``Problem.curvature``; least squares and logistic regression with linear models do)
    they are exact. Else they are estimated by the Lanczos method on Hessian-vector products at the start and the given
    points, and at random points around them.

    Parameters
    ----------
    points
        Where to look besides the start, such as the end of a run.
    radius
        Random points are drawn with this standard deviation in each entry around each point; 0 for none.
    draws
        Random points for each point.
    """
    n = problem.data.num_clients
    known = [problem.known_curvature(i) for i in range(n)]
    if all(bounds is not None for bounds in known):
        lowers, uppers = np.array(known, dtype=np.float64).T
        return Smoothness(lowers, uppers, exact=True)

    from feddr import tree
    from feddr.engines.compiled import CompiledClients
    from feddr.engines.evaluate import Evaluator
    from feddr.local import SGD
    from feddr.problem import Problem

    if not isinstance(problem, Problem):
        raise ValueError(
            f"Only the smoothness of a loss in JAX can be estimated, got a {type(problem).__name__}; give it "
            "curvature=(l, L), or the algorithm numbers for eta and alpha."
        )
    if radius < 0 or draws < 1:
        raise ValueError(f"radius must be at least 0 and draws at least 1, got {radius} and {draws}.")
    rng = np.random.default_rng(seed)
    places = [tree.cast(x, np.float64) for x in (problem.init, *points)]
    if radius:
        around = [tree.map(lambda a: a + radius * rng.normal(size=a.shape), x) for x in places for _ in range(draws)]
        places = places + around
    samples = Evaluator(problem, np.float64).samples if problem.data.on_demand is None else None
    clients = CompiledClients(problem, samples, SGD(lr=1.0), np.float64, False)
    found = np.array([[clients.curvature_at(i, x) for x in places] for i in range(n)])
    return Smoothness(found[:, :, 0].min(axis=1), found[:, :, 1].max(axis=1), exact=False)
