"""Whole numbers of a few bits each, packed into bytes, most significant bit first."""

import numpy as np
from numpy.typing import NDArray


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
    if bits == 8:
        return numbers.astype(np.uint8).tobytes()
    if bits == 4:
        nibbles = np.zeros(len(numbers) + len(numbers) % 2, np.uint8)
        nibbles[: len(numbers)] = numbers
        return (nibbles[0::2] << 4 | nibbles[1::2]).tobytes()
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
    if bits == 8:
        return raw[:count].astype(np.uint64)
    if bits == 4:
        return np.stack([raw >> 4, raw & 15], axis=1).reshape(-1)[:count].astype(np.uint64)
    digits = np.unpackbits(raw, count=count * bits).reshape(count, bits).astype(np.uint64)
    return digits @ (np.uint64(1) << np.arange(bits - 1, -1, -1, dtype=np.uint64))
