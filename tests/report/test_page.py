"""The page: complete in itself, and nothing that a config says becomes markup or program."""

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from feddr import plots
from feddr.report.gather import gather
from feddr.report.page import embedded, page
from tests.report.folders import experiment

EVIL = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> {{script}} ]]> \u2028 &lt;"


class Elements(HTMLParser):
    """The elements of a page, with their attributes and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes), ""))
        self.inside = True

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            tag, attributes, text = self.found[-1]
            self.found[-1] = tag, attributes, text + data

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


@settings(deadline=None)
@given(text=st.text() | st.sampled_from(["</script>", "<!--<script>", EVIL, "\ud800", "&#60;"]))
def test_a_text_comes_out_as_it_went_in_and_ends_no_element(text: str) -> None:
    inside = embedded({"text": text})
    assert json.loads(inside) == {"text": text}
    assert not set(inside) & set("<>&")
    assert inside.isascii()


def evil(data: Any) -> Any:
    """The same data, in which every text is an attack."""
    if isinstance(data, dict):
        return {key: evil(value) for key, value in data.items()}
    if isinstance(data, list):
        return [evil(value) for value in data]
    return f"{data}{EVIL}" if isinstance(data, str) else data


def test_hostile_names_leave_the_page_as_it_is(tmp_path: Path) -> None:
    data = gather([experiment(tmp_path / "run")])
    harmless, hostile = Elements(page(data)), Elements(page(evil(data)))
    assert [tag for tag, _, _ in hostile.found] == [tag for tag, _, _ in harmless.found]
    assert hostile.all("title")[0][1].startswith("small</script>")
    (attributes, text), *_ = hostile.all("script")
    assert attributes == {"type": "application/json", "id": "data"}
    assert json.loads(text) == evil(data) | {"live": False}


def test_the_policy_allows_what_is_in_the_page_and_nothing_else(tmp_path: Path) -> None:
    data = gather([experiment(tmp_path / "run")])
    for live, connect in ((False, "'none'"), (True, "'self'")):
        elements = Elements(page(data, live=live))
        (policy,) = [at["content"] for at, _ in elements.all("meta") if at.get("http-equiv")]
        assert policy is not None
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        hashes = {}
        for tag, text in (("script", elements.all("script")[-1][1]), ("style", elements.all("style")[0][1])):
            hashes[f"{tag}-src"] = f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        assert rules == hashes | {
            "default-src": "'none'",
            "img-src": "data:",
            "connect-src": connect,
            "base-uri": "'none'",
            "form-action": "'none'",
        }


def test_nothing_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    elements = Elements(page(gather([experiment(tmp_path / "run")])))
    for tag, attributes, _ in elements.found:
        assert "src" not in attributes
        if "href" in attributes:
            target = attributes["href"] or ""
            assert target.startswith("#") or (tag == "link" and target.startswith("data:"))
    style = elements.all("style")[0][1]
    assert "@import" not in style
    assert "url(" not in style


def test_the_library_comes_with_its_licence(tmp_path: Path) -> None:
    script = Elements(page(gather([experiment(tmp_path / "run")]))).all("script")[-1][1]
    assert "The MIT License (MIT)" in script
    assert "Copyright (c) 2022 Leon Sorokin" in script
    version = re.search(r"uPlot \(v([\d.]+)\)", script)
    assert version is not None
    assert f"uPlot {version[1]} (MIT licence)" in script


def palettes() -> dict[str, tuple[list[str], str]]:
    text = (files("feddr.report") / "assets/colours.css").read_text()
    found = {}
    for theme, block in zip(("light", "dark", "auto"), re.findall(r"\{([^{}]*--c0[^{}]*)\}", text), strict=True):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))
        found[theme] = [colours[f"c{i}"] for i in range(7)], colours["card"]
    return found


def linear(colour: str) -> NDArray[np.float64]:
    """Return a colour of sRGB in linear light."""
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    light: NDArray[np.float64] = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return light


def contrast(a: str, b: str) -> float:
    """Return the contrast of WCAG 2."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


LMS = np.reshape(
    [0.41222147, 0.53633254, 0.05144599, 0.2119035, 0.68069955, 0.10739696, 0.08830246, 0.28171884, 0.6299787],
    (3, 3),
)
LAB = np.reshape(
    [0.21045426, 0.79361779, -0.00407205, 1.9779985, -2.42859221, 0.45059371, 0.02590404, 0.78277177, -0.80867577],
    (3, 3),
)
SIGHT = {
    name: np.reshape(numbers, (3, 3))
    for name, numbers in {
        "normal": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        "protanopia": [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
        "deuteranopia": [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
        "tritanopia": [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
    }.items()
}
"""Machado, Oliveira and Fernandes (2009), severity 1."""


def seen(colour: str, sight: str) -> NDArray[np.float64]:
    """Return a colour in OKLab (Ottosson 2020), as an eye sees it."""
    found: NDArray[np.float64] = LAB @ np.cbrt(LMS @ np.clip(SIGHT[sight] @ linear(colour), 0, 1))
    return found


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_lines_can_be_told_from_each_other_and_from_their_card(theme: str) -> None:
    colours, card = palettes()[theme]
    assert min(contrast(colour, card) for colour in colours) >= 3
    for sight in SIGHT:
        apart = [np.linalg.norm(seen(a, sight) - seen(b, sight)) for a, b in itertools.combinations(colours, 2)]
        assert min(apart) >= 0.13, sight


def test_pages_and_pictures_have_the_same_colours() -> None:
    assert tuple(palettes()["light"][0]) == plots.COLOURS


def test_the_dark_theme_is_the_same_by_choice_and_by_preference() -> None:
    found = palettes()
    assert found["auto"] == found["dark"]
