"""The curvature of the f_i: what the problem knows, and estimates from Hessian-vector products."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.local.gradients import ClientRows, full_gradient, own_samples
from feddr.local.subproblem import Curvature, Estimate
from feddr.problem import Problem
from feddr.tree import Tree
from feddr.xla import batching


class ClientCurvature:
    """The curvature of each f_i, with compiled Hessian-vector products that all clients share.

    Parameters
    ----------
    samples
        The training samples of all clients on the device; None where clients make theirs on demand.
    """

    def __init__(self, problem: Problem, samples: Tree | None, dtype: Any) -> None:
        self.problem, self.samples, self.dtype = problem, samples, np.dtype(dtype)

        # It must not refer to self: samples would stay on the device until the garbage collector comes.
        def hessian(samples: Tree, x: Tree, v: Tree, rows: ClientRows) -> Tree:
            oracle = full_gradient(problem.loss, samples, rows)
            return jax.jvp(lambda x: oracle(x, 0), (x,), (v,))[1]

        self._hessian = jax.jit(hessian, compiler_options=batching.compiler_options(tree.size(problem.init)))
        self._bounds: dict[int, Curvature | Estimate] = {}

    def bounds(self, client: int) -> Curvature | Estimate:
        """Return the problem's own bounds on the Hessian of f_i, or an estimate at x^0."""
        if client not in self._bounds:
            known = self.problem.known_curvature(client)
            self._bounds[client] = Estimate(*self.at(client, self.problem.init)) if known is None else Curvature(*known)
        return self._bounds[client]

    def strongly_convex(self, client: int, eta: float, solver: str) -> Curvature | Estimate:
        """Return the bounds of a client whose subproblem they make strongly convex, and refuse any other."""
        curvature = self.bounds(client)
        if math.isnan(curvature.lower):
            raise not_finite(client)
        if not 1.0 / eta + min(curvature.lower, 0.0) > 0:
            remedy = f"take eta below {-1.0 / curvature.lower:.3g}" if curvature.lower < 0 else "add a proximal term"
            raise ValueError(
                f"{solver} certifies strongly convex subproblems only: f_{client} has Hessian eigenvalues from "
                f"{curvature.lower:.3g} to {curvature.upper:.3g}, got eta={eta:.3g}; {remedy}, or use SGD."
            )
        return curvature

    def at(self, client: int, x: Tree) -> Curvature:
        """Return the least and the largest eigenvalue of the Hessian of f_i at x."""
        x, data = tree.cast(x, self.dtype), self.problem.data
        own = self.samples is None
        samples = own_samples(data, client, self.dtype) if own else self.samples
        rows = ClientRows(np.int32(0 if own else data.train.offsets[client]), np.int32(data.sizes[client]))

        def product(v: Tree) -> Tree:
            with precision.scope(self.dtype):
                return tree.map(np.asarray, self._hessian(samples, x, v, rows))

        return lanczos(product, x)


def lanczos(hessian: Callable[[Tree], Tree], x: Tree, steps: int = 40) -> Curvature:
    """Estimate the least and the largest eigenvalue of a symmetric operator on trees like x (Lanczos 1950).

    The extreme Ritz values lie within the spectrum; each is moved outwards by its residual, which vanishes when the
    Krylov space is exhausted, so the result is exact (to rounding) for trees with at most ``steps`` entries. It is NaN
    where the operator is not finite.

    Parameters
    ----------
    hessian
        From a direction v to H v.
    x
        A tree with the shape of the directions.
    steps
        Number of products H v at most.
    """
    leaves, structure = jax.tree.flatten(tree.map(np.asarray, x))
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def apply(v: NDArray[np.float64]) -> NDArray[np.float64]:
        pieces = zip(np.split(v, cuts), leaves, strict=True)
        direction = jax.tree.unflatten(
            structure, [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in pieces]
        )
        return np.concatenate([np.ravel(a) for a in tree.leaves(hessian(direction))]).astype(np.float64)

    dimension = sum(leaf.size for leaf in leaves)
    v = np.random.default_rng(0).normal(size=dimension)
    basis = [v / np.linalg.norm(v)]
    diagonal: list[float] = []
    off: list[float] = []
    for _ in range(min(steps, dimension)):
        u = apply(basis[-1])
        diagonal.append(float(u @ basis[-1]))
        if not np.isfinite(diagonal[-1]):
            return Curvature()
        for _ in range(2):  # twice is enough to stay orthogonal (Parlett 1980)
            for q in basis:
                u -= (u @ q) * q
        off.append(float(np.linalg.norm(u)))
        if off[-1] <= 1e-12 * max(1.0, max(map(abs, diagonal))):
            break
        basis.append(u / off[-1])
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1))
    residual = (0.0 if len(diagonal) == dimension else off[-1]) * np.abs(vectors[-1])
    return Curvature(float(values[0] - residual[0]), float(values[-1] + residual[-1]))


def not_finite(client: int) -> ValueError:
    """Return the error for a client whose curvature cannot be estimated."""
    return ValueError(
        f"The second derivatives of f_{client} must be finite at x^0, where its curvature is estimated, and are not; "
        "give the problem another init, or curvature=(l, L)."
    )
