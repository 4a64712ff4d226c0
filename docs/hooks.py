"""What mkdocs cannot do by itself: links to files outside docs/, and formulas without a script from elsewhere.

The pages are also read as they are, in a repository viewer, so they are written for that: relative links, and formulas
between dollars.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
BAR = re.compile(r"<mo>(&#x02016;|&#x0007C;)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links that leave docs/, which a site does not have, by the path of the file."""
    return OUTSIDE.sub(_path, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Replace formulas, which pymdownx.arithmatex has marked, by MathML, which browsers show by themselves."""
    return FORMULA.sub(_mathml, html)


def _path(link: re.Match[str]) -> str:
    text, path = link[1], link[2].rstrip("/")
    return f"`{path}`" if path.endswith(text.strip("`")) else f"{text} (`{path}`)"


def _mathml(found: re.Match[str]) -> str:
    shown = convert(html.unescape(found[2]).strip(), display="block" if found[1] == "div" else "inline")
    # The bars of norms would stretch, and one with an index less far than the other.
    return BAR.sub(r'<mo stretchy="false">\1', shown)
