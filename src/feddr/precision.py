"""The numbers of a run: float32 where the work is, float64 where sums must not drift, int32 for whole ones."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import tree
from feddr.validation import arrays


def scope(dtype: Any) -> AbstractContextManager[None]:
    """Return a context in which JAX computes with ``dtype``; the 64-bit mode belongs to a thread."""
    scope: AbstractContextManager[None] = jax.enable_x64(np.dtype(dtype) == np.float64)
    return scope


def of(precision: str) -> np.dtype[Any]:
    """Return the NumPy type for ``"float32"`` or ``"float64"``."""
    if precision not in ("float32", "float64"):
        raise ValueError(f'precision must be "float32" or "float64", got {precision!r}.')
    return np.dtype(precision)


def samples(named: Mapping[str, NDArray[Any]], dtype: Any) -> dict[str, NDArray[Any]]:
    """Return samples as the solvers want them: real numbers as dtype, whole numbers as int32."""
    converted = {}
    for name, a in named.items():
        try:
            with np.errstate(over="raise"):
                converted[name] = np.asarray(a, dtype if np.issubdtype(a.dtype, np.floating) else np.int32)
        except FloatingPointError:
            largest = np.abs(a[np.isfinite(a)]).max()
            raise ValueError(
                f'{name} must fit into {np.dtype(dtype)}, got {largest:.3g}; scale it, or use precision="float64".'
            ) from None
    return converted


def real(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of float32 or float64: shorter floats as float32, whole numbers as float64."""
    array = arrays.numbers(what, values)
    return np.asarray(array, np.float32 if array.dtype.kind == "f" and array.itemsize <= 4 else np.float64)


def parameters(x: tree.Tree) -> tree.Tree:
    """Return parameters as arrays of float32 or float64."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: real(f"The parameter {tree.name(path)}", leaf), x)


def dtype_of(x: tree.Tree) -> np.dtype[Any]:
    """Return the type in which the leaves of a tree are computed together, the widest of them."""
    return np.dtype(np.result_type(*[leaf.dtype for leaf in tree.leaves(x)]))
