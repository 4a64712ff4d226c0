"""The two number types of a run: float32 where the work is, float64 where sums must not drift."""

from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from feddr import tree


def scope(dtype: Any) -> AbstractContextManager[None]:
    """Return a context in which JAX computes with ``dtype``; the 64-bit mode belongs to a thread."""
    scope: AbstractContextManager[None] = jax.enable_x64(np.dtype(dtype) == np.float64)
    return scope


def of(precision: str) -> np.dtype[Any]:
    """Return the NumPy type for ``"float32"`` or ``"float64"``."""
    if precision not in ("float32", "float64"):
        raise ValueError(f'precision must be "float32" or "float64", got {precision!r}.')
    return np.dtype(precision)


def samples(arrays: tree.Tree, dtype: Any) -> tree.Tree:
    """Return samples as the solvers want them: real numbers as dtype, whole numbers as int32."""
    return tree.map(lambda a: np.asarray(a, dtype if np.issubdtype(a.dtype, np.floating) else np.int32), arrays)
