"""The event log of a supervised process: a line of JSON in a file, and a line on stderr."""

import sys
from dataclasses import dataclass
from pathlib import Path

from feddr.storage import jsonl


@dataclass(frozen=True)
class Events:
    """A log to which each event is one line, with the time, a level, the event's name and its facts.

    Parameters
    ----------
    path
        The file; it is only ever appended to.
    source
        Who writes, such as ``"node 0"``.
    """

    path: Path
    source: str
    quiet: bool = False

    def write(self, level: str, event: str, text: str, **facts: object) -> None:
        """Append an event; ``text`` is what a person reads."""
        time = jsonl.timestamp()
        line = {"time": time, "level": level, "source": self.source, "event": event, "text": text, **facts}
        jsonl.append(self.path, line)
        if not self.quiet:
            print(f"{time} {self.source}: {text}", file=sys.stderr, flush=True)
