"""Locks (flock): one process at a time works in a folder, until it releases the lock or ends, however it ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

HIDDEN, VISIBLE = ".lock", "lock"
"""Names of the file that is locked: in a folder of results, from which it goes again, and in one of state."""


class BusyError(ValueError):
    """Another process works in a folder."""


def acquire(descriptor: int, wait: bool = False) -> bool:
    """Lock an open file for this process alone, and return whether that could be done.

    Parameters
    ----------
    wait
        Whether to wait until whoever holds the lock has released it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


class Lock:
    """Locks a folder until it is released or the process ends, and leaves no file behind.

    Raises
    ------
    BusyError
        Where another process, or another lock of this one, holds the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / HIDDEN
        while True:
            self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115  it stays open as long as it is held
            if not acquire(self._file.fileno()):
                self._file.close()
                raise BusyError(f"{folder} is in use by another run; wait for it, or take another folder.")
            if self._is_there():
                return
            self._file.close()  # who held it has released it, and the file, between our two steps

    def release(self) -> None:
        """Release the lock."""
        if not self._file.closed:
            with contextlib.suppress(OSError):  # a file that stays behind is locked by nobody
                self.path.unlink(missing_ok=True)
            self._file.close()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def locked(folder: Path, busy: Exception | None = None) -> Iterator[int]:
    """Lock a folder, which is made if it is not there, and yield the descriptor of the locked file, which stays.

    Parameters
    ----------
    busy
        What to raise where another process holds the lock; None to wait for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / VISIBLE, "w", encoding="utf-8") as file:
        if not acquire(file.fileno(), wait=busy is None) and busy is not None:
            raise busy
        yield file.fileno()


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder."""
    try:
        with locked(folder, busy=BusyError()):
            return False
    except BusyError:
        return True
