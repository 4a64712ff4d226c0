"""Arithmetic on pytrees of arrays: the algorithms are written in these few words.

The rules of an algorithm run on NumPy arrays (any array type with operators will do), the local solvers on JAX arrays;
both are trees to these functions. A scalar is a Python float, so float32 trees stay float32.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

Tree = Any
"""A pytree whose leaves are arrays: nested dicts, lists, tuples, dataclasses, or a single array."""

map = jax.tree.map  # noqa: A001  tree.map reads better than any other name
leaves: Callable[[Tree], list[Any]] = jax.tree.leaves


def add(a: Tree, b: Tree) -> Tree:
    """Return a + b."""
    return map(lambda x, y: x + y, a, b)


def sub(a: Tree, b: Tree) -> Tree:
    """Return a - b."""
    return map(lambda x, y: x - y, a, b)


def scale(c: float, a: Tree) -> Tree:
    """Return c * a."""
    return map(lambda x: c * x, a)


def axpy(c: float, a: Tree, b: Tree) -> Tree:
    """Return c * a + b."""
    return map(lambda x, y: c * x + y, a, b)


def increment(new: Tree, old: Tree) -> Tree:
    """Return new - old in float64, where the difference of two float32 numbers is exact.

    A server that adds up increments then holds the sum of the newest values, also after many thousand of them.
    """
    return map(lambda x, y: np.subtract(x, y, dtype=np.float64), new, old)


def zeros_like(a: Tree) -> Tree:
    """Return a tree of NumPy zeros with the shapes and types of a."""
    return map(np.zeros_like, a)


def cast(a: Tree, dtype: Any) -> Tree:
    """Return a as NumPy arrays of type dtype, copying only where the type differs."""
    return map(lambda x: np.asarray(x, dtype=dtype), a)


def norm(a: Tree) -> float:
    """Return the Euclidean norm of the whole tree, summed in float64."""
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(x, np.float64))) for x in leaves(a))))


def size(a: Tree) -> int:
    """Return the number of entries of the whole tree."""
    return sum(int(np.size(x)) for x in leaves(a))


def unravel(vector: Any, like: Tree) -> Tree:
    """Return a vector of all entries as a tree like another one."""
    entries, structure = jax.tree.flatten(like)
    pieces = np.split(vector, np.cumsum([np.size(x) for x in entries])[:-1])
    return jax.tree.unflatten(structure, [a.reshape(np.shape(x)) for a, x in zip(pieces, entries, strict=True)])


def named(a: Tree) -> dict[str, Any]:
    """Return the leaves by name, such as ``layer0.weight``; a single array is called ``x``."""
    paths, _ = jax.tree_util.tree_flatten_with_path(a)
    return {name(path): leaf for path, leaf in paths}


def name(path: Any) -> str:
    """Return the name of the leaf at a path of JAX's."""
    return jax.tree_util.keystr(path, simple=True, separator=".") or "x"
