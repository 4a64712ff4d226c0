"""A real browser, which says what it was asked for and what went wrong in it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.browser import written
from tests.report.folders import CERTIFICATE, experiment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

WINDOW = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce"}
"""Without motion, a page that is asked to scroll has scrolled."""


class Opened:
    """A page in Chromium, with all that it asked for and complained of.

    Parameters
    ----------
    options
        Of the browser: the size of its window, the scheme of its colours.
    """

    def __init__(self, browser: "Browser", **options: Any) -> None:
        self.context = browser.new_context(**{**WINDOW, **options})
        self.context.set_default_timeout(15_000)
        self.page: Page = self.context.new_page()
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.context.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        own = "getImageData" in message.text  # the tests read pixels, for which the browser has advice
        if message.type in ("error", "warning") and not own:
            self.trouble.append(message.text)

    def file(self, path: Path) -> "Page":
        """Open a file, offline."""
        self.context.set_offline(True)
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium, started once; it is root in containers, where its sandbox cannot be had."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium; apt-get install chromium")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: "Browser", request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A page that must end without a complaint of the browser; its options may be given as a parameter."""
    made = Opened(browser, **getattr(request, "param", {}))
    yield made
    trouble = made.trouble
    made.context.close()
    assert trouble == []


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Two methods with a clock, clients, staleness and a certificate."""
    folder = experiment(tmp_path / "run", clock=True)
    (folder / "FedDR" / "certificate.json").write_text(json.dumps(CERTIFICATE))
    return written(tmp_path / "report.html", folder)
