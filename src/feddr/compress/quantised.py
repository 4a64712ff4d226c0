"""Quantised uploads: each number is one of 2^bits - 1 multiples of a scale that it shares with its block."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from feddr.compress import bits as packing
from feddr.compress.compressor import Code, Compressor, EncodingError, Flat
from feddr.validation import scalars

MOST_BITS = 16
LONG_BLOCKS = 4096
"""Numbers of a block that are worth a call of NumPy, on average."""


@dataclass(frozen=True)
class Quantised(Compressor):
    """Few bits for each number, and a scale for each array, or for each block of one.

    With L = 2^(bits - 1) - 1 and the scale s = max |x_j| / L of a block, x_j becomes s times the whole number nearest
    to x_j / s. Rounded to nearest, no entry's error is larger than the entry, and the largest entry has none, so that
    |x - C(x)|^2 <= (1 - 1/m) |x|^2 for blocks of m numbers; with m < 4 L^2 also <= m / (4 L^2) |x|^2.

    Parameters
    ----------
    bits
        From 2 to 16.
    block
        Numbers that share a scale; None for one scale for each array. A scale takes as much as a number of the run.
    stochastic
        Whether to round up or down at random, with probabilities such that the mean is right. The result is then
        divided by 1 + omega, omega = min(m / (4 L^2), sqrt(m) / L), without which it might be further from x than 0.

    Raises
    ------
    ValueError
        Where bits or block is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> Quantised(3).compress(np.array([3.0, 1.2, -0.4])).tolist()
    [3.0, 1.0, 0.0]
    >>> Quantised(4).num_bytes(np.zeros(1000, np.float32))
    512
    """

    bits: int = 4
    block: int | None = None
    stochastic: bool = False

    kind: ClassVar[int] = 1

    def __post_init__(self) -> None:
        scalars.count(self, "bits", 2)
        if self.bits > MOST_BITS:
            raise ValueError(f"bits must be from 2 to {MOST_BITS}, got {self.bits}; upload=None sends every bit.")
        if self.block is not None:
            scalars.count(self, "block", 1, "None for one scale for each array")

    @property
    def random(self) -> bool:
        return self.stochastic

    @property
    def _largest(self) -> int:
        """The largest whole number L."""
        return int(2 ** (self.bits - 1) - 1)

    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        counts, starts = _blocks(tuple(lengths), self.block)
        largest = _largest(flat, counts, starts)
        scales = largest / flat.dtype.type(self._largest)
        inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales >= _tiny(flat.dtype))
        scales[inverse == 0.0] = 0.0  # too small to divide by: such a block is left for later
        levels = _scaled(flat, inverse, counts)
        if self.stochastic:
            levels = _rounded_at_random(levels, draw)
            omega = np.array([self._omega(int(count)) for count in counts], flat.dtype)
            scales = scales / (1.0 + omega)
            np.clip(levels, -self._largest, self._largest, out=levels)  # a quotient may be a rounding error beyond L
        else:
            np.rint(levels, out=levels)
        levels += 0.0  # -0.0 has no code of its own
        return scales, levels

    def values(self, code: Code, lengths: Sequence[int], dtype: np.dtype[Any]) -> Flat:
        scales, levels = code
        counts, _ = _blocks(tuple(lengths), self.block)
        levels = levels.astype(dtype, copy=False)
        return _scaled(levels, scales, counts, out=levels)  # nobody else has them

    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        scales, levels = code
        return scales.astype(scales.dtype.newbyteorder("<")).tobytes() + packing.pack(
            (levels + self._largest).astype(np.uint16), self.bits
        )

    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        counts, _ = _blocks(tuple(lengths), self.block)
        scales = np.frombuffer(data, dtype.newbyteorder("<"), len(counts)).astype(dtype)
        if not (np.isfinite(scales) & (scales >= 0)).all():
            raise EncodingError("The scales of a quantised message must be finite and not negative; it was damaged.")
        whole = packing.unpack(data[scales.nbytes :], sum(lengths), self.bits)
        if whole.max(initial=0) > 2 * self._largest:
            raise EncodingError(f"A number of a quantised message must be at most {2 * self._largest}; it was damaged.")
        return scales, whole.astype(dtype) - self._largest

    def payload(self, lengths: Sequence[int], itemsize: int) -> int:
        counts, _ = _blocks(tuple(lengths), self.block)
        return len(counts) * itemsize + packing.num_bytes(sum(lengths), self.bits)

    def bound(self, lengths: Sequence[int]) -> float:
        counts, _ = _blocks(tuple(lengths), self.block)
        longest = int(counts.max(initial=1))
        if self.stochastic:
            return 1.0 / (1.0 + self._omega(longest))
        return max(1.0 / longest, 1.0 - longest / (4 * self._largest**2))

    def _omega(self, count: int) -> float:
        """Return a bound on the variance of random rounding, relative to |x|^2, for a block of so many numbers."""
        return min(count / (4 * self._largest**2), math.sqrt(count) / self._largest)


def _rounded_at_random(levels: Flat, draw: int) -> Flat:
    """Return the whole number below or above each level, above with its fraction as the probability.

    Probabilities have 16 binary digits, so that four numbers share a draw: the mean is right to 2^-17 of a level.
    """
    words = np.random.PCG64(draw).random_raw(-(-len(levels) // 4)).astype("<u8", copy=False).view("<u2")
    chances = words[: len(levels)].astype(levels.dtype)
    whole = np.floor(levels)
    chances += 0.5
    chances *= 2.0**-16
    whole += chances < levels - whole
    return whole


@functools.lru_cache(maxsize=4)
def _tiny(dtype: np.dtype[Any]) -> float:
    """Return the least normal number; asking NumPy takes as long as to quantise a small model."""
    return float(np.finfo(dtype).tiny)


def _largest(flat: Flat, counts: NDArray[np.int64], starts: NDArray[np.int64]) -> Flat:
    """Return the largest absolute value of each block; memory for those of all numbers is what takes time."""
    if len(flat) >= LONG_BLOCKS * len(counts):
        blocks = [flat[begin : begin + count] for begin, count in zip(starts.tolist(), counts.tolist(), strict=True)]
        return np.array([max(block.max(), -block.min()) for block in blocks], flat.dtype)
    return np.asarray(np.maximum.reduceat(np.abs(flat), starts))


def _scaled(flat: Flat, factors: Flat, counts: NDArray[np.int64], out: Flat | None = None) -> Flat:
    """Return each block times its factor; long blocks one by one, which takes half the time."""
    if len(flat) < LONG_BLOCKS * len(counts):
        return np.multiply(flat, np.repeat(factors, counts), out=out)
    scaled, begin = np.empty_like(flat) if out is None else out, 0
    for factor, count in zip(factors, counts.tolist(), strict=True):
        np.multiply(flat[begin : begin + count], factor, out=scaled[begin : begin + count])
        begin += count
    return scaled


@functools.lru_cache(maxsize=64)
def _blocks(lengths: tuple[int, ...], block: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many numbers each block has, and where it begins; an array without numbers has no block."""
    counts: list[int] = []
    for length in lengths:
        size = block or max(length, 1)
        counts += [size] * (length // size) + ([length % size] if length % size else [])
    sizes = np.array(counts, np.int64)
    return sizes, np.cumsum(sizes) - sizes
