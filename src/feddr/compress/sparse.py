"""Sparse uploads: a share of the numbers, the largest or random ones, and nothing of the others."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from feddr.compress import bits as packing
from feddr.compress.compressor import Code, Compressor, EncodingError, Flat
from feddr.compress.quantised import Quantised
from feddr.validation import scalars

MANY, SAMPLED = 2**14, 16
"""Numbers from which on a sample is worth its while, and every how manieth is in it."""

KEY = 8
"""Bytes of the number from which random positions follow."""


class Chosen(Compressor):
    """Some positions of the whole upload, and the numbers there, perhaps compressed again by ``values_as``."""

    values_as: Compressor | None

    @property
    def random(self) -> bool:
        return self.values_as is not None and self.values_as.random

    def values(self, code: Code, lengths: Sequence[int], dtype: np.dtype[Any]) -> Flat:
        positions, _, *numbers = code
        flat = np.zeros(sum(lengths), dtype)
        if self.values_as is not None:
            numbers = [self.values_as.values(tuple(numbers), (len(positions),), dtype)]
        flat[positions] = numbers[0]
        return flat

    def _number_bytes(self, count: int, itemsize: int) -> int:
        return itemsize * count if self.values_as is None else self.values_as.payload((count,), itemsize)

    def _numbers(self, chosen: Flat, draw: int) -> Code:
        return (chosen,) if self.values_as is None else self.values_as.code(chosen, (len(chosen),), draw)

    def _pack_numbers(self, numbers: Code, count: int) -> bytes:
        if self.values_as is not None:
            return self.values_as.pack(numbers, (count,))
        return numbers[0].astype(numbers[0].dtype.newbyteorder("<")).tobytes()

    def _unpack_numbers(self, data: bytes, count: int, dtype: np.dtype[Any]) -> Code:
        if self.values_as is not None:
            return self.values_as.unpack(data, (count,), dtype)
        numbers = np.frombuffer(data, dtype.newbyteorder("<"), count).astype(dtype)
        if not np.isfinite(numbers).all():
            raise EncodingError("The numbers of a message must be finite; it was damaged.")
        return (numbers,)


@dataclass(frozen=True)
class Sparse(Chosen):
    """What ``TopK`` and ``RandomK`` share: k positions of the whole upload, and the numbers there, perhaps quantised.

    Parameters
    ----------
    share
        In (0, 1]: k is this share of all numbers, rounded up.
    values_as
        How the numbers are sent: None as they are, or ``Quantised``.
    """

    share: float
    values_as: Quantised | None = None

    def __post_init__(self) -> None:
        scalars.numbers(self, "share")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be in (0, 1], got {self.share}.")
        if not isinstance(self.values_as, Quantised | None):
            raise ValueError(f"values_as must be Quantised(...) or None, got {self.values_as!r}.")

    def _count(self, size: int) -> int:
        return min(size, math.ceil(self.share * size))

    @abstractmethod
    def _position_bytes(self, size: int) -> int:
        """Return the bytes that say which numbers are sent."""

    def payload(self, lengths: Sequence[int], itemsize: int) -> int:
        size = sum(lengths)
        return self._position_bytes(size) + self._number_bytes(self._count(size), itemsize)

    def bound(self, lengths: Sequence[int]) -> float:
        size = sum(lengths)
        count = self._count(size)
        share = count / size if size else 1.0
        return share if self.values_as is None else share * self.values_as.bound((count,))


class TopK(Sparse):
    """The largest numbers of the upload, in absolute value: |x - C(x)|^2 <= (1 - share) |x|^2.

    Their positions take ceil(log2 n) bits each, or one bit for each of the n numbers, whichever is less.

    Examples
    --------
    >>> import numpy as np
    >>> TopK(0.5).compress(np.array([0.1, -4.0, 2.0, 0.3])).tolist()
    [0.0, -4.0, 2.0, 0.0]
    >>> TopK(0.1, Quantised(8)).num_bytes(np.zeros(1000, np.float32))  # header, positions, scale, numbers
    237
    """

    kind: ClassVar[int] = 2

    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        positions = _least(-np.abs(flat), self._count(len(flat)))
        return positions, positions, *self._numbers(flat[positions], draw)

    def _position_bytes(self, size: int) -> int:
        return position_bytes(self._count(size), size)

    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        positions, _, *numbers = code
        return pack_positions(positions, sum(lengths)) + self._pack_numbers(tuple(numbers), len(positions))

    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        size = sum(lengths)
        count, begin = self._count(size), self._position_bytes(size)
        positions = unpack_positions(data[:begin], count, size)
        return positions, positions, *self._unpack_numbers(data[begin:], count, dtype)


class RandomK(Sparse):
    """Random numbers of the upload, the same share of it every time: the mean of |x - C(x)|^2 is (1 - share) |x|^2.

    Which ones follows from a key of eight bytes, so that positions take next to nothing.

    Examples
    --------
    >>> import numpy as np
    >>> sent = RandomK(0.5).compress(np.array([0.1, -4.0, 2.0, 0.3]), draw=7)
    >>> int(np.count_nonzero(sent))
    2
    """

    kind: ClassVar[int] = 7  # it was 3 while a key led to other positions
    random = True

    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        positions = self._positions(len(flat), draw)
        return positions, np.array([draw], np.uint64), *self._numbers(flat[positions], draw)

    def _position_bytes(self, size: int) -> int:
        return KEY

    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        positions, key, *numbers = code
        return key.astype("<u8").tobytes() + self._pack_numbers(tuple(numbers), len(positions))

    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        key = np.frombuffer(data[:KEY], "<u8").astype(np.uint64)
        positions = self._positions(sum(lengths), int(key[0]))
        return positions, key, *self._unpack_numbers(data[KEY:], len(positions), dtype)

    def _positions(self, size: int, key: int) -> NDArray[np.int64]:
        """Return k positions in order, every set of k as likely as any other."""
        count = self._count(size)
        if 2 * count <= size:
            return np.sort(_first_distinct(size, count, key))
        return np.delete(np.arange(size), _first_distinct(size, size - count, key))  # it is quicker to leave out fewer


def _first_distinct(size: int, count: int, key: int) -> NDArray[np.int64]:
    """Return the first so many distinct ones of random positions below ``size``, for at most half of them.

    The positions are made of raw random numbers, which every version of NumPy draws alike. A few more are drawn than
    are needed on average, and twice as many where they do not suffice; the result does not depend on how many.
    """
    if not count:
        return np.zeros(0, np.int64)
    mean = -size * math.log1p(-count / size)
    draws = math.ceil(mean + math.sqrt(mean))
    while True:
        raw = np.random.PCG64(key).random_raw(draws) >> np.uint64(11)  # 53 bits, which a float64 holds
        positions = (raw * (size * 2.0**-53)).astype(np.int64)
        order, first = np.arange(draws), np.empty(size, np.int64)
        first[positions[::-1]] = order[::-1]  # of a position that comes several times the last entry stays
        distinct = positions[first[positions] == order]
        if len(distinct) >= count:
            return distinct[:count]
        draws *= 2


def _least(numbers: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return the positions of so many least numbers, in order; of equal ones the first.

    Of many numbers only those are looked at closely that are not above a bound, which a sample of them suggests: a
    third of the time. Enough of them hold all that are wanted, so the result does not depend on the sample.
    """
    if len(numbers) >= MANY:
        sample = numbers[::SAMPLED]
        rank = min(count * 5 // (4 * SAMPLED) + SAMPLED, len(sample) - 1)
        near = np.flatnonzero(numbers <= np.partition(sample, rank)[rank])
        if len(near) >= count:
            return near[_selected(numbers[near], count)]
    return _selected(numbers, count)


def _selected(numbers: NDArray[Any], count: int) -> NDArray[np.int64]:
    if not count:
        return np.zeros(0, np.int64)
    last = np.partition(numbers, count - 1)[count - 1]
    positions = np.flatnonzero(numbers <= last)
    surplus = len(positions) - count
    if not surplus:
        return positions
    equal = np.flatnonzero(numbers == last)
    return np.setdiff1d(positions, equal[len(equal) - surplus :], assume_unique=True)


def position_bytes(count: int, size: int) -> int:
    """Return the bytes of so many positions below ``size``: a list of them or a bit for each, whichever takes less."""
    return min(packing.num_bytes(size, 1), packing.num_bytes(count, _width(size)))


def pack_positions(positions: NDArray[np.int64], size: int) -> bytes:
    """Return positions below ``size``, in order, as bytes."""
    if not _as_bitmap(len(positions), size):
        return packing.pack(positions.astype(np.uint64), _width(size))
    used = np.zeros(size, np.uint8)
    used[positions] = 1
    return np.packbits(used).tobytes()


def unpack_positions(data: bytes, count: int, size: int) -> NDArray[np.int64]:
    """Return what was packed; EncodingError where it is not so many positions in order."""
    if _as_bitmap(count, size):
        positions = np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8), count=size))
    else:
        positions = packing.unpack(data, count, _width(size)).astype(np.int64)
    ordered = len(positions) == count and bool((np.diff(positions) > 0).all())
    if not ordered or (count and positions[-1] >= size):
        raise EncodingError(f"A message must name {count} positions below {size} in order; it was damaged.")
    return positions


def _as_bitmap(count: int, size: int) -> bool:
    return packing.num_bytes(size, 1) < packing.num_bytes(count, _width(size))


def _width(size: int) -> int:
    """Return the bits of a position."""
    return max(1, (size - 1).bit_length())
