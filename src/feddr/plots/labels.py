"""Labels of points that do not cover each other, nor the points: each goes where there is room near its point."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

DISTANCES = (9.0, 16.0, 26.0, 38.0, 52.0, 68.0, 88.0)
"""Of the middle of a label from its point, in points of 1/72 inch; farther ones get a line to their point."""

DIRECTIONS = 16
MARK = 5.0
"""Half the width of a marker, in points."""

ROOM = 1.0
"""Points around a label."""


class Label(NamedTuple):
    """A text for a point of a plot, in the colour of its line."""

    x: float
    y: float
    text: str
    colour: str


class LabelBox(NamedTuple):
    """A rectangle in points."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: "LabelBox") -> bool:
        """Return whether the two have more than an edge in common."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.top <= other.bottom or other.top <= self.bottom)


def add(axes: "Axes", labels: Sequence[Label], fontsize: float = 7.0) -> None:
    """Add labels to a plot that is otherwise complete: limits, scale and legend do not change any more.

    Where there is no room without covering anything, a label covers as little as possible.
    """
    figure = axes.figure.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    points = 72.0 / figure.dpi
    places = [tuple(points * v for v in axes.transData.transform((one.x, one.y))) for one in labels]
    frame = axes.get_window_extent()
    inside = LabelBox(*(points * v for v in (frame.x0, frame.y0, frame.x1, frame.y1)))
    taken = [LabelBox(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in places]
    if (legend := axes.get_legend()) is not None:
        taken.append(LabelBox(*(points * v for v in legend.get_window_extent().extents)))
    along = [LabelBox(x, y, x, y) for line in axes.get_lines() for x, y in _along(line, points)]
    for one, (x, y) in zip(labels, places, strict=True):
        text = axes.annotate(
            one.text, (one.x, one.y), (0, 0), textcoords="offset points", ha="center", va="center", fontsize=fontsize
        )
        extent = text.get_window_extent()
        size = points * extent.width + 2 * ROOM, points * extent.height + 2 * ROOM
        dx, dy = min(_offsets(size), key=lambda d: _cost(_box(x + d[0], y + d[1], size), taken, along, inside, d))
        taken.append(_box(x + dx, y + dy, size))
        text.remove()
        far = math.hypot(dx, dy) > DISTANCES[2]
        axes.annotate(
            one.text,
            (one.x, one.y),
            (dx, dy),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=fontsize,
            color=one.colour,
            arrowprops={"arrowstyle": "-", "color": one.colour, "linewidth": 0.4, "shrinkB": 3.0} if far else None,
        )


def _offsets(size: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Yield where the middle of a label may be, straight above first, nearer ones before others."""
    for distance, k in itertools.product(DISTANCES, range(DIRECTIONS)):
        angle = math.pi / 2 + (-1) ** k * math.pi * ((k + 1) // 2) / (DIRECTIONS / 2)
        yield distance * math.cos(angle) + 0.5 * size[0] * math.cos(angle), distance * math.sin(angle)


def _along(line: "Line2D", points: float) -> Iterator[tuple[float, float]]:
    """Yield places on a line of a plot, a few points apart."""
    corners = points * line.get_transform().transform(line.get_xydata())
    for (x, y), (u, v) in itertools.pairwise(corners.tolist()):
        steps = max(1, round(math.hypot(u - x, v - y) / 4))
        yield from ((x + (u - x) * k / steps, y + (v - y) * k / steps) for k in range(steps + 1))


def _box(x: float, y: float, size: tuple[float, float]) -> LabelBox:
    return LabelBox(x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)


def _cost(
    box: LabelBox, taken: Sequence[LabelBox], along: Sequence[LabelBox], inside: LabelBox, offset: tuple[float, float]
) -> tuple[int, float]:
    """Return how many labels and points a label would cover, and how far away it would be, or how much of lines."""
    out = box.left < inside.left or box.right > inside.right or box.bottom < inside.bottom or box.top > inside.top
    touched = sum(box.overlaps(point) for point in along)
    return sum(box.overlaps(other) for other in taken) + 10 * out, math.hypot(*offset) + 8 * touched
