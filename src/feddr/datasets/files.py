"""Reads untrusted data files, plain or compressed: truncated and damaged ones are refused by name.

Nothing here runs what a file says (no pickle), and nothing is expanded beyond LIMIT, whatever size a file claims.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from feddr.storage import limits

LIMIT, LONGEST_LINE = limits.DATA, limits.LINE
CHUNK = 2**20
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed by its suffix, and report what is wrong with it in one line."""
    try:
        if not path.is_file() and path.exists():  # a pipe would wait for ever, and /dev/zero has no end
            raise ValueError(f"{path}: cannot be read (not a regular file).")
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file.") from None
    except EOFError:
        raise ValueError(f"{path}: cut short, its compressed data end too early; fetch it again.") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path}: not a sound {path.suffix} file ({error}); fetch it again.") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error}).") from None


def is_compressed(path: Path) -> bool:
    """Return whether the suffix says so."""
    return path.suffix in OPENERS


def read(path: Path, limit: int | None = None) -> bytes:
    """Return all bytes of a file, decompressed; it may have ``limit`` of them, LIMIT by default."""
    most = LIMIT if limit is None else limit
    with opened(path) as file:
        data = take(file, most)
    if len(data) > most:
        verb = "expands to" if is_compressed(path) else "has"
        raise ValueError(f"{path}: {verb} more than {most:,} bytes; cut it into smaller files.")
    return data


def take(file: BinaryIO, most: int) -> bytes:
    """Return the rest of an open file; with more than ``most`` bytes to come, stop soon after them.

    No memory is reserved for more than there is.
    """
    data = bytearray()
    while len(data) <= most and (chunk := file.read(CHUNK)):
        data += chunk
    return bytes(data)


def lines(path: Path) -> Iterator[str]:
    """Return the lines of a text in UTF-8, decompressed, one after the other."""
    total = 0
    with opened(path) as file:
        limits.check_memory(str(path), path.stat().st_size, "cut it into smaller files")
        while line := file.readline(LONGEST_LINE + 1):
            total += len(line)
            if len(line) > LONGEST_LINE or (is_compressed(path) and total > LIMIT):
                raise ValueError(
                    f"{path}: expands to more than {LIMIT:,} bytes, or a line of it to more than {LONGEST_LINE:,}; "
                    "this is not a text of samples."
                )
            yield decode(path, line)


def decode(path: Path, data: bytes) -> str:
    """Return a text in UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a text in UTF-8.") from None
