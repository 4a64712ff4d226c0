"""Put the numbers and pictures of ``feddr reproduce`` into docs/REPRODUCTION.md: python docs/fill_reproduction.py OUT.

A figure of which a row is complete with one seed in OUT takes the place of what the page has for it; figures that are
not in OUT stay as they are. The standings of all figures are kept in docs/reproduction.csv, from which the summary at
the top of the page is written, so that no number is written by hand and nothing is shown that was not run.
"""

import re
import shutil
import sys
from pathlib import Path

from feddr.reproduce import FIGURES, standings

PAGE = Path(__file__).parent / "REPRODUCTION.md"
RANKINGS = PAGE.with_name("reproduction.csv")
PICTURES = PAGE.parent / "pictures" / "reproduction"
WHERE = {"xbar": "at xbar", "personal": "own models", "curve": "sparsity against accuracy"}


def main(out: Path) -> None:
    """Fill the page from a folder of results."""
    text = PAGE.read_text(encoding="utf-8")
    new = standings.read(out / "summary.csv")
    ready = [name for name in FIGURES if (out / name / "shows.md").exists() and _complete(out, name, new)]
    rankings = [one for one in standings.read(RANKINGS) if one.figure not in ready]
    rankings += [one for one in new if one.figure in ready]
    rankings.sort(key=lambda one: list(FIGURES).index(one.figure))
    standings.write(RANKINGS, rankings)
    sections = _sections(text) | {name: _section(out / name) for name in ready}
    text = _fill(text, "summary", standings.describe(rankings))
    text = _fill(text, "figures", "\n\n".join(sections[name] for name in FIGURES if name in sections))
    PAGE.write_text(text, encoding="utf-8")


def _fill(text: str, block: str, body: str) -> str:
    pattern = rf"<!-- {block} -->\n.*?<!-- end -->"
    return re.sub(pattern, lambda _: f"<!-- {block} -->\n\n{body.strip()}\n\n<!-- end -->", text, flags=re.DOTALL)


def _sections(text: str) -> dict[str, str]:
    """Return the section that the page has for each figure."""
    (body,) = re.findall(r"<!-- figures -->\n(.*?)<!-- end -->", text, flags=re.DOTALL)
    sections = [part.strip() for part in re.split(r"\n(?=## )", body) if part.strip()]
    return {re.findall(r"\(`([\w-]+)`\)$", part.partition("\n")[0])[0]: part for part in sections}


def _complete(out: Path, name: str, new: list[standings.BudgetRanking]) -> bool:
    """Return whether the summary ranks the figure, or, where it has no ranks, whether there are any runs."""
    if FIGURES[name].budgets:
        return any(one.figure == name for one in new)
    return "Means over" in (out / name / "shows.md").read_text(encoding="utf-8")


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
