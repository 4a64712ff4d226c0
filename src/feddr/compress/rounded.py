"""Rounded numbers: each with two bytes, as float16 or bfloat16, times a power of two that its array shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from feddr.compress.compressor import Code, Compressor, EncodingError, Flat

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(jnp.bfloat16)}
DIGITS = {"float16": 10, "bfloat16": 7}
"""Binary digits after the point: the error of a number is at most 2^-(digits + 1) of it."""

TOP = 15
"""The largest number of an array is below 2^TOP once it is scaled, which float16 can hold with room to spare."""


@dataclass(frozen=True)
class Rounded(Compressor):
    """Two bytes for each number: 11 binary digits as float16, 8 as bfloat16, and a scale for each array.

    The scale is a power of two, so that scaling costs no digit, and arrays of any size fit: nothing becomes infinite,
    and only numbers 2^-29 times as large as the largest of their array begin to lose digits in float16.

    Parameters
    ----------
    to
        ``"float16"`` or ``"bfloat16"``.

    Examples
    --------
    >>> import numpy as np
    >>> Rounded("float16").compress(np.array([1.0, 0.1, 1e6])).tolist()
    [1.0, 0.0999755859375, 999936.0]
    >>> Rounded().num_bytes(np.zeros(1000, np.float32))
    2012
    """

    to: Literal["float16", "bfloat16"] = "float16"

    kind: ClassVar[int] = 4

    def __post_init__(self) -> None:
        if self.to not in TYPES:
            raise ValueError(f"to must be one of {', '.join(TYPES)}, got {self.to!r}; Quantised has other sizes.")

    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        info = np.finfo(flat.dtype)
        starts = np.cumsum([0, *lengths[:-1]])[np.array(lengths) > 0]
        largest = np.maximum.reduceat(np.abs(flat), starts) if len(starts) else np.zeros(0, flat.dtype)
        _, exponents = np.frexp(largest)
        least = int(info.minexp) - int(info.nmant)  # of the smallest subnormal number
        scales = np.ldexp(np.ones(len(largest), flat.dtype), np.maximum(exponents - TOP, least))
        return scales, (flat / np.repeat(scales, _counts(lengths))).astype(TYPES[self.to])

    def values(self, code: Code, lengths: Sequence[int], dtype: np.dtype[Any]) -> Flat:
        scales, numbers = code
        return np.multiply(np.repeat(scales, _counts(lengths)), numbers.astype(dtype), dtype=dtype)

    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        scales, numbers = code
        return scales.astype(scales.dtype.newbyteorder("<")).tobytes() + numbers.view(np.uint16).astype("<u2").tobytes()

    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        arrays = len(_counts(lengths))
        scales = np.frombuffer(data, dtype.newbyteorder("<"), arrays).astype(dtype)
        numbers = np.frombuffer(data[scales.nbytes :], "<u2").astype(np.uint16).view(TYPES[self.to])
        if not (np.isfinite(scales).all() and (scales > 0).all() and np.isfinite(numbers.astype(dtype)).all()):
            raise EncodingError(
                "The numbers of a rounded message must be finite and its scales positive; it was damaged."
            )
        return scales, numbers

    def payload(self, lengths: Sequence[int], itemsize: int) -> int:
        return len(_counts(lengths)) * itemsize + 2 * sum(lengths)

    def bound(self, lengths: Sequence[int]) -> float:
        # Of each number the digits, with room for a float64 that is rounded twice; and 2^-25 where float16 has no more.
        return 1.0 - 4.0 ** -DIGITS[self.to] - sum(lengths) * 2.0**-78


def _counts(lengths: Sequence[int]) -> list[int]:
    """Return the lengths of the arrays that hold a number."""
    return [length for length in lengths if length]
