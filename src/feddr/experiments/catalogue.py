"""The catalogue of experiments that feddr brings: their files, names and descriptions."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAPER = FOLDER / "paper"


def shipped() -> dict[str, Path]:
    """Return the files by name, those to start from first.

    Examples
    --------
    >>> list(shipped())[:3]
    ['first', 'async', 'tune']
    """
    start = ("first", "async", "tune")
    return {name: FOLDER / f"{name}.toml" for name in start} | {
        path.stem: path for path in sorted(PAPER.glob("*.toml"))
    }


def summary(path: Path) -> str:
    """Return the first sentence of the comment at the top of an experiment, without what follows a colon.

    What stands in brackets goes first, if there is a colon in it.

    Examples
    --------
    >>> summary(shipped()["synthetic-11"])
    'synthetic-(1,1), 60 x 32 x 10, everybody in every round'
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.removeprefix("#").strip() for line in lines[: next(i for i, s in enumerate(lines) if s[:1] != "#")]]
    sentence = " ".join(comment).split(". ")[0].removesuffix(".")
    return re.sub(r" \([^()]*: [^()]*\)", "", sentence).split(": ")[0]
