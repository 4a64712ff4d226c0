"""Atomic writes: a file is written under a temporary name, flushed to disk (fsync) and renamed.

Whatever happens in between, a crash of the program or of the machine, a reader finds the old file or the new one.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def put(path: Path, data: bytes) -> None:
    """Write a new file, and return when it is on the disk (fsync); the name of a new file needs ``sync``, too."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Return when the names in a folder are on the disk (fsync of the folder)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Write a file atomically: whatever happens, a reader finds the old one or the new one."""
    with replacing(path) as beside:
        beside.write_bytes(data)


def write(path: Path, data: bytes) -> None:
    """Write a file atomically, in a folder that is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, data)


@contextlib.contextmanager
def replacing(path: Path, shared: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to ``path`` atomically at the end.

    Parameters
    ----------
    shared
        Whether other processes may write the same file at the same time.
    """
    beside = path.with_name(f".{path.stem}.part{f'-{os.getpid()}' if shared else ''}{path.suffix}")
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
    """Make a folder and its parents; if the body fails, the new ones are removed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # the error that is under way says more
            if folder in made and folder.is_dir():
                shutil.rmtree(folder)
            for path in made:
                if path.is_dir():
                    path.rmdir()
        raise


@contextlib.contextmanager
def refusing(path: Path, kind: type[ValueError] = ValueError) -> Iterator[None]:
    """Raise an error of this kind that names the path where the system refuses to write there."""
    try:
        yield
    except OSError as error:
        raise kind(f"{path}: cannot be written, {error.strerror}.") from None
