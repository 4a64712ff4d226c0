"""The table of faults in docs/RELIABILITY.md: rows that tests write when they have passed, and its place in the text.

``python -m tests.reliability.faults FOLDER`` prints the rows in a folder; with ``--write`` it puts them into the text.
"""

import json
import os
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "RELIABILITY.md"
BEGIN, END = "<!-- faults: written by make test-reliability -->", "<!-- end of faults -->"
TITLES = ("fault, done for real", "tried", "survived", "lost", "seen")


def record(order: int | None, fault: str, tried: int, survived: int, seen: str) -> None:
    """Print a row, and write it down if somebody collects them; ``order`` is its place in the table, if it has one."""
    row = [fault, str(tried), str(survived), str(tried - survived), seen]
    print(" | ".join(row))
    folder = os.environ.get("FEDDR_FAULTS")
    if folder and order is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{order:02d}.json").write_text(json.dumps(row), encoding="utf-8")


def table(folder: Path) -> str:
    """Return the rows of a folder in Markdown."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [TITLES, ("---",) * len(TITLES), *rows])


def main(words: list[str]) -> None:
    """Print the table, or write it."""
    folder = Path(next(word for word in words if not word.startswith("--")))
    print(table(folder))
    if "--write" in words:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table(folder)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
