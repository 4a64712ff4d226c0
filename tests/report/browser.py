"""What a browser shows: charts by their titles, canvases by their pixels, and what is said to screen readers."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from feddr.report.gather import gather
from feddr.report.page import page as page_of

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Locator, Page


def written(path: Path, *folders: Path) -> Path:
    path.write_text(page_of(gather(folders)))
    return path


def chart(page: "Page", title: str) -> "Locator":
    return page.get_by_role("article", name=title, exact=True)


def pixels(canvas: "Locator") -> int:
    """How many pixels of a canvas have been painted."""
    count: int = canvas.evaluate(
        "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"
    )
    return count


def picture(canvas: "Locator") -> str:
    """What is painted on a canvas, wherever it is in the window."""
    url: str = canvas.evaluate("c => c.toDataURL()")
    return url


def of_colour(page: "Page", canvas: "Locator", name: str) -> int:
    """How many pixels of a canvas have, nearly, the colour of a line."""
    count: int = canvas.evaluate(
        "(c, name) => { const h = getComputedStyle(document.documentElement).getPropertyValue(name).trim();"
        " const rgb = [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16));"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
        " for (let i = 0; i < d.length; i += 4)"
        "   n += d[i + 3] > 200 && rgb.every((v, k) => Math.abs(v - d[i + k]) < 24);"
        " return n; }",
        name,
    )
    assert page is canvas.page
    return count


def heights(card: "Locator", name: str, shares: list[float]) -> list[float]:
    """How high a line is, in pixels from above, at these shares of the width of its chart."""
    found: list[float] = card.locator(".uplot").evaluate(
        "(u, [name, shares]) => { const c = u.querySelector('canvas'), o = u.querySelector('.u-over');"
        " const h = getComputedStyle(document.documentElement).getPropertyValue(name).trim();"
        " const rgb = [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16));"
        " return shares.map((share) => { const x = Math.round(o.offsetLeft + share * o.offsetWidth), ys = [];"
        "   const d = c.getContext('2d').getImageData(x, 0, 1, c.height).data;"
        "   for (let y = 0; y < c.height; y += 1) if (rgb.every((v, k) => Math.abs(v - d[4 * y + k]) < 40)) ys.push(y);"
        "   return ys.reduce((a, b) => a + b, 0) / ys.length; }); }",
        [name, shares],
    )
    return found


def place(over: "Locator") -> "FloatRect":
    """Where a chart is in the window, when nothing covers it."""
    over.page.locator("#curves").evaluate("section => section.scrollIntoView()")
    box = over.bounding_box()
    assert box is not None
    return box


def spoken(page: "Page", words: str) -> None:
    """Wait until a screen reader is told something that begins so."""
    page.locator("#spoken", has_text=re.compile(f"^{re.escape(words)}")).wait_for(state="attached")
