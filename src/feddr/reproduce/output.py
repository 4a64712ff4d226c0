"""The files of a figure: pictures, a table of everything, and a text of what it shows."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feddr.history import COLUMNS, History
from feddr.reproduce.figure import Figure, PanelRow
from feddr.reproduce.formatting import summary
from feddr.reproduce.plan import Found, Plan, complete

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from feddr.plots.reproduce import Dot

DPI, COLOURS = 90, 256
"""Pictures for a page, not for print."""


def save(folder: Path, figure: Figure, rows: Sequence[PanelRow], plan: Plan) -> str:
    """Write the files of a figure from the runs that are there, and return the text."""
    from feddr.plots import reproduce as plot

    folder.mkdir(parents=True, exist_ok=True)
    runs = {row.title: plan.finished(row) for row in rows}
    _table(folder / "everything.csv", runs)
    shown = {row.title: _lines(row, runs[row.title]) for row in rows}
    text = _text(figure, rows, runs, shown)
    (folder / "shows.md").write_text(text, encoding="utf-8")
    drawn = {title: lines for title, lines in shown.items() if lines}
    if not drawn:
        return text
    for x in figure.x:
        _picture(plot.panels(drawn, figure.title, x), folder / f"{x}-xbar.png")
        own = {title: _with_own(lines) for title, lines in drawn.items()}
        own = {title: lines for title, lines in own.items() if lines}
        if own:
            _picture(plot.panels(own, figure.title, x, "personal_"), folder / f"{x}-personal.png")
    if figure.curve:
        _picture(plot.curve(dots(drawn), f"{figure.title}\n{_where(rows)}"), folder / "curve.png")
    return text


def dots(rows: Mapping[str, Mapping[str, Sequence[History]]]) -> "dict[str, list[Dot]]":
    """Return the ends of all runs as points of sparsity and test accuracy, by line; a point for each row."""
    from feddr.plots.reproduce import Dot

    by_line: dict[str, list[Dot]] = {}
    for title, lines in rows.items():
        for label, histories in lines.items():
            zeros = [history.last.sparsity for history in histories]
            right = [history.last.test_accuracy for history in histories]
            count = len(histories)
            name = title.rpartition("=")[2]
            dot = Dot(name, sum(zeros) / count, sum(right) / count, min(right), max(right))
            by_line.setdefault(label, []).append(dot)
    return by_line


def _lines(row: PanelRow, runs: Found) -> dict[str, list[History]]:
    """Return the histories of each line with the seeds that all lines have; those of runs that diverged left out."""
    lines: dict[str, list[History]] = {label: [] for label in row.lines}
    whole = complete(row, runs)
    for (label, seed), run in runs.items():
        if run.status != "diverged" and seed in whole:
            lines[label].append(run.history)
    return {label: histories for label, histories in lines.items() if histories}


def _with_own(lines: Mapping[str, list[History]]) -> dict[str, list[History]]:
    return {
        label: histories
        for label, histories in lines.items()
        if all(math.isfinite(history.last.personal_train_loss) for history in histories)
    }


def _text(
    figure: Figure, rows: Sequence[PanelRow], runs: Mapping[str, Found], shown: Mapping[str, dict[str, list[History]]]
) -> str:
    parts = [f"## {figure.title}\n", f"The paper: {figure.claim}\n"]
    for row in rows:
        parts.append(summary(row.title, shown[row.title], figure.x[-1]))
        diverged = [
            f"{label} (seed {seed})" for (label, seed), run in runs[row.title].items() if run.status == "diverged"
        ]
        parts += [f"Diverged: {', '.join(diverged)}.\n"] if diverged else []
    return "\n".join(parts)


def _where(rows: Sequence[PanelRow]) -> str:
    return rows[0].title.rpartition(", ")[0]


def _table(path: Path, everything: Mapping[str, Found]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["experiment", "line", "seed", "status", *COLUMNS], extrasaction="ignore")
        writer.writeheader()
        for title, runs in everything.items():
            for (label, seed), run in runs.items():
                about = {"experiment": title, "line": label, "seed": seed, "status": run.status}
                writer.writerows(about | row.to_dict() for row in run.history.rows)


def _picture(picture: "Picture", path: Path) -> None:
    """Write a picture with a palette of few colours, so that the file is small."""
    from PIL import Image

    drawn = io.BytesIO()
    picture.savefig(drawn, dpi=DPI)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
