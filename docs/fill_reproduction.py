"""Put the tables and pictures of ``feddr reproduce`` into docs/REPRODUCTION.md: python docs/fill_reproduction.py OUT.

Between ``<!-- summary -->`` and ``<!-- end -->`` comes ``OUT/summary.md``, between ``<!-- shows NAME -->`` and
``<!-- end -->`` what the figure of this name shows, so that no number is written by hand. Figures without runs keep
what they have. Pictures of the figures that the page shows are copied.
"""

import re
import shutil
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "REPRODUCTION.md"
PICTURES = PAGE.parent / "pictures" / "reproduction"
BLOCK = re.compile(r"<!-- (summary|shows [\w-]+) -->\n.*?<!-- end -->", re.DOTALL)
PICTURE = re.compile(r"\(pictures/reproduction/([\w-]+)\.([\w-]+)\.png\)")


def main(out: Path) -> None:
    """Fill the page from a folder of results."""
    text = BLOCK.sub(lambda found: _filled(found, out), PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for figure, name in PICTURE.findall(text):
        source = out / figure / f"{name}.png"
        if source.exists():
            shutil.copyfile(source, PICTURES / f"{figure}.{name}.png")


def _filled(found: re.Match[str], out: Path) -> str:
    kind = found[1]
    path = out / "summary.md" if kind == "summary" else out / kind.removeprefix("shows ") / "shows.md"
    if not path.exists():
        return found[0]
    body = path.read_text(encoding="utf-8")
    if kind != "summary":
        # The page has its own words for the title and the claim; rows of panels become headings of its sections.
        body = body[body.index("### ") :] if "### " in body else ""
        body = "\n\n".join(part for part in re.split(r"\n\n(?=### )", body.strip()) if "No run is there." not in part)
    return f"<!-- {kind} -->\n\n{body.strip()}\n\n<!-- end -->"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
