"""Masks, the parameters that a regulariser acts on, and sums and maps over the leaves of a tree that respect them."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.display import short
from feddr.tree import Tree

Mask = Any
"""Which parameters a regulariser acts on.

None (all), a callable from a name such as ``layer0.bias`` to bool, or a tree of bools or boolean arrays like the
parameters. True means regularised. The rest adds nothing to the value and passes unchanged through the prox. A mask
belongs to the regulariser and is fixed when a function is compiled.
"""


@dataclass(frozen=True)
class Leave:
    """The mask that ``leave`` makes: False for a name that contains one of the words."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words or not all(self.words):
            raise ValueError(f"leave needs one or more words, none of them empty, got {self}; for instance 'bias'.")

    def __call__(self, name: str) -> bool:
        """Return whether the parameter of this name is regularised."""
        return not any(word in name for word in self.words)

    def __repr__(self) -> str:
        return f"leave({', '.join(map(repr, self.words))})"


def leave(*words: str) -> Leave:
    """Return the mask that leaves alone every parameter whose name contains one of the words.

    Examples
    --------
    >>> mask = leave("bias")
    >>> mask("layer0.weight"), mask("layer0.bias")
    (True, False)
    """
    return Leave(words)


def included(mask: Mask, x: Tree) -> list[NDArray[np.bool_]]:
    """Return for each leaf of x what the mask includes: True, False, or, where only a part, an array of x's shape."""
    named = tree.named(x)
    if mask is None:
        kept = [True] * len(named)
    elif callable(mask) and jax.tree_util.all_leaves([mask]):  # a module of equinox is a tree that can be called
        kept = [bool(mask(name)) for name in named]
    else:
        kept = tree.leaves(_fitting("mask", mask, x))
    result = []
    for (name, leaf), keep in zip(named.items(), map(np.asarray, kept), strict=True):
        if keep.dtype != np.bool_:
            raise ValueError(f"mask must be of booleans, got {keep.dtype} for {name!r}; compare or cast it first.")
        whole = keep.all() == keep.any()
        result.append(np.asarray(keep.all()) if whole else np.broadcast_to(keep, np.shape(leaf)))
    if result and not any(keep.any() for keep in result):
        raise ValueError(
            f"A regulariser needs parameters to act on, got mask={short(mask)} for {list(named)}; use Zero() for none."
        )
    return result


def is_real(array: Any) -> bool:
    """Return whether an array holds floats, whole numbers or booleans."""
    return any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer, np.bool_))


def real(leaf: Any) -> jax.Array:
    """Return a leaf as an array of floats; whole numbers and booleans become JAX's own float type."""
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if not is_real(array):
        raise TypeError(f"A regulariser acts on real numbers, got {array.dtype}; make floats of them first.")
    if not jnp.issubdtype(array.dtype, jnp.floating) or array.dtype == np.longdouble:
        return jnp.asarray(array, float)
    return jnp.asarray(
        array if isinstance(array, jax.Array) else array.astype(array.dtype.newbyteorder("="), copy=False)
    )


def wide(leaf: Any) -> jax.Array:
    """Return a leaf in the type in which a regulariser computes: its own, but at least float32."""
    array = real(leaf)
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def map_included(f: Callable[..., Any], mask: Mask, x: Tree, *rest: Tree) -> Tree:
    """Return the tree of f(leaf, ...) in the entries that the mask includes, and of x elsewhere."""

    def one(keep: NDArray[np.bool_], leaf: Any, *others: Any) -> jax.Array:
        old = real(leaf)
        if not keep.any():
            return old
        new = jnp.asarray(f(wide(leaf), *others), old.dtype)
        return new if keep.all() else jnp.where(keep, new, old)

    return tree.map(one, jax.tree.unflatten(jax.tree.structure(x), included(mask, x)), x, *rest)


def sum_included(f: Callable[..., Any], mask: Mask, x: Tree, *rest: Tree) -> jax.Array:
    """Return the sum of the entries of f(leaf, ...) that the mask includes."""
    return jnp.asarray(sum((jnp.sum(new, where=keep) for new, keep in each_included(f, mask, x, *rest)), 0.0))


def max_included(f: Callable[..., Any], mask: Mask, x: Tree, *rest: Tree, initial: float = 0.0) -> jax.Array:
    """Return the largest of ``initial`` and the entries of f(leaf, ...) that the mask includes."""
    parts = [jnp.max(new, initial=initial, where=keep) for new, keep in each_included(f, mask, x, *rest)]
    return functools.reduce(jnp.maximum, parts, jnp.asarray(initial, parts[0].dtype if parts else float))


def each_included(
    f: Callable[..., Any], mask: Mask, x: Tree, *rest: Tree
) -> Iterator[tuple[jax.Array, NDArray[np.bool_]]]:
    """Yield f(leaf, ...) and what the mask includes of it, for each leaf of which it includes something."""
    for keep, leaf, *others in zip(included(mask, x), *map(tree.leaves, (x, *rest)), strict=True):
        if keep.any():
            yield f(wide(leaf), *others), keep


def power(largest: jax.Array) -> jax.Array:
    """Return a power of two near 1 / largest, for numbers of that size to be squared and added up.

    Squares of large numbers overflow and those of small ones vanish. A power of two scales without rounding.
    """
    limits: Any = jnp.finfo(largest.dtype)  # type: ignore[no-untyped-call]
    near = jnp.clip(jax.lax.stop_gradient(largest), 4 * limits.tiny, limits.max / 4)
    return 1 / jax.lax.reduce_precision(near, limits.nexp, 0)


def scaled_norm(mask: Mask, x: Tree) -> tuple[jax.Array, jax.Array]:
    """Return (n, s) with ||x||_2 = n / s over the entries that the mask includes, s a power of two and n near 1.

    The norm itself may be larger than the largest float, where what a prox makes of it is not.
    """
    scale = power(max_included(jnp.abs, mask, x))
    return jnp.sqrt(sum_included(lambda leaf: jnp.square(leaf * scale), mask, x)), scale


def per_leaf(what: str, value: Tree, x: Tree) -> Tree:
    """Return value with the structure of x: a number counts for every leaf, an array must fit its leaf."""

    def typed(leaf: Any, entry: Any) -> Any:
        # JAX knows a constant by its identity: a float64 array once traced in 64-bit mode would stay float64 in 32-bit
        # mode. A new array of the right type has no past, and a Python number needs no type.
        return entry.astype(wide(leaf).dtype) if hasattr(entry, "astype") else entry

    return tree.map(typed, x, _fitting(what, value, x))


def _fitting(what: str, value: Tree, x: Tree) -> Tree:
    if np.isscalar(value) or getattr(value, "ndim", None) == 0:
        return tree.map(lambda _: value, x)
    wanted: Any = jax.tree.structure(x)
    if jax.tree.structure(value) != wanted:
        raise ValueError(
            f"{what} must be one scalar or a tree like the parameters, {wanted}, got {jax.tree.structure(value)}."
        )
    for (name, leaf), entry in zip(tree.named(x).items(), tree.leaves(value), strict=True):
        shape, fits = np.shape(entry), np.shape(leaf)
        if len(shape) > len(fits) or any(a not in (1, b) for a, b in zip(shape[::-1], fits[::-1], strict=False)):
            raise ValueError(f"{what} must fit the parameters, got shape {shape} for {name!r} of shape {fits}.")
    return value
