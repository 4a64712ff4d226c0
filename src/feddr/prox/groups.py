"""Structured sparsity: groups of parameters that vanish together, and matrices of low rank."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.prox.masks import Mask, included, map_included, power, real, wide
from feddr.prox.norms import shrink, soft_threshold
from feddr.prox.regulariser import HasStrength, Scalar, brief, check, eta_times
from feddr.tree import Tree


@dataclass(frozen=True)
class GroupL2:
    """Group lasso: g(x) = strength sum_G w_G ||x_G||_2, over groups that do not overlap (Yuan and Lin 2006).

    prox(x)_G = max(1 - eta strength w_G / ||x_G||_2, 0) x_G for each group; a parameter in no group is left alone.

    Parameters
    ----------
    strength
        A number.
    groups
        "rows" or "columns" of every matrix among the parameters (for a layer ``x @ weight``, the rows are the inputs,
        the columns the outputs), or lists of indices into the parameters, ravelled leaf after leaf.
    weighted
        True for w_G = sqrt(|G|), as Yuan and Lin have it, False for w_G = 1. |G| counts what the mask includes.
    mask
        The parameters to regularise, see ``Mask``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> GroupL2(2.5).prox({"weight": jnp.array([[3.0, 4.0], [0.6, 0.8]])}, 1.0)["weight"].tolist()
    [[1.5, 2.0], [0.0, 0.0]]
    """

    strength: float
    groups: Literal["rows", "columns"] | Sequence[Sequence[int]] = "rows"
    weighted: bool = False
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, strength=self.strength)
        if isinstance(self.groups, str):
            if self.groups not in ("rows", "columns"):
                raise ValueError(f"GroupL2 needs groups 'rows', 'columns' or lists of indices, got {self.groups!r}.")
            return
        try:
            groups = tuple(tuple(operator.index(i) for i in group) for group in self.groups)
        except TypeError:
            raise ValueError(
                f"GroupL2 needs groups 'rows', 'columns' or lists of whole numbers, got {self.groups!r}."
            ) from None
        if not groups or not all(groups):
            raise ValueError(
                f"GroupL2 needs one or more groups, none of them empty, got {groups}; leave empty ones out."
            )
        indices, counts = np.unique(np.concatenate(groups), return_counts=True)
        if indices[0] < 0:
            raise ValueError(f"GroupL2 needs indices of 0 or more, got {indices[0]}; count from the start.")
        if counts.max() > 1:
            raise ValueError(
                f"GroupL2 needs groups that do not overlap, got index {indices[counts.argmax()]} more than once; "
                "leave it in one group."
            )
        object.__setattr__(self, "groups", groups)

    def value(self, x: Tree) -> jax.Array:
        """Return strength times the weighted sum of the norms of the groups."""
        if isinstance(self.groups, str):
            pairs = zip(map(wide, tree.leaves(x)), tree.leaves(_matrices(self, x)), strict=True)
            norms = [self._line_norms(leaf, keep) for leaf, keep in pairs if keep.any()]
        else:
            norms = [self._group_norms(_vector(x)[0], *self._members(x))]
        return jnp.asarray(sum(jnp.sum(self.strength * weights * norm / scale) for norm, scale, weights in norms))

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x with the norm of each group reduced by eta strength w_G."""
        threshold = eta_times(self, eta, self.strength)

        def shorten(leaf: jax.Array, keep: NDArray[np.bool_]) -> jax.Array:
            norm, scale, weights = self._line_norms(leaf, keep)
            return leaf * shrink(norm, threshold * (weights * scale))

        if isinstance(self.groups, str):
            mask = _matrices(self, x)
            return map_included(shorten, mask, x, mask)
        v, put = _vector(x)
        at, group = self._members(x)
        norm, scale, weights = self._group_norms(v, at, group)
        return put(v.at[at].multiply(shrink(norm, threshold * (weights * scale))[group].astype(v.dtype)))

    def penalised(self, x: Tree) -> list[NDArray[np.bool_]]:
        """Return the entries that are in a group."""
        if isinstance(self.groups, str):
            return tree.leaves(_matrices(self, x))
        inside = np.zeros(tree.size(x), bool)
        inside[self._members(x)[0]] = True
        shapes = [np.shape(leaf) for leaf in tree.leaves(x)]
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(inside, ends), shapes, strict=True)]

    def _line_norms(self, leaf: jax.Array, keep: NDArray[np.bool_]) -> tuple[jax.Array, jax.Array, NDArray[Any]]:
        """Return (n, s, w) with ||x_G||_2 = n / s and the weight w for each line of a matrix."""
        axis = 1 if self.groups == "rows" else 0
        scale = power(jnp.max(jnp.abs(leaf), axis, where=keep, initial=0, keepdims=True))
        norm = jnp.sqrt(jnp.sum(jnp.square(leaf * scale), axis, where=keep, keepdims=True))
        return norm, scale, self._weights(np.sum(np.broadcast_to(keep, leaf.shape), axis, keepdims=True))

    def _group_norms(self, v: jax.Array, at: Any, group: Any) -> tuple[jax.Array, jax.Array, NDArray[Any]]:
        """Return the same for each list of indices."""
        number, entries = len(self.groups), v[at]
        scale = power(jax.ops.segment_max(jnp.abs(entries), group, number, indices_are_sorted=True))
        squares = jnp.square(entries * scale[group])
        norm = jnp.sqrt(jax.ops.segment_sum(squares, group, number, indices_are_sorted=True))
        return norm, scale, self._weights(np.bincount(group, minlength=number))

    def _weights(self, sizes: NDArray[Any]) -> NDArray[Any]:
        return np.sqrt(sizes) if self.weighted else np.ones(sizes.shape)

    def _members(self, x: Tree) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the indices of the entries that are in a group and included, and the number of the group of each."""
        at = np.concatenate([np.asarray(group) for group in self.groups])
        if at.max() >= tree.size(x):
            raise ValueError(f"GroupL2 needs indices below {tree.size(x)}, the number of parameters, got {at.max()}.")
        keeps = zip(included(self.mask, x), tree.leaves(x), strict=True)
        keep = np.concatenate([np.broadcast_to(keep, np.shape(leaf)).ravel() for keep, leaf in keeps])[at]
        return at[keep], np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])[keep]

    __repr__ = brief


@dataclass(frozen=True, repr=False)
class Nuclear(HasStrength):
    """Low rank: g(x) = strength times the sum of the singular values of every matrix among the parameters.

    prox(X) = U diag(max(s - eta strength, 0)) V^T for a matrix X = U diag(s) V^T (Cai, Candes and Shen 2010, theorem
    2.1). Parameters that are not matrices are left alone; a mask must include or leave out a matrix as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> Nuclear(1.0).prox(np.diag([3.0, 0.5]), 1.0).round(6).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """

    def value(self, x: Tree) -> jax.Array:
        """Return strength times the sum of the singular values."""
        pairs = zip(map(wide, tree.leaves(x)), tree.leaves(self._mask(x)), strict=True)
        return jnp.asarray(sum(self._value(leaf) for leaf, keep in pairs if keep))

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return x with the singular values of its matrices soft-thresholded at eta strength."""
        threshold = eta_times(self, eta, self.strength)

        def lower(leaf: jax.Array) -> jax.Array:
            scale = power(jnp.max(jnp.abs(leaf)))
            u, s, vt = jnp.linalg.svd(leaf * scale, full_matrices=False)
            return jnp.matmul(u * soft_threshold(s, threshold * scale), vt, precision="highest") / scale

        return map_included(lower, self._mask(x), x)

    def penalised(self, x: Tree) -> list[NDArray[np.bool_]]:
        """Return the entries of the matrices."""
        return tree.leaves(self._mask(x))

    def _value(self, leaf: jax.Array) -> jax.Array:
        scale = power(jnp.max(jnp.abs(leaf)))
        return self.strength * jnp.sum(jnp.linalg.svd(leaf * scale, compute_uv=False)) / scale

    def _mask(self, x: Tree) -> Tree:
        mask = _matrices(self, x)
        for name, keep in tree.named(mask).items():
            if keep.ndim:
                raise ValueError(
                    f"Nuclear acts on whole matrices, got a mask for a part of {name!r}; include all of it or none."
                )
        return mask


