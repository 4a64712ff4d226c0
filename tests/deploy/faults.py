"""The table of faults in docs/DEPLOYMENT.md: rows that tests write when they have passed, and its place in the text.

``python -m tests.deploy.faults FOLDER`` compares the rows in a folder with the document; with ``--write`` it puts them
there.
"""

import json
import os
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "DEPLOYMENT.md"
BEGIN, END = "<!-- faults: written by make test-deploy -->", "<!-- end of faults -->"
TITLES = ("fault, done for real", "what the server saw", "what became of the run")


def record(order: int, fault: str, seen: str, outcome: str) -> None:
    """Write a row, if somebody collects them; ``order`` is its place in the table."""
    folder = os.environ.get("FEDDR_FAULTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{order:02d}.json").write_text(json.dumps([fault, seen, outcome]), encoding="utf-8")


def table(folder: Path) -> str:
    """Return the rows of a folder in Markdown."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    lines = [TITLES, ("---",) * len(TITLES), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def main(words: list[str]) -> int:
    """Compare or write, and return the exit code."""
    folder = Path(next(word for word in words if not word.startswith("--")))
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}\n{table(folder)}\n{END}{after}"
    if "--write" in words:
        DOCUMENT.write_text(new, encoding="utf-8")
        return 0
    print(table(folder))
    if new != text:
        print(f"\n{DOCUMENT} has another table; put this one there by: make fault-table", file=sys.stderr)
    return int(new != text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
