"""Untrusted npz files: the directory of the zip and the sizes are checked before anything is expanded; no pickle."""

import math
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from feddr.datasets import files

RATIO = 1032
"""The most that a byte can expand to by the method deflate."""

NUMBERS = "biuf"
"""Kinds of arrays that samples are made of: true or false, whole and other numbers."""

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, names: Iterable[str]) -> dict[str, NDArray[np.generic]]:
    """Return the named arrays of an npz file.

    An array is read only if the directory of the zip and the header of the array agree about its size, and if all of
    them together have at most ``files.LIMIT`` bytes.
    """
    with _members(path, names) as (archive, members):
        _check_sizes(path, list(members.values()))
        return {name: _array(path, archive, info) for name, info in members.items()}


def rows(path: Path, name: str) -> int:
    """Return how many rows an array of an npz file has, by its header alone."""
    with _members(path, [name]) as (archive, members), archive.open(members[name]) as file:
        shape, _, _ = _header(path, members[name], file)
    return shape[0] if shape else 0


@contextmanager
def _members(path: Path, names: Iterable[str]) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Open an npz file and give where the named arrays are in it."""
    try:
        with files.opened(path) as file, zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            missing = [name for name in names if f"{name}.npy" not in members]
            if missing:
                has = ", ".join(sorted(name.removesuffix(".npy") for name in members)) or "nothing"
                raise ValueError(f"{path}: needs an array {missing[0]}, it has {has}.")
            yield archive, {name: members[f"{name}.npy"] for name in names}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path}: not a sound npz file ({error}); fetch it again.") from None


def _check_sizes(path: Path, members: list[zipfile.ZipInfo]) -> None:
    total, real = sum(info.file_size for info in members), path.stat().st_size
    if total > files.LIMIT:
        raise ValueError(
            f"{path}: expands to {total:,} bytes, at most {files.LIMIT:,} are read; save fewer samples in it."
        )
    for info in members:
        if info.compress_size > real or info.file_size > RATIO * info.compress_size:
            raise ValueError(
                f"{path}: {info.filename} is announced with {info.file_size:,} bytes, which its {info.compress_size:,} "
                "cannot hold; the file is damaged, fetch it again."
            )


def _header(path: Path, info: zipfile.ZipInfo, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Return shape, order and type of an array, whose numbers come next in the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # headers of Python 2, which are as good
            shape, fortran, dtype = HEADERS[npy.read_magic(file)](file)
    except (KeyError, ValueError, TokenError, RecursionError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path}: {info.filename} is not an array of NumPy ({reason}).") from None
    return shape, fortran, dtype


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[np.generic]:
    with archive.open(info) as file:
        shape, fortran, dtype = _header(path, info, file)
        if dtype.hasobject:
            raise ValueError(
                f"{path}: {info.filename} holds Python objects, which are never loaded; save arrays of numbers."
            )
        if dtype.kind not in NUMBERS:
            raise ValueError(f"{path}: {info.filename} must hold numbers, it holds {dtype}.")
        announced, follow = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
        if announced != follow or min(shape, default=0) < 0:
            raise ValueError(
                f"{path}: {info.filename} announces {announced:,} bytes of numbers and has {follow:,}; it is damaged."
            )
        data = file.read()
    if len(data) != announced:
        raise ValueError(f"{path}: {info.filename} is cut short; fetch it again.")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
