"""The append-only log of a deployed run: one JSON object a line, for grep and for programs; no data, no keys."""

from pathlib import Path
from typing import Any

from feddr.storage import jsonl

LONGEST = 300
"""Characters of a text from elsewhere that are kept."""


class Journal:
    """Appends events to a file; each line is written at once, so that a crash loses none before it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path

    def write(self, event: str, **fields: Any) -> None:
        """Add a line."""
        line = {
            "time": jsonl.timestamp().replace("+00:00", "Z"),
            "event": event,
            **{key: plain(value) if isinstance(value, str) else value for key, value in fields.items()},
        }
        jsonl.append(self.path, line)


def plain(text: str) -> str:
    """Return a text from elsewhere without control characters, and without what is too long."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:LONGEST])
