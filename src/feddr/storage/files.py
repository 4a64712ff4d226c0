"""Atomic writes (temporary name, fsync, rename) and file locks, one process for each folder."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

LOCK = ".lock"
"""The name of the file that says that a folder is in use."""


class BusyError(ValueError):
    """Another process works in a folder."""


def put(path: Path, data: bytes) -> None:
    """Write a new file, and return when it is on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Replace a file at once: whatever happens, a reader finds the old one or the new one."""
    with replacing(path) as beside:
        beside.write_bytes(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name to write to, and put what was written in the place of ``path`` at once."""
    beside = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield beside
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the error that is under way says more
            beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextlib.contextmanager
def making(folder: Path) -> Iterator[None]:
    """Make a folder, which is gone again, with those above that were made for it, where what follows fails."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # the error that is under way says more
            if folder in made and folder.is_dir():
                shutil.rmtree(folder)
            for place in made:
                if place.is_dir():
                    place.rmdir()
        raise


class Lock:
    """Holds a folder until it is released or the process ends, however it ends.

    Raises
    ------
    BusyError
        Where another process, or another lock of this one, holds the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        while True:
            self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115  it stays open as long as it is held
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise BusyError(f"{folder} is in use by another run; wait for it, or take another folder.") from None
            if self._is_there():
                return
            self._file.close()  # who held it has released it, and the file, between our two steps

    def release(self) -> None:
        """Let others have the folder."""
        if not self._file.closed:
            with contextlib.suppress(OSError):  # a file that stays behind is locked by nobody
                self.path.unlink(missing_ok=True)
            self._file.close()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False
