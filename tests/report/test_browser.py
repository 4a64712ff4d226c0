"""The page in a real Chromium: what it says, on any screen, in any theme, and what it refuses to do."""

import json
from pathlib import Path

import pytest

from feddr.report.gather import gather
from feddr.report.page import page as page_of
from tests.report.browser import chart, of_colour, pixels, spoken, written
from tests.report.conftest import Opened
from tests.report.folders import CERTIFICATE, experiment, rows
from tests.report.test_page import evil

PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


def test_the_policy_stops_a_page_that_would_ask_for_something(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    page.evaluate("() => { const i = new Image(); i.src = 'http://192.0.2.1/x.png'; document.body.append(i); }")
    refused = page.evaluate("fetch('http://192.0.2.1/').then(() => 'fetched', () => 'refused')")
    assert refused == "refused"
    assert [text for text in opened.trouble if "Content Security Policy" in text] == opened.trouble
    assert len(opened.trouble) >= 2
    opened.trouble.clear()


@pytest.mark.parametrize("opened", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_themes_follow_the_system_until_they_are_chosen(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    canvas = chart(page, "Objective F").locator("canvas")

    def look() -> tuple[str, int]:
        assert of_colour(page, canvas, "--c0") > 100  # painted in the colours of the theme
        return page.evaluate("getComputedStyle(document.body).backgroundColor"), pixels(canvas)

    button = page.locator("#theme")
    system = look()
    seen = []
    for word in ("light", "dark", "auto"):
        button.click()
        assert button.inner_text().endswith(word)
        seen.append(look())
    light, dark, auto = (background for background, _ in seen)
    assert light != dark
    assert auto == system[0]
    assert system[0] in (light, dark)


@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_a_phone_scrolls_down_and_never_sideways(opened: Opened, report: Path, tmp_path: Path) -> None:
    long = experiment(tmp_path / "long", ["FedDR", "A rather long label with, all=that (there) may be"], name="x" * 90)
    for path in (report, written(tmp_path / "several.html", report.parent / "run", long)):
        page = opened.file(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.get_by_role("button", name="FedAvg").first.tap()
        assert page.get_by_role("button", name="FedAvg").first.get_attribute("aria-pressed") == "false"
        smallest = page.evaluate(
            "Math.min(...[...document.querySelectorAll('button, .choice')].filter((b) => b.offsetParent)"
            ".map((b) => b.getBoundingClientRect().height))"
        )
        assert smallest >= 24  # WCAG 2.2, target size


def test_everything_that_acts_has_a_name_and_can_be_reached(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, a, input, [tabindex=\"0\"]')].filter((n) => !(n.innerText.trim() ||"
        " n.getAttribute('aria-label') || n.closest('label')?.innerText)).map((n) => n.outerHTML)"
    )
    assert nameless == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "results"
    heat = page.get_by_role("group", name="Samples and labels of 4 clients")
    heat.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    spoken(page, "client 1: 40 training")


def test_names_of_clients_and_few_bytes_are_shown_whole(opened: Opened, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["FedDR"])
    clients = folder / "clients.csv"
    clients.write_text(clients.read_text().replace("client 0", "WWWMMMMM"))  # wide letters
    page = opened.file(written(tmp_path / "report.html", folder))
    page.evaluate(
        "() => { window.texts = []; const { prototype } = CanvasRenderingContext2D, { fillText } = prototype;"
        " prototype.fillText = function (text, ...rest) { texts.push(text);"
        " return fillText.call(this, text, ...rest); } }"
    )
    page.set_viewport_size({"width": 900, "height": 800})
    page.evaluate(  # the page's policy lets nothing evaluate a condition in the course of time, so that it waits itself
        "new Promise((done) => { const look = () => (texts.includes('samples') ? done() : requestAnimationFrame(look));"
        " look(); })"
    )
    assert {"WWWMMMMM", "client 1", "client 2", "client 3"} <= set(page.evaluate("texts"))
    assert "80 kB" in page.locator(".tile dd").all_inner_texts()
    assert page.evaluate("[...document.querySelectorAll('.tile dd')].every((n) => n.scrollWidth <= n.clientWidth)")


def test_what_a_run_is_stands_in_the_page(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    assert page.locator("h1").inner_text() == "small"
    assert page.locator("#lead").inner_text().split("\n")[0].startswith("2 methods")
    table = page.locator("#results-body table")
    assert table.locator("tbody th").all_inner_texts() == ["FedDR", "FedAvg"]
    best = min(rows()[-1].F, rows(speed=1.5)[-1].F)
    assert f"{best:.4g}" in (table.locator("tbody tr").nth(1).locator("td.best").first.inner_text())
    assert dict(
        zip(page.locator(".seeds dt").all_inner_texts(), page.locator(".seeds dd").all_inner_texts(), strict=True)
    ) == {
        "seed": "0",
        "init_seed": "5",
        "data.seed": "7",
    }
    assert "not certified" in page.locator("#certificates").inner_text()
    assert page.locator("#again pre").first.inner_text() == f"feddr compare {report.parent}/run/config.toml"
    assert "16" in page.locator("#clients table").inner_text()


def test_names_that_are_programs_stay_texts(opened: Opened, tmp_path: Path) -> None:
    data = evil(gather([experiment(tmp_path / "run", clock=True)]))
    for run in data["runs"]:
        for one in run["methods"]:
            one["certificate"] = evil(CERTIFICATE)
    path = tmp_path / "evil.html"
    path.write_text(page_of(data))
    opened.page.on("dialog", lambda dialog: opened.trouble.append(dialog.message))
    page = opened.file(path)
    assert page.locator("h1").inner_text().startswith("small</script><script>alert(1)")
    assert page.locator("img, main script").count() == 0
    card = page.locator("#charts .card").first
    card.locator(".plot").focus()
    page.locator(".chip").first.hover()


def test_several_runs_share_the_charts(opened: Opened, tmp_path: Path) -> None:
    folders = [experiment(tmp_path / name, name=name, seed=seed) for seed, name in enumerate(("one", "two"))]
    page = opened.file(written(tmp_path / "both.html", *folders))
    assert page.locator(".chip").all_inner_texts() == ["one: FedDR", "one: FedAvg", "two: FedDR", "two: FedAvg"]
    seeds = page.locator("#settings tr.differs")
    assert seeds.locator("th").all_inner_texts() == ["seeddiffers"]
    assert seeds.locator("td").all_inner_texts() == ["0", "1"]
    assert page.locator("div.heat").count() == 1  # the same data, shown once
    assert page.locator("td.best").count() > 0


def test_no_method_is_best_that_has_not_ended_or_solves_another_problem(opened: Opened, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run", ["a", "b", "c"])
    (folder / ".checkpoints").mkdir()
    notes = {label: {"status": "finished", "reason": ""} for label in ("a", "b")}
    (folder / ".checkpoints" / "progress.json").write_text(json.dumps(notes))
    page = opened.file(written(tmp_path / "cut.html", folder))
    table = page.locator("#results-body tbody tr")
    assert [table.nth(i).locator("td.best").count() > 0 for i in range(3)] == [False, True, False]

    other = experiment(tmp_path / "other", name="other")
    config = (other / "config.toml").read_text()
    (other / "config.toml").write_text(config.replace("strength = 1e-3", "strength = 1e-2"))
    page = opened.file(written(tmp_path / "apart.html", experiment(tmp_path / "one"), other))
    assert page.locator("td.best").count() == 0
    assert "These runs differ in g:" in page.locator("#results").inner_text()
