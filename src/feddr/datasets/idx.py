"""The idx format of MNIST: a magic number, the sizes, then the numbers, all big-endian.

Bytes 0 and 1 are zero, byte 2 is the type (8: bytes, 12: 32-bit integers), byte 3 the number of axes; then one 32-bit
size for each axis.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.datasets import files

TYPES: dict[int, np.dtype[Any]] = {8: np.dtype("u1"), 12: np.dtype(">i4")}
DEFLATE = 1032
"""The most that a byte of a gzip file can expand to."""


def read_idx(path: Path, kind: int, shape: tuple[int | None, ...]) -> NDArray[np.generic]:
    """Return the array of an idx file, perhaps compressed.

    Parameters
    ----------
    path
        The file.
    kind
        The type that it must have: 8 or 12.
    shape
        The sizes that it must have, None for any.
    """
    dtype = TYPES[kind]
    wanted = (0, 0, kind, len(shape))
    with files.opened(path) as file:
        head = file.read(4)
        if tuple(head) != wanted:
            raise ValueError(
                f"{path}: an idx file with {len(shape)} axes of type {kind} begins with the bytes {wanted}, this one "
                f"with {tuple(head)}; it is another file, or a damaged one."
            )
        sizes = np.frombuffer(file.read(4 * len(shape)).ljust(4 * len(shape), b"\0"), ">u4").tolist()
        if any(b is not None and a != b for a, b in zip(sizes, shape, strict=True)) or 0 in sizes:
            want = " x ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"{path}: needs the sizes {want}, its header says {' x '.join(map(str, sizes))}.")
        # Before anything is reserved: can a file of this size hold what its header says?
        announced, real = math.prod(sizes) * dtype.itemsize, path.stat().st_size
        most = min(files.LIMIT, DEFLATE * real) if files.is_compressed(path) else real
        if announced > most:
            raise ValueError(
                f"{path}: its header announces {announced:,} bytes, but a file of {real:,} bytes has at most {most:,}; "
                "it is cut short or damaged, fetch it again."
            )
        data = files.take(file, announced)
    if len(data) != announced:
        follow = f"{len(data):,} follow, it is cut short" if len(data) < announced else "more follow, it is damaged"
        raise ValueError(f"{path}: its header announces {announced:,} bytes and {follow}; fetch it again.")
    return np.frombuffer(data, dtype).reshape(sizes)
