"""Whole numbers of a few bits each, packed into bytes, most significant bit first."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE_IN_A_BYTE = (2, 4, 8)
"""Sizes of which a byte holds a whole number, and which are packed without looking at every bit."""


def num_bytes(count: int, bits: int) -> int:
    """Return the bytes that ``count`` numbers of ``bits`` bits take."""
    return -(-count * bits // 8)


def pack(numbers: NDArray[np.unsignedinteger], bits: int) -> bytes:
    """Return whole numbers below 2**bits as bytes.

    Examples
    --------
    >>> pack(np.array([1, 15, 2], np.uint16), 4).hex()
    '1f20'
    """
    if bits in WHOLE_IN_A_BYTE:
        each = 8 // bits  # numbers of a byte
        fields = np.zeros((num_bytes(len(numbers), bits), each), np.uint8)
        fields.reshape(-1)[: len(numbers)] = numbers
        packed: NDArray[Any] = fields[:, 0]
        for k in range(1, each):
            packed = packed << bits | fields[:, k]
        return packed.tobytes()
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    return np.packbits((numbers.astype(np.uint64)[:, None] >> shifts & np.uint64(1)).astype(np.uint8)).tobytes()


def unpack(data: bytes, count: int, bits: int) -> NDArray[np.uint64]:
    """Return the ``count`` numbers that ``pack`` was given.

    Examples
    --------
    >>> unpack(bytes.fromhex("1f20"), 3, 4).tolist()
    [1, 15, 2]
    """
    raw = np.frombuffer(data, np.uint8)
    if bits in WHOLE_IN_A_BYTE:
        each = 8 // bits
        fields = np.empty((len(raw), each), np.uint64)
        for k in range(each):
            fields[:, k] = raw >> (8 - bits * (k + 1)) & (2**bits - 1)
        return fields.reshape(-1)[:count]
    digits = np.unpackbits(raw, count=count * bits).reshape(count, bits).astype(np.uint64)
    return digits @ (np.uint64(1) << np.arange(bits - 1, -1, -1, dtype=np.uint64))
