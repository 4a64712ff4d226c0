"""Logs in JSON Lines: one object a line, only ever appended to, for people with grep and for programs."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def timestamp() -> str:
    """Return the time in UTC to the millisecond, as in 2024-05-01T12:00:00.000+00:00."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def append(path: Path, entry: Mapping[str, Any]) -> None:
    """Add a line; the file is closed again, so that a crash loses no line before it."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a log, without lines that are no JSON, such as one that is half written."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry
