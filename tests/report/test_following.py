"""A run that is under way, followed in a real Chromium."""

import re
from pathlib import Path

from feddr.history import Row
from feddr.report.live import LiveServer
from feddr.runs.stored import Live
from tests.report.browser import chart, of_colour
from tests.report.conftest import Opened
from tests.report.folders import experiment, rows


def test_a_run_is_followed_without_losing_what_was_chosen(opened: Opened, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a", "b"])
    (folder / "b" / "history.csv").unlink()
    (folder / ".checkpoints").mkdir()
    (folder / ".checkpoints" / "progress.json").write_text('{"a": {"status": "finished", "reason": ""}}')
    live = Live(folder / ".checkpoints" / "b.csv")
    made: list[Row] = rows(20, speed=0.5)
    for row in made[:3]:
        live.add(row)
    with LiveServer([folder]) as watch:
        page = opened.page
        page.goto(watch.url)
        assert page.locator("#live").inner_text() == "following"
        assert page.locator("#results-body tbody th").all_inner_texts() == ["a", "b\nunfinished"]
        page.get_by_role("button", name="a", exact=True).click()
        page.get_by_role("radio", name="Bytes").check()
        for row in made[3:]:
            live.add(row)
        page.locator("#results-body tr:nth-child(2) td", has_text=re.compile("^95$")).wait_for()
        assert page.get_by_role("button", name="a", exact=True).get_attribute("aria-pressed") == "false"
        assert page.locator(".choice input:checked").input_value() == "megabytes"
        assert opened.requests[0] == watch.url
        assert all(url.startswith(watch.url) for url in opened.requests)
        page.goto("about:blank")  # before the server goes


def test_a_run_that_has_just_begun_gets_its_axes_when_it_has_them(opened: Opened, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a"])
    (folder / "a" / "history.csv").unlink()
    (folder / ".checkpoints").mkdir()
    live = Live(folder / ".checkpoints" / "a.csv")
    with LiveServer([folder]) as watch:
        page = opened.page
        page.goto(watch.url)
        page.get_by_text("No evaluation yet").wait_for()
        made = rows(9)
        live.add(made[0])
        page.get_by_role("radio", name="Rounds").wait_for()
        assert page.locator(".choice").all_inner_texts() == ["Rounds"]
        scale = page.get_by_role("button", name="Logarithmic scale: Objective F")
        assert scale.get_attribute("aria-pressed") == "false"  # one value has no scale
        for row in made[1:]:
            live.add(row)
        page.get_by_role("radio", name="Bytes").wait_for()
        assert page.locator(".choice").all_inner_texts() == ["Rounds", "Bytes", "Local steps", "Wall time"]
        assert scale.get_attribute("aria-pressed") == "true"
        assert of_colour(page, chart(page, "Objective F").locator("canvas"), "--c0") > 100
        page.goto("about:blank")
