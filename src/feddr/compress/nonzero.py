"""The numbers that are not zero, and where they are: for a model that g has made sparse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from feddr import tree
from feddr.compress.compressor import HEADER, Code, EncodingError, Flat
from feddr.compress.quantised import Quantised
from feddr.compress.rounded import Rounded
from feddr.compress.sparse import Chosen, pack_positions, position_bytes, unpack_positions
from feddr.tree import Tree

COUNT = 4
"""Bytes of the number of numbers."""


@dataclass(frozen=True)
class Nonzero(Chosen):
    """All numbers but zeros, to the last bit, or rounded by ``values_as``.

    Zeros are left out only where this takes fewer bytes, so a message is never longer than one with all numbers. How
    long it is depends on the numbers; so it is for what a server sends, the ``download`` of an algorithm.

    Parameters
    ----------
    values_as
        How the numbers are sent: None as they are, ``Rounded`` or ``Quantised``.

    Examples
    --------
    >>> import numpy as np
    >>> sparse = np.zeros(1000, np.float32)
    >>> sparse[[3, 500]] = 1.5, -2.0
    >>> Nonzero().num_bytes(sparse)  # header, count, two positions of ten bits, two numbers
    23
    >>> bool((Nonzero().compress(sparse) == sparse).all())
    True
    """

    values_as: Rounded | Quantised | None = None

    kind: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if not isinstance(self.values_as, Rounded | Quantised | None):
            raise ValueError(f"values_as must be Rounded(...), Quantised(...) or None, got {self.values_as!r}.")

    def code(self, flat: Flat, lengths: Sequence[int], draw: int) -> Code:
        positions = np.flatnonzero((flat != 0) | np.signbit(flat))  # -0.0 is a number like any other
        if self._bytes(len(positions), len(flat), flat.itemsize) >= self._bytes(len(flat), len(flat), flat.itemsize):
            positions = np.arange(len(flat))
        return positions, positions, *self._numbers(flat[positions], draw)

    def pack(self, code: Code, lengths: Sequence[int]) -> bytes:
        positions, _, *numbers = code
        size, count = sum(lengths), len(positions)
        where = b"" if count == size else pack_positions(positions, size)
        return count.to_bytes(COUNT, "little") + where + self._pack_numbers(tuple(numbers), count)

    def unpack(self, data: bytes, lengths: Sequence[int], dtype: np.dtype[Any]) -> Code:
        size, count = sum(lengths), int.from_bytes(data[:COUNT], "little")
        begin = COUNT + (0 if count == size else position_bytes(count, size))
        positions = np.arange(size) if count == size else unpack_positions(data[COUNT:begin], count, size)
        return positions, positions, *self._unpack_numbers(data[begin:], count, dtype)

    def payload(self, lengths: Sequence[int], itemsize: int) -> int:
        size = sum(lengths)
        return self._bytes(size, size, itemsize)

    def bound(self, lengths: Sequence[int]) -> float:
        return 1.0 if self.values_as is None else self.values_as.bound((sum(lengths),))

    def num_bytes(self, like: Tree) -> int:
        leaves = [np.asarray(leaf) for leaf in tree.leaves(like)]
        count = sum(int(np.count_nonzero((leaf != 0) | np.signbit(leaf))) for leaf in leaves)
        size, itemsize = tree.size(like), leaves[0].dtype.itemsize
        return HEADER + min(self._bytes(count, size, itemsize), self._bytes(size, size, itemsize))

    def length(self, message: bytes, lengths: Sequence[int], itemsize: int) -> int:
        size, count = sum(lengths), int.from_bytes(message[HEADER : HEADER + COUNT], "little")
        if count > size:
            raise EncodingError(f"A message must hold at most {size} numbers, got {count}; it was damaged.")
        return HEADER + self._bytes(count, size, itemsize)

    def _bytes(self, count: int, size: int, itemsize: int) -> int:
        where = 0 if count == size else position_bytes(count, size)
        return COUNT + where + self._number_bytes(count, itemsize)
