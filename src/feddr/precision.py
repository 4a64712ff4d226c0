"""The numbers of a run: float32 where the work is, float64 where sums must not drift, int32 for whole ones.

What users give is converted where nothing is lost by it, and refused by name elsewhere.
"""

import numbers
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import tree

WHOLE = np.iinfo(np.int32)
"""The whole numbers that a run can hold."""


def scope(dtype: Any) -> AbstractContextManager[None]:
    """Return a context in which JAX computes with ``dtype``; the 64-bit mode belongs to a thread."""
    scope: AbstractContextManager[None] = jax.enable_x64(np.dtype(dtype) == np.float64)
    return scope


def of(precision: str) -> np.dtype[Any]:
    """Return the NumPy type for ``"float32"`` or ``"float64"``."""
    if precision not in ("float32", "float64"):
        raise ValueError(f'precision must be "float32" or "float64", got {precision!r}.')
    return np.dtype(precision)


def samples(arrays: Mapping[str, NDArray[Any]], dtype: Any) -> dict[str, NDArray[Any]]:
    """Return samples as the solvers want them: real numbers as dtype, whole numbers as int32."""
    found = {}
    for name, a in arrays.items():
        try:
            with np.errstate(over="raise"):
                found[name] = np.asarray(a, dtype if np.issubdtype(a.dtype, np.floating) else np.int32)
        except FloatingPointError:
            largest = np.abs(a[np.isfinite(a)]).max()
            raise ValueError(
                f'{name} must fit into {np.dtype(dtype)}, got {largest:.3g}; scale it, or use precision="float64".'
            ) from None
    return found


def array(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return samples as an array of real numbers, or of whole numbers of 32 bits, if nothing is lost by that."""
    found = _numbers(what, values)
    if np.can_cast(found.dtype, np.int32) or found.dtype.kind == "f":
        return found
    for extreme in (found.min(initial=0), found.max(initial=0)):
        if not WHOLE.min <= extreme <= WHOLE.max:
            raise ValueError(
                f"{what} must be whole numbers of 32 bits or real numbers, got {found.dtype} with {extreme}; "
                "use astype(float), or number anew what it counts."
            )
    return found


def real(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of float32 or float64: shorter floats as float32, whole numbers as float64."""
    found = _numbers(what, values)
    return np.asarray(found, np.float32 if found.dtype.kind == "f" and found.itemsize <= 4 else np.float64)


def parameters(x: tree.Tree) -> tree.Tree:
    """Return parameters as arrays of float32 or float64."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: real(f"The parameter {tree.name(path)}", leaf), x)


def _numbers(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of a type that NumPy itself has: truth values, whole or real numbers."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{what} must have a number in every place, got a masked array without {np.sum(np.ma.getmask(values))} of "
            f"{np.size(values)}; fill them in, or leave out what has none."
        )
    found = np.asarray(values)
    if found.dtype == object:
        found = _unboxed(what, found)
    if found.dtype.kind in "biuf":
        return found
    for kind, held in ((jnp.floating, np.float32), (jnp.integer, np.int8)):  # bfloat16, int4 and the like
        if jnp.issubdtype(found.dtype, kind):
            return found.astype(held)
    raise ValueError(f"{what} must be real or whole numbers, got {found.dtype}; make numbers of it first.")


def _unboxed(what: str, objects: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python's numbers as one of NumPy's: what a table with columns of several types becomes."""
    kinds = {type(value) for value in objects.flat}
    wrong = sorted(kind.__name__ for kind in kinds if not issubclass(kind, numbers.Real | np.bool_))
    if wrong:
        raise ValueError(
            f"{what} must be real or whole numbers, got objects of type {', '.join(wrong)}; fill in what is missing, "
            "and make numbers of the rest with astype(float)."
        )
    found = np.array(objects.tolist()).reshape(objects.shape)
    if found.dtype == object or not np.all((found == objects) | (found != found)):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{what} must be numbers that fit into 64 bits, got objects of type {names} that would be rounded; "
            "use astype(float) if they may be."
        )
    return found
