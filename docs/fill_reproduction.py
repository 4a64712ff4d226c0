"""Put the numbers and pictures of ``feddr reproduce`` into docs/REPRODUCTION.md: python docs/fill_reproduction.py OUT.

Between ``<!-- summary -->`` and ``<!-- end -->`` comes ``OUT/summary.md``, between ``<!-- figures -->`` and
``<!-- end -->`` a section for each figure of which a row is complete with one seed, with its pictures, so that no
number is written by hand and nothing is shown that was not run.
"""

import csv
import re
import shutil
import sys
from pathlib import Path

from feddr.reproduce import FIGURES

PAGE = Path(__file__).parent / "REPRODUCTION.md"
PICTURES = PAGE.parent / "pictures" / "reproduction"
WHERE = {"xbar": "at xbar", "personal": "own models", "curve": "sparsity against accuracy"}


def main(out: Path) -> None:
    """Fill the page from a folder of results."""
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    ready = [name for name in FIGURES if (out / name / "shows.md").exists() and _complete(out, name)]
    text = PAGE.read_text(encoding="utf-8")
    text = _fill(text, "summary", (out / "summary.md").read_text(encoding="utf-8"))
    text = _fill(text, "figures", "\n\n".join(_section(out / name) for name in ready))
    PAGE.write_text(text, encoding="utf-8")


def _fill(text: str, block: str, body: str) -> str:
    pattern = rf"<!-- {block} -->\n.*?<!-- end -->"
    return re.sub(pattern, lambda _: f"<!-- {block} -->\n\n{body.strip()}\n\n<!-- end -->", text, flags=re.DOTALL)


def _complete(out: Path, name: str) -> bool:
    """Return whether the summary ranks the figure, or, where it has no ranks, whether there are any runs."""
    if not FIGURES[name].budgets:
        return "Means over" in (out / name / "shows.md").read_text(encoding="utf-8")
    with open(out / "summary.csv", newline="", encoding="utf-8") as file:
        return any(line["figure"] == name for line in csv.DictReader(file))


def _section(folder: Path) -> str:
    """Return what a figure shows, with its name in the heading and its pictures, which are copied, below the claim."""
    head, *rows = re.split(r"\n\n(?=### )", (folder / "shows.md").read_text(encoding="utf-8").strip())
    title, claim = head.split("\n\n")
    rows = [row for row in rows if "No seed is complete." not in row]
    pictures = []
    for path in sorted(folder.glob("*.png"), key=lambda path: ("personal" in path.stem, path.stem)):
        name = f"{folder.name}-{path.name}"
        shutil.copyfile(path, PICTURES / name)
        pictures.append(f"![{WHERE[path.stem.split('-')[-1]]}](pictures/reproduction/{name})")
    return "\n\n".join([f"{title} (`{folder.name}`)", claim, "\n".join(pictures), *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
