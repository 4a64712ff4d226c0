"""Bounds on the curvature of f_i, estimated from Hessian-vector products."""

from collections.abc import Callable

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.local.subproblem import Curvature
from feddr.tree import Tree


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
