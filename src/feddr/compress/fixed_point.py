"""``FixedPoint``: numbers as whole multiples of one step, so that sums of them are exact."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from feddr.compress.compressor import Code, Compressor, EncodingError, Flat
from feddr.validation import scalars

FEWEST_BITS, MOST_BITS = 8, 40


@dataclass(frozen=True)
class FixedPoint(Compressor):
    """Each number times a weight, as one of 2^bits - 1 multiples of a step that all clients share.

    With L = 2^(bits - 1) - 1 and the step s, the smallest power of two with s L >= clip, the number x becomes the whole
    number q nearest to weight x / s, but at most L in size; who reads it takes q s / weight for x. What rounding and
    the largest size leave out is made up for in later uploads, as with every compressor. It is what sites of a secure
    round send under their masks; as ``upload`` of a method it shows in a simulation what that costs.

    Parameters
    ----------
    bits
        From 8 to 40.
    clip
        The largest number that fits into one upload at weight 1.
    weight
        Above 0, and at most 1.

    Raises
    ------
    ValueError
        Where one of them is out of its range.

    Examples
    --------
    >>> point = FixedPoint(bits=8, clip=1.0)
    >>> point.step, point.levels(np.array([0.5, -0.011, 7.0])).tolist()
    (0.015625, [32, -1, 127])
    >>> point.compress(np.array([0.5, -0.011, 7.0])).tolist()
    [0.5, -0.015625, 1.984375]
    """

    bits: int = 24
    clip: float = 1.0
    weight: float = 1.0

    kind: ClassVar[int] = 6

    def __post_init__(self) -> None:
        check(self)
        scalars.numbers(self, "weight")
        if not 0 < self.weight <= 1:
            raise ValueError(f"weight must be above 0 and at most 1, got {self.weight}; divide by the largest one.")

    @property
    def largest(self) -> int:
        """The largest whole number L."""
        return int(2 ** (self.bits - 1) - 1)

    @property
    def step(self) -> float:
        """The difference of two neighbours at weight 1, a power of two."""
        return float(2.0 ** math.ceil(math.log2(self.clip / self.largest)))

    @property
    def scale(self) -> float:
        """What one level stands for."""
        return self.step / self.weight

    def levels(self, flat: Flat) -> NDArray[np.int64]:
        """Return the whole numbers that stand for the entries of a vector."""
        near = np.rint(np.asarray(flat, np.float64) / self.scale)
        return np.clip(near, -self.largest, self.largest).astype(np.int64)

    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        return (self.levels(flat),)

    def values(self, code: Code, lengths: Sequence[int], dtype: np.dtype[Any]) -> Flat:
        return np.asarray(code[0] * self.scale, dtype)

    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        return code[0].astype(f"<i{self._word}").tobytes()

    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        levels = np.frombuffer(data, f"<i{self._word}").astype(np.int64)
        if np.abs(levels).max(initial=0) > self.largest:
            raise EncodingError(f"A number of a message must be at most {self.largest} in size; it was damaged.")
        return (levels,)

    def payload(self, lengths: Sequence[int], itemsize: int) -> int:
        return self._word * sum(lengths)

    def bound(self, lengths: Sequence[int]) -> float:
        return 0.0  # of a vector that is all below half a step, nothing is left

    @property
    def _word(self) -> int:
        return 4 if self.bits <= 32 else 8


def check(settings: Any) -> None:
    """Refuse ``bits`` and ``clip`` out of their ranges."""
    scalars.count(settings, "bits", FEWEST_BITS)
    if settings.bits > MOST_BITS:
        raise ValueError(f"bits must be from {FEWEST_BITS} to {MOST_BITS}, got {settings.bits}; 24 is plenty.")
    scalars.numbers(settings, "clip")
    object.__setattr__(settings, "clip", float(settings.clip))  # both sides compare how it looks
    if not 2.0**-64 <= settings.clip <= 2.0**64:
        raise ValueError(f"clip must be from 2^-64 to 2^64, got {settings.clip}; it is the largest change of a number.")
