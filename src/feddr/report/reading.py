"""Reader of the files of a run, which are untrusted: read up to a limit, and refused by name where they are wrong."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from feddr.storage import untrusted


def text(path: Path) -> str:
    """Return a text."""
    with reading(path):
        return untrusted.read(path).decode()


def table(path: Path) -> dict[str, Any]:
    """Return an object of JSON, empty where there is no file."""
    if not path.is_file():
        return {}
    with reading(path):
        content = untrusted.json(path)
        if not isinstance(content, dict):
            raise ValueError(f"a JSON object is needed, got {type(content).__name__}")
        return content


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say which file is wrong."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: cannot be read, {error.strerror}.") from None
    except (ValueError, TypeError, StopIteration) as error:
        raise ValueError(f"{path}: is not what feddr has written, {error}.") from None
