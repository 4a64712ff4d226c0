"""The HTML page of a report: one file with its style, script and data inside, and no requests to other servers."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

UPLOT = "vendor/uplot"
STYLES = ("colours", "style", "cards", "controls", "tables", "charts", "fares", "phone")
SCRIPTS = (
    *("text", "series", "scales", "charts", "hover", "controls", "summary", "heat", "bars", "clients", "fares"),
    *("certificate", "placement", "settings", "main"),
)
"""Assets, in the order in which they need each other."""


def page(data: dict[str, Any], *, live: bool = False) -> str:
    """Return the page that shows what ``gather`` has found.

    Parameters
    ----------
    data
        For JSON. Its texts come from configs, so nothing in them may become markup or program.
    live
        Whether the page asks the server that it comes from for newer data.
    """
    own = "\n".join(_asset(f"assets/{name}.js") for name in SCRIPTS)
    theirs = f"/*\n{_asset(f'{UPLOT}/LICENSE')}\n*/\n{_asset(f'{UPLOT}/uPlot.iife.min.js')}"
    script = f'{theirs}\n(() => {{\n"use strict";\n{own}\n}})();\n'
    style = "\n".join([_asset(f"{UPLOT}/uPlot.min.css"), *(_asset(f"assets/{name}.css") for name in STYLES)])
    parts = {
        "policy": policy(script, style, live),
        "title": html.escape(f"{data['title']} · feddr"),
        "style": style,
        "data": embedded({**data, "live": live}),
        "script": script,
    }
    # Split once, so that what is put in one place cannot hold the mark of another.
    first, *rest = _asset("assets/page.html").split("{{")
    for piece in rest:
        name, after = piece.split("}}", 1)
        first += parts[name] + after
    return first


def embedded(data: Any) -> str:
    r"""Return JSON that stands in a script element: no text in it can end the element, or begin a comment.

    Examples
    --------
    >>> print(embedded("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(script: str, style: str, live: bool) -> str:
    """Return what the browser is to allow the page: this program, this style, and its own server if it has one."""
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return (files("feddr.report") / name).read_text(encoding="utf-8")
