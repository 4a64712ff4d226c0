"""Convex sets: g is the indicator, 0 on the set and inf outside, and its prox is the projection, whatever eta.

A projection is rounded, so ``value`` counts a point as inside when it violates the constraint by no more than
100 eps times the scale of the problem: eps of the parameters' type, and for scale the largest entry |x_j| (Box,
NonNegative) or the radius (the others). A point with a NaN is outside.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from optax import projections

from feddr import tree
from feddr.prox.regulariser import Mask, Scalar, brief, check, map_included, per_leaf, vector
from feddr.tree import Tree


def indicator(violation: jax.Array, scale: Scalar, x: Tree) -> jax.Array:
    """Return 0 if the violation is no more than rounding at this scale, and inf otherwise."""
    dtypes = {jnp.asarray(leaf).dtype for leaf in tree.leaves(x)}
    eps = max(float(jnp.finfo(dtype).eps) for dtype in dtypes)  # type: ignore[no-untyped-call]
    return jnp.where(violation <= 100 * eps * scale, 0.0, jnp.inf).astype(jnp.result_type(*dtypes))


def project_simplex(v: jax.Array, radius: Scalar) -> jax.Array:
    """Return the projection of a vector onto {u >= 0, sum u = radius} (Duchi et al. 2008)."""
    # A common shift does not change the projection; this one saves the digits of entries far above the radius.
    return jnp.asarray(projections.projection_simplex(v - jnp.max(v), radius), v.dtype)


def project_l1_ball(v: jax.Array, radius: Scalar) -> jax.Array:
    """Return the projection of a vector onto {||u||_1 <= radius} (Duchi et al. 2008)."""
    # Not optax's projection_l1_ball: its two branches differ in type for a float32 vector when float64 is enabled.
    return jax.lax.cond(jnp.sum(jnp.abs(v)) <= radius, _same, _project_l1_sphere, v, jnp.asarray(radius))


# Functions of the module, not of the call, so that a call outside jit finds the branches compiled.
def _same(v: jax.Array, _radius: jax.Array) -> jax.Array:
    return v


def _project_l1_sphere(v: jax.Array, radius: jax.Array) -> jax.Array:
    return jnp.sign(v) * project_simplex(jnp.abs(v), radius)


@dataclass(frozen=True)
class Box:
    """Bounds: lower <= x <= upper, entry by entry, with prox(x) = min(max(x, lower), upper).

    Parameters
    ----------
    lower, upper
        Numbers, or trees of arrays with the structure of the parameters; -inf and inf where there is no bound.
    mask
        The parameters to regularise, see ``Mask``.
    """

    lower: Tree
    upper: Tree
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        lows, highs = tree.leaves(self.lower), tree.leaves(self.upper)
        count = max(len(lows), len(highs))
        # A single bound meets every one of the other side; trees that do not match are told apart when x is known.
        pairs = zip(*(leaves * count if len(leaves) == 1 else leaves for leaves in (lows, highs)), strict=False)
        for lower, upper in pairs:
            low, high = np.broadcast_arrays(np.asarray(lower, float), np.asarray(upper, float))
            bad = ~((low <= high) & (low < np.inf) & (high > -np.inf))
            if bad.any():
                raise ValueError(
                    f"Box needs lower <= upper, and a point between them, got lower={low[bad][0]} and "
                    f"upper={high[bad][0]}; swap them, or use -inf and inf for no bound."
                )

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if lower <= x <= upper, and inf otherwise."""
        v, _ = vector(self.mask, x)
        lower, upper = (
            vector(self.mask, tree.map(lambda leaf, b: jnp.broadcast_to(b, jnp.shape(leaf)), x, bounds))[0]
            for bounds in self._bounds(x)
        )
        return indicator(jnp.max(jnp.maximum(lower - v, v - upper)), jnp.max(jnp.abs(v)), x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return x cut to the bounds."""
        return map_included(jnp.clip, self.mask, x, *self._bounds(x))

    def _bounds(self, x: Tree) -> tuple[Any, Any]:
        return per_leaf("lower", self.lower, x), per_leaf("upper", self.upper, x)

    __repr__ = brief


@dataclass(frozen=True)
class NonNegative:
    """The orthant x >= 0, with prox(x) = max(x, 0)."""

    _: KW_ONLY
    mask: Mask = None

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if x >= 0, and inf otherwise."""
        v, _ = vector(self.mask, x)
        return indicator(jnp.max(-v), jnp.max(jnp.abs(v)), x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return x with its negative entries set to zero."""
        return map_included(projections.projection_non_negative, self.mask, x)

    __repr__ = brief


@dataclass(frozen=True)
class Simplex:
    """Mixtures: x >= 0 and sum_j x_j = radius, the probability simplex by default.

    prox(x) = max(x - t, 0), with t such that the sum is right (Duchi et al. 2008, figure 1).
    """

    radius: float = 1.0
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, positive=True, radius=self.radius)

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if x >= 0 and sum x = radius, and inf otherwise."""
        v, _ = vector(self.mask, x)
        return indicator(jnp.maximum(jnp.abs(jnp.sum(v) - self.radius), jnp.max(-v)), self.radius, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return the projection of x onto the simplex."""
        v, put = vector(self.mask, x)
        return put(project_simplex(v, self.radius))

    __repr__ = brief


@dataclass(frozen=True)
class L1Ball:
    """The constraint form of the lasso: ||x||_1 <= radius.

    prox(x) = x inside and sign(x) max(|x| - t, 0) outside, with t such that the norm is the radius (Duchi et al. 2008).
    """

    radius: float
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, positive=True, radius=self.radius)

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if ||x||_1 <= radius, and inf otherwise."""
        v, _ = vector(self.mask, x)
        return indicator(jnp.sum(jnp.abs(v)) - self.radius, self.radius, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return the projection of x onto the ball."""
        v, put = vector(self.mask, x)
        return put(project_l1_ball(v, self.radius))

    __repr__ = brief


@dataclass(frozen=True)
class L2Ball:
    """The Euclidean ball ||x||_2 <= radius, with prox(x) = x inside and radius x / ||x||_2 outside."""

    radius: float
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, positive=True, radius=self.radius)

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if ||x||_2 <= radius, and inf otherwise."""
        v, _ = vector(self.mask, x)
        return indicator(jnp.linalg.norm(v) - self.radius, self.radius, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return the projection of x onto the ball."""
        v, put = vector(self.mask, x)
        # Not optax's projection_l2_ball: in float32 it moves many a point inside the ball by its last digit.
        return put(v * (self.radius / jnp.maximum(jnp.linalg.norm(v), self.radius)))

    __repr__ = brief
