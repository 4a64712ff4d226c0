"""Validation of arrays: converted to NumPy where nothing is lost by it, refused by name elsewhere.

JAX is imported only where one of its own number types may be meant: to look at a federation need not wait for it.
"""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

WHOLE = np.iinfo(np.int32)
"""The whole numbers that a run can hold."""


def samples(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return samples as an array of real numbers, or of whole numbers of 32 bits, if nothing is lost by that."""
    array = numbers(what, values)
    if array.dtype == np.uint8 and array.ndim > 1:
        raise ValueError(
            f"{what} must not be bytes, which may be pixels or counts, got uint8 of shape {array.shape}; use x / 255 "
            "for pixels and astype(int) for counts and tokens."
        )
    if np.can_cast(array.dtype, np.int32) or array.dtype.kind == "f":
        return array
    for extreme in (array.min(initial=0), array.max(initial=0)):
        if not WHOLE.min <= extreme <= WHOLE.max:
            raise ValueError(
                f"{what} must be whole numbers of 32 bits or real numbers, got {array.dtype} with {extreme}; "
                "use astype(float), or number the categories from 0."
            )
    return array


def pixels(what: str, values: ArrayLike) -> NDArray[np.float32]:
    """Return images as float32, bytes as numbers from 0 to 1."""
    images = np.asarray(values)
    if images.dtype == np.uint8:
        return np.divide(images, np.float32(255), dtype=np.float32)
    return samples(what, images).astype(np.float32, copy=False)


def numbers(what: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of a type that NumPy itself has: truth values, whole or real numbers."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{what} must have a number in every place, got a masked array without {np.sum(np.ma.getmask(values))} of "
            f"{np.size(values)}; fill them in, or leave out what has none."
        )
    try:
        array = np.asarray(values)
    except ValueError:  # what NumPy says of it names no array
        raise ValueError(f"{what} must have rows of one length, got rows of several; pad or cut them.") from None
    if array.dtype == object:
        array = _unboxed(what, array)
    if array.dtype.kind in "biuf":
        return array
    import jax.numpy as jnp

    for kind, held in ((jnp.floating, np.float32), (jnp.integer, np.int8)):  # bfloat16, int4 and the like
        if array.dtype.kind != "m" and jnp.issubdtype(array.dtype, kind):  # NumPy's durations are whole numbers to it
            return array.astype(held)
    remedy = "make numbers of it first"
    if array.dtype.kind in "US":
        remedy += "; FederatedData.from_frame and from_arrays do so with labels and categories"
    raise ValueError(f"{what} must be real or whole numbers, got {array.dtype}; {remedy}.")


def _unboxed(what: str, objects: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python's numbers as one of NumPy's: what a table with columns of several types becomes."""
    kinds = {type(value) for value in objects.flat}
    wrong = sorted(kind.__name__ for kind in kinds if not issubclass(kind, Real | np.bool_))
    if wrong:
        raise ValueError(
            f"{what} must be real or whole numbers, got objects of type {', '.join(wrong)}; fill in what is missing, "
            "and make numbers of the rest with astype(float); FederatedData.from_frame does so with a table."
        )
    unboxed = np.array(objects.tolist()).reshape(objects.shape)
    if unboxed.dtype == object or not np.all((unboxed == objects) | (unboxed != unboxed)):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{what} must be numbers that fit into 64 bits, got objects of type {names} that would be rounded; "
            "use astype(float) if they may be."
        )
    return unboxed
