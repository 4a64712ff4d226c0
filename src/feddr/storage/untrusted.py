"""Reads small untrusted files up to a limit, and refuses symbolic links where results would be written."""

import json as standard
import os
from pathlib import Path
from typing import Any

from feddr.storage import limits


def read(path: Path, most: int = limits.RECORD) -> bytes:
    """Return the bytes of a file, or raise ValueError where there are more than ``most``; OSError as ``open`` does."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path}: has more than the {most:,} bytes that such a file may have.")
    return data


def json(path: Path, most: int = limits.RECORD) -> Any:
    """Return what a file of JSON holds, or raise ValueError where it is none, or nested too deeply."""
    try:
        return standard.loads(read(path, most))
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply.") from None


def check_links(*places: Path) -> None:
    """Refuse symbolic links, so that nothing outside of the folder is overwritten."""
    for folder in places:
        inside = [Path(here, name) for here, folders, files in os.walk(folder) for name in (*folders, *files)]
        for path in (folder, *inside):
            if path.is_symlink():
                raise ValueError(f"{path} is a link, and results are not written through links; remove it.")
