"""Convex sets: g is the indicator, 0 on the set and inf outside, and its prox is the projection, whatever eta.

A projection is rounded, so ``value`` counts a point as inside when it violates the constraint by no more than
100 eps times the scale of the problem: eps of the parameters' type, and for scale the largest entry |x_j| (Box,
NonNegative) or the radius (the others). A point with a NaN is outside.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.prox.masks import (
    Mask,
    each_included,
    map_included,
    max_included,
    per_leaf,
    power,
    real,
    scaled_norm,
    sum_included,
)
from feddr.prox.regulariser import HasRadius, Scalar, brief
from feddr.tree import Tree


def indicator(violation: jax.Array, scale: Any, x: Tree) -> jax.Array:
    """Return 0 if the violation is no more than rounding at this scale, and inf otherwise."""
    dtypes = {real(leaf).dtype for leaf in tree.leaves(x)} or {jnp.result_type(float)}
    eps = max(float(jnp.finfo(dtype).eps) for dtype in dtypes)  # type: ignore[no-untyped-call]
    inside = (violation <= 100 * eps * scale) & (violation < jnp.inf)
    return jnp.where(inside, 0.0, jnp.inf).astype(jnp.result_type(*dtypes))


Entries = Callable[[jax.Array], jax.Array]
"""From the entries of a leaf to what becomes of them."""


def project_simplex(mask: Mask, x: Tree, radius: Scalar, size: Entries = jnp.positive, needed: Any = True) -> Entries:
    """Return the projection of the entries size(x_j) onto {u >= 0, sum u = radius} (Duchi et al. 2008).

    Parameters
    ----------
    needed
        False where the result will not be used, to save its time.
    """
    top = jax.lax.stop_gradient(max_included(size, mask, x, initial=-jnp.inf))
    radius = jnp.asarray(radius, top.dtype)
    scale = power(radius)
    reach = radius * scale

    def unit(leaf: jax.Array) -> jax.Array:
        """Return an entry from -1 to 0, in units of the radius: those farther below the largest become zero anyway."""
        return jnp.maximum((size(leaf) - top) * scale, -reach) / jnp.where(reach > 0, reach, 1)

    units = [jnp.where(keep, new, -1) for new, keep in each_included(unit, mask, x)]
    t = _threshold(jax.lax.stop_gradient(units), needed)
    count, excess = _above(t, units)
    # Not added to t: next to a large t it would be rounded, and the sum of many entries would be wrong.
    rest = (excess - 1) / count
    return lambda leaf: radius * jnp.maximum(unit(leaf) - t - rest, 0)


def _above(t: jax.Array, units: list[jax.Array]) -> tuple[Any, Any]:
    """Return how many entries are above t, and by how much all of them together."""
    return sum(jnp.sum(u > t) for u in units), sum(jnp.sum(jnp.maximum(u - t, 0)) for u in units)


@jax.jit  # compiled once, also for calls outside of jit
def _threshold(units: list[jax.Array], needed: Any) -> jax.Array:
    """Return t with sum (u_j - t)_+ = 1, for entries from -1 to 0, by Newton's method from t = -1.

    The sum is convex and piecewise linear in t. Each step leaves fewer entries above t; thirty or so are the most.
    """

    def step(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        t, before, _ = carry
        count, excess = _above(t, units)
        return t + (excess - 1) / count, count, count < before

    first = -jnp.ones((), jnp.result_type(float, *units)), jnp.asarray(np.iinfo(np.int32).max), jnp.asarray(needed)
    return jax.lax.while_loop(lambda carry: carry[2], step, first)[0]


def project_l1_ball(mask: Mask, x: Tree, radius: Scalar) -> Entries:
    """Return the projection of the entries of x onto {||u||_1 <= radius} (Duchi et al. 2008)."""
    norm = sum_included(jnp.abs, mask, x)
    with np.errstate(over="ignore"):  # every point is inside a ball whose radius is beyond the largest float
        radius = jnp.asarray(radius, norm.dtype)
    inside = norm <= radius
    shortened = project_simplex(mask, x, radius, jnp.abs, ~inside)
    return lambda leaf: jnp.where(inside, leaf, jnp.sign(leaf) * shortened(leaf))


@dataclass(frozen=True)
class Box:
    """Bounds: lower <= x <= upper, entry by entry, with prox(x) = min(max(x, lower), upper).

    Parameters
    ----------
    lower, upper
        Numbers, or trees of arrays with the structure of the parameters; -inf and inf where there is no bound.
    mask
        The parameters to regularise, see ``Mask``.

    Examples
    --------
    >>> Box(-1.0, 2.0)
    Box(lower=-1.0, upper=2.0)
    >>> Box(-1.0, 2.0).prox(np.array([3.0, -4.0, 0.5]), 1.0).tolist()
    [2.0, -1.0, 0.5]
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

        def outside(leaf: jax.Array, lower: Any, upper: Any) -> jax.Array:
            return jnp.maximum(lower - leaf, leaf - upper)

        violation = max_included(outside, self.mask, x, *self._bounds(x), initial=-jnp.inf)
        return indicator(violation, max_included(jnp.abs, self.mask, x), x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return x cut to the bounds."""
        return map_included(jnp.clip, self.mask, x, *self._bounds(x))

    def _bounds(self, x: Tree) -> tuple[Any, Any]:
        return per_leaf("lower", self.lower, x), per_leaf("upper", self.upper, x)

    __repr__ = brief


@dataclass(frozen=True)
class NonNegative:
    """The orthant x >= 0, with prox(x) = max(x, 0).

    Examples
    --------
    >>> NonNegative().prox(np.array([2.0, -4.0]), 1.0).tolist()
    [2.0, 0.0]
    >>> float(NonNegative().value(np.array([2.0, -4.0])))
    inf
    """

    _: KW_ONLY
    mask: Mask = None

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if x >= 0, and inf otherwise."""
        return indicator(max_included(jnp.negative, self.mask, x), max_included(jnp.abs, self.mask, x), x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return x with its negative entries set to zero."""
        return map_included(lambda leaf: jnp.maximum(leaf, 0), self.mask, x)

    __repr__ = brief


@dataclass(frozen=True, repr=False)
class Simplex(HasRadius):
    """Mixtures: x >= 0 and sum_j x_j = radius, the probability simplex by default.

    prox(x) = max(x - t, 0), with t such that the sum is right (Duchi et al. 2008, figure 1).

    Examples
    --------
    >>> Simplex().prox(np.array([0.5, 0.5, 0.0]), 1.0).tolist()
    [0.5, 0.5, 0.0]
    """

    radius: float = 1.0

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if x >= 0 and sum x = radius, and inf otherwise."""
        # A quarter of everything: the sum of numbers near the largest float must not overflow.
        excess = sum_included(lambda leaf: 0.25 * leaf, self.mask, x) - 0.25 * self.radius
        below = 0.25 * max_included(jnp.negative, self.mask, x)
        return indicator(jnp.maximum(jnp.abs(excess), below), 0.25 * self.radius, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return the projection of x onto the simplex."""
        if not tree.size(x):
            raise ValueError(f"{self} needs one or more parameters, got none; an empty sum is not {self.radius}.")
        return map_included(project_simplex(self.mask, x, self.radius), self.mask, x)


@dataclass(frozen=True, repr=False)
class L1Ball(HasRadius):
    """The constraint form of the lasso: ||x||_1 <= radius.

    prox(x) = x inside and sign(x) max(|x| - t, 0) outside, with t such that the norm is the radius (Duchi et al. 2008).

    Examples
    --------
    >>> L1Ball(1.0).prox(np.array([2.0, 0.0]), 1.0).tolist()
    [1.0, 0.0]
    """

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if ||x||_1 <= radius, and inf otherwise."""
        excess = sum_included(lambda leaf: 0.25 * jnp.abs(leaf), self.mask, x) - 0.25 * self.radius
        return indicator(excess, 0.25 * self.radius, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return the projection of x onto the ball."""
        return map_included(project_l1_ball(self.mask, x, self.radius), self.mask, x)


@dataclass(frozen=True, repr=False)
class L2Ball(HasRadius):
    """The Euclidean ball ||x||_2 <= radius, with prox(x) = x inside and radius x / ||x||_2 outside.

    Examples
    --------
    >>> L2Ball(1.0).prox(np.array([0.0, 4.0]), 1.0).tolist()
    [0.0, 1.0]
    """

    def value(self, x: Tree) -> jax.Array:
        """Return 0 if ||x||_2 <= radius, and inf otherwise."""
        norm, scale = scaled_norm(self.mask, x)
        radius = self.radius * scale
        return indicator(norm - radius, radius, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return the projection of x onto the ball."""
        norm, scale = scaled_norm(self.mask, x)
        # A point inside stays as it is, to the last digit.
        inside, factor = norm <= self.radius * scale, self.radius / norm
        return map_included(lambda leaf: jnp.where(inside, leaf, leaf * scale * factor), self.mask, x)
