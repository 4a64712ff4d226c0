"""Norms, their squares and sums: the regularisers that shrink."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from feddr import tree
from feddr.prox.constraints import project_l1_ball
from feddr.prox.masks import Mask, is_real, map_included, max_included, per_leaf, real, scaled_norm, sum_included
from feddr.prox.regulariser import HasStrength, Scalar, brief, check, eta_times
from feddr.tree import Tree


def soft_threshold(x: Any, threshold: Any) -> jax.Array:
    """Return sign(x) max(|x| - threshold, 0), entry by entry.

    Examples
    --------
    >>> soft_threshold(jnp.array([2.0, -0.25, -1.0]), 0.5).tolist()
    [1.5, 0.0, -0.5]
    """
    # The same numbers as the formula above, in two operations, and no negative zeros.
    return jnp.asarray(x - jnp.clip(x, -threshold, threshold))


def shrink(norm: Any, threshold: Any) -> jax.Array:
    """Return max(1 - threshold / norm, 0), and 0 where both are 0: what the prox of a Euclidean norm multiplies by."""
    above = norm > threshold
    return jnp.where(above, 1 - threshold / jnp.where(above, norm, 1), 0)


@dataclass(frozen=True)
class Zero:
    """No regulariser: g(x) = 0 and prox(x) = x.

    Examples
    --------
    >>> import numpy as np
    >>> Zero().prox(np.array([2.0, -4.0]), 1.0).tolist()
    [2.0, -4.0]
    """

    _: KW_ONLY
    mask: Mask = None

    def value(self, x: Tree) -> jax.Array:
        """Return 0."""
        return jnp.zeros((), jnp.result_type(float, *map(real, tree.leaves(x))))

    def prox(self, x: Tree, eta: Scalar) -> Tree:  # noqa: ARG002
        """Return x."""
        return tree.map(real, x)

    __repr__ = brief


@dataclass(frozen=True)
class L1:
    """Lasso: g(x) = strength ||x||_1, or sum_j strength_j |x_j|.

    prox(x) = sign(x) max(|x| - eta strength, 0), soft thresholding (Parikh and Boyd 2014, section 6.5.2).

    Parameters
    ----------
    strength
        A number, or a tree of arrays of 0 or more with the structure of the parameters, for weights of their own.
    mask
        The parameters to regularise, see ``Mask``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> L1(0.5).prox(jnp.array([2.0, -0.3, -1.0]), 1.0).tolist()
    [1.5, 0.0, -0.5]
    """

    strength: Tree
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        for leaf in tree.leaves(self.strength):
            entries = np.asarray(leaf)
            ends = (entries.min(initial=0), entries.max(initial=0)) if is_real(entries) else (leaf,)
            for entry in ends:
                check(self, strength=entry)

    def value(self, x: Tree) -> jax.Array:
        """Return strength ||x||_1."""
        strength = per_leaf("strength", self.strength, x)
        return sum_included(lambda leaf, s: s * jnp.abs(leaf), self.mask, x, strength)

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x, soft-thresholded at eta strength."""
        strength = per_leaf("strength", self.strength, x)
        return map_included(lambda leaf, s: soft_threshold(leaf, eta_times(self, eta, s)), self.mask, x, strength)

    __repr__ = brief


@dataclass(frozen=True, repr=False)
class L2(HasStrength):
    """The Euclidean norm, not squared: g(x) = strength ||x||_2, which sets all of x to zero or nothing of it.

    prox(x) = max(1 - eta strength / ||x||_2, 0) x (Parikh and Boyd 2014, section 6.5.1).

    Examples
    --------
    >>> import numpy as np
    >>> L2(1.0).prox(np.array([3.0, 4.0]), 2.5).tolist()
    [1.5, 2.0]
    >>> float(L2(1.0).value(np.array([3.0, 4.0])))
    5.0
    """

    def value(self, x: Tree) -> jax.Array:
        """Return strength ||x||_2."""
        norm, scale = scaled_norm(self.mask, x)
        return self.strength * norm / scale

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x with its norm reduced by eta strength."""
        norm, scale = scaled_norm(self.mask, x)
        factor = shrink(norm, eta_times(self, eta, self.strength) * scale)
        return map_included(lambda leaf: leaf * factor, self.mask, x)


@dataclass(frozen=True, repr=False)
class SquaredL2(HasStrength):
    """Ridge, weight decay: g(x) = (strength / 2) ||x||_2^2, with prox(x) = x / (1 + eta strength).

    Examples
    --------
    >>> import numpy as np
    >>> SquaredL2(1.0).prox(np.array([2.0, -4.0]), 1.0).tolist()
    [1.0, -2.0]
    """

    def value(self, x: Tree) -> jax.Array:
        """Return (strength / 2) ||x||_2^2."""
        return sum_included(lambda leaf: 0.5 * self.strength * leaf * leaf, self.mask, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x / (1 + eta strength)."""
        return map_included(lambda leaf: leaf / (1 + eta_times(self, eta, self.strength)), self.mask, x)


@dataclass(frozen=True)
class ElasticNet:
    """Lasso and ridge: g(x) = l1 ||x||_1 + (l2 / 2) ||x||_2^2 (Zou and Hastie 2005).

    prox(x) = sign(x) max(|x| - eta l1, 0) / (1 + eta l2).

    Examples
    --------
    >>> import numpy as np
    >>> ElasticNet(l1=0.5, l2=1.0).prox(np.array([2.5, -0.3]), 1.0).tolist()
    [1.0, 0.0]
    """

    l1: float
    l2: float
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, l1=self.l1, l2=self.l2)

    def value(self, x: Tree) -> jax.Array:
        """Return l1 ||x||_1 + (l2 / 2) ||x||_2^2."""
        return sum_included(lambda leaf: self.l1 * jnp.abs(leaf) + 0.5 * self.l2 * leaf * leaf, self.mask, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x, soft-thresholded at eta l1, over 1 + eta l2."""
        t, divisor = eta_times(self, eta, self.l1), 1 + eta_times(self, eta, self.l2)
        return map_included(lambda leaf: soft_threshold(leaf, t) / divisor, self.mask, x)

    __repr__ = brief


@dataclass(frozen=True, repr=False)
class LInf(HasStrength):
    """The largest entry: g(x) = strength max_j |x_j|.

    prox(x) = x - P(x), where P projects onto the l1 ball of radius eta strength: Moreau's identity, since that ball
    is the unit ball of the dual norm (Parikh and Boyd 2014, section 6.5.1).

    Examples
    --------
    >>> import numpy as np
    >>> LInf(1.0).prox(np.array([3.0, 1.0]), 1.0).tolist()
    [2.0, 1.0]
    """

    def value(self, x: Tree) -> jax.Array:
        """Return strength max_j |x_j|."""
        return self.strength * max_included(jnp.abs, self.mask, x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x with its largest entries cut to a common size."""
        projection = project_l1_ball(self.mask, x, eta_times(self, eta, self.strength))
        return map_included(lambda leaf: leaf - projection(leaf), self.mask, x)
