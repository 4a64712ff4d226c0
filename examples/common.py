"""What the examples share: one command line, and one style of picture."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from feddr import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, OLIVE, VIOLET, BLACK = plots.COLOURS
GREY = "#888888"


def arguments(doc: str | None, argv: Sequence[str] | None, data: bool = False) -> argparse.Namespace:
    """Return ``quick`` and ``out``, and ``data_dir`` for an example that can do with files or without."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the same, smaller, in some seconds")
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder for the picture")
    if data:
        parser.add_argument("--data-dir", help="folder with the real data; without it the example makes do")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def panels(widths: Sequence[float], height: float = 3.6) -> "tuple[Figure, list[Axes]]":
    """Return a figure with panels side by side, as wide as a page."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(10.0, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    axes = list(figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])
    for one in axes:
        tidy(one)
    return figure, axes


def curve(axes: "Axes", x: ArrayLike, y: ArrayLike, i: int, label: str) -> None:
    """Draw the i-th curve of a panel: colour, line and marker tell it from the others."""
    (line,) = axes.plot(x, y, color=plots.COLOURS[i], marker=plots.MARKERS[i], label=label)
    line.set(linestyle=plots.LINES[i], linewidth=1.6, markersize=4.5, markevery=(i, max(1, np.size(x) // 7)))


def log_scale(axes: "Axes") -> None:
    """Make the vertical scale logarithmic, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def tidy(axes: "Axes") -> None:
    """Take away what a picture can do without."""
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: "Figure", path: Path) -> Path:
    """Write the picture, and say where it is."""
    plots.save(figure, path)
    print(f"\nPicture: {path}")
    return path