def _vector(x: Tree) -> tuple[jax.Array, Callable[[jax.Array], Tree]]:
    """Return all entries as one vector, and the function that puts such a vector into x."""
    leaves, structure = jax.tree.flatten(tree.map(real, x))
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def put(v: jax.Array) -> Tree:
        pairs = zip(leaves, jnp.split(v, ends), strict=True)
        return jax.tree.unflatten(structure, [part.astype(leaf.dtype).reshape(leaf.shape) for leaf, part in pairs])

    return jnp.concatenate([wide(leaf).ravel() for leaf in leaves]), put


def _matrices(g: GroupL2 | Nuclear, x: Tree) -> Tree:
    """Return the mask of g on x with everything that is not a matrix left out."""
    leaves, structure = jax.tree.flatten(x)
    keeps = [
        keep if np.ndim(leaf) == 2 and np.size(leaf) else np.asarray(False)
        for keep, leaf in zip(included(g.mask, x), leaves, strict=True)
    ]
    if not any(keep.any() for keep in keeps):
        raise ValueError(
            f"{g} needs a matrix among the parameters that it regularises, got shapes {[np.shape(a) for a in leaves]}; "
            "use another regulariser, or GroupL2 with lists of indices."
        )
    return jax.tree.unflatten(structure, keeps)
