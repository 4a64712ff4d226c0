"""Short descriptions of large things, as text and, with small pictures, for notebooks: facts, never samples."""

import html
import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST = 9
"""Facts that are shown, so that a description has ten lines at most."""

POINTS = 120
"""Points of a small picture, at most."""

COLOUR = "#1060c2"


@dataclass(frozen=True)
class Card:
    """A title, facts by name, and small curves by name.

    Examples
    --------
    >>> card = Card("History", {"evaluations": "5", "F": "2.3 to 0.19"}, {"F": [2.3, 0.7, 0.19]})
    >>> print(card.text)
    History
      evaluations  5
      F            2.3 to 0.19
    >>> card.html.count("<tr>"), card.html.count("<svg")
    (2, 1)
    """

    title: str
    facts: Mapping[str, str]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The title and a line for each fact."""
        facts = list(self.facts.items())[:MOST]
        width = max((len(name) for name, _ in facts), default=0)
        return "\n".join([self.title, *(f"  {name:{width}}  {_one_line(value)}" for name, value in facts)])

    @property
    def html(self) -> str:
        """A table with the facts, and the curves beside it."""
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(_one_line(value))}</td></tr>'
            for name, value in list(self.facts.items())[:MOST]
        )
        pictures = "".join(
            f"<figure style='margin:0'><figcaption><small>{html.escape(name)}</small></figcaption>{drawn}</figure>"
            for name, values in self.curves.items()
            if (drawn := sparkline(values, name))
        )
        return (
            f"<div><strong>{html.escape(self.title)}</strong>"
            "<div style='display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start'>"
            f"<table>{rows}</table>{pictures}</div></div>"
        )


def sparkline(values: Sequence[float], label: str = "", width: int = 180, height: int = 48) -> str:
    """Return a curve as a small SVG picture, on a logarithmic scale where values above 0 span a factor of ten.

    Values that are not finite are left out; with fewer than two there is no picture.

    Examples
    --------
    >>> sparkline([3.0, 2.0, 1.0]).startswith("<svg"), sparkline([1.0])
    (True, '')
    """
    numbers = [float(value) for value in values]
    step = max(1, -(-len(numbers) // POINTS))
    points = [(i, y) for i, y in enumerate([*numbers[:-1:step], *numbers[-1:]]) if math.isfinite(y)]
    if len(points) < 2:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    if low > 0 and high >= 10 * low:
        points = [(i, math.log(y)) for i, y in points]
        low, high = math.log(low), math.log(high)
    right = points[-1][0]
    path = " ".join(
        f"{3 + (width - 6) * i / right:.1f},{3 + (height - 6) * (1 - (y - low) / ((high - low) or 1)):.1f}"
        for i, y in points
    )
    x, y = path.split(" ")[-1].split(",")
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="{html.escape(label)}">'
        f'<polyline points="{path}" fill="none" stroke="{COLOUR}" stroke-width="1.6"/>'
        f'<circle cx="{x}" cy="{y}" r="2.5" fill="{COLOUR}"/></svg>'
    )


def as_text(self: Any) -> str:
    """Return the description of something that has a ``_card``: for ``__repr__``."""
    return self._card().text


def as_html(self: Any) -> str:
    """Return the same with pictures: for ``_repr_html_``, which notebooks ask for."""
    return self._card().html


def number(value: float) -> str:
    """Return a number with four digits.

    Examples
    --------
    >>> number(0.123456), number(1200), number(float("nan"))
    ('0.1235', '1200', '-')
    """
    return "-" if math.isnan(value) else f"{value:.4g}"


def percent(value: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.893), percent(float("nan"))
    ('89.3 %', '-')
    """
    return "-" if math.isnan(value) else f"{100 * value:.1f} %"


def megabytes(count: float) -> str:
    """Return a number of bytes in MB, or in kB where there are few.

    Examples
    --------
    >>> megabytes(4480), megabytes(21.94e6), megabytes(3.2e9)
    ('4.48 kB', '21.9 MB', '3,200 MB')
    """
    if count < 1e5:
        return f"{count / 1e3:.3g} kB"
    return f"{count / 1e6:,.0f} MB" if count >= 1e8 else f"{count / 1e6:.3g} MB"


def _one_line(text: str, most: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Short(reprlib.Repr):
    """Python's repr with long collections cut, and arrays shown by type and shape."""

    def __init__(self) -> None:
        super().__init__()
        self.maxother = 100

    def repr_ndarray(self, x: Any, _level: int) -> str:
        return f"{x.dtype}{list(x.shape)}" if x.ndim else repr(x.item())

    repr_ArrayImpl = repr_ndarray


def short(value: Any) -> str:
    """Return the repr of a value in one short line: long collections cut, arrays by type and shape.

    Examples
    --------
    >>> import numpy as np
    >>> short({"mask": np.ones((2, 3), bool), "words": ("bias",)})
    "{'mask': bool[2, 3], 'words': ('bias',)}"
    """
    return _Short().repr(value)
