"""Charts in a real Chromium: drawn, read, switched, by mouse and by keyboard."""

from pathlib import Path

import pytest

from tests.report.browser import chart, heights, of_colour, picture, pixels, place, spoken, written
from tests.report.conftest import Opened
from tests.report.folders import CLUSTER, method, rows


def test_every_chart_is_drawn_and_no_request_leaves_the_page(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    titles = page.locator("#charts h3").all_inner_texts()
    assert titles == [
        "Objective F",
        "Loss f",
        "Training loss",
        "Training accuracy",
        "Test accuracy",
        "Gradient mapping",
        "Zeros in the model",
        "Staleness",
    ]
    for title in titles:
        canvas = chart(page, title).locator("canvas")
        assert of_colour(page, canvas, "--c0") > 100, title
        assert of_colour(page, canvas, "--c6") > 50 or title == "Staleness", title  # two lines in one place
    assert pixels(page.locator("div.heat canvas")) > 1000
    bars = page.locator("#clients .chart canvas")
    assert bars.count() == 4  # updates and staleness of two methods
    assert all(pixels(bars.nth(i)) > 500 for i in range(4))
    assert opened.requests == [report.as_uri()]


def test_a_line_is_hidden_and_shown_by_mouse_and_by_keyboard(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    chip = page.get_by_role("button", name="FedAvg")
    canvas = chart(page, "Objective F").locator("canvas")

    def shown() -> bool:
        pressed = chip.get_attribute("aria-pressed") == "true"
        assert (of_colour(page, canvas, "--c6") > 0) == pressed
        return pressed

    assert shown()
    chip.click()
    page.mouse.move(0, 0)
    assert not shown()
    chip.focus()
    page.keyboard.press("Space")
    page.locator("#log-x").focus()  # a line under the focus stands out, which changes the colours of others
    assert shown()
    page.keyboard.press("2")
    assert not shown()
    page.keyboard.press("2")
    assert shown()


def test_values_are_read_under_the_mouse(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    page.get_by_role("radio", name="Rounds").check()
    card = chart(page, "Training accuracy")
    over = card.locator(".u-over")
    box = place(over)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    tip = card.locator(".tip")
    assert tip.is_visible()
    middle = rows()[4], rows(speed=1.5)[4]
    expected = [f"{100 * row.train_accuracy:.1f} %" for row in sorted(middle, key=lambda row: -row.train_accuracy)]
    assert tip.locator("p").inner_text() == "Rounds: 20"
    assert tip.locator("td:last-child").all_inner_texts() == expected
    page.mouse.move(0, 0)
    assert tip.is_hidden()


def test_a_chart_is_read_and_zoomed_by_keyboard(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    page.get_by_role("radio", name="Rounds").check()
    card = chart(page, "Objective F")
    page.locator("#results").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "plot":
            break
    plot = card.locator(".plot")
    assert plot.evaluate("node => node === document.activeElement")
    assert plot.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    tip = card.locator(".tip p")
    assert tip.inner_text() == "Rounds: 40"
    page.keyboard.press("ArrowLeft")
    assert tip.inner_text() == "Rounds: 35"
    page.keyboard.press("Home")
    assert tip.inner_text() == "Rounds: 0"
    page.keyboard.press("ArrowRight")
    spoken(page, "5. ")
    page.keyboard.press("+")
    assert page.get_by_role("button", name="Zoom out").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="Zoom out").is_hidden()
    assert tip.is_hidden()


def test_dragging_zooms_all_charts(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    before = picture(chart(page, "Test accuracy").locator("canvas"))
    over = chart(page, "Objective F").locator(".u-over")
    box = place(over)
    page.mouse.move(box["x"] + 60, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 60, steps=4)
    page.mouse.up()
    page.mouse.move(0, 0)
    assert picture(chart(page, "Test accuracy").locator("canvas")) != before
    page.get_by_role("button", name="Zoom out").click()
    page.mouse.move(0, 0)
    assert picture(chart(page, "Test accuracy").locator("canvas")) == before


def test_axes_are_switched(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    plot = chart(page, "Objective F").locator(".plot")
    titles = page.locator(".choice span").all_inner_texts()
    assert titles == ["Rounds", "Bytes", "Local steps", "Wall time", "Virtual time"]
    assert page.locator(".choice input:checked").input_value() == "time"  # updates of the server are not rounds
    pictures: set[str] = set()
    for title in titles:
        page.get_by_role("radio", name=title, exact=True).check()
        label = plot.get_attribute("aria-label") or ""
        assert label.startswith(f"Objective F against {title.lower()}.")
        pictures.add(picture(plot.locator("canvas")))
    assert len(pictures) == len(titles)
    page.locator(".choice input:checked").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".choice input:checked").input_value() == "wall_time"


def test_scales_are_switched(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    for button in (page.get_by_role("button", name="Logarithmic scale: Gradient mapping"), page.locator("#log-x")):
        canvas, pressed = chart(page, "Gradient mapping").locator("canvas"), button.get_attribute("aria-pressed")
        before = picture(canvas)
        button.click()
        page.mouse.move(0, 0)
        assert button.get_attribute("aria-pressed") != pressed
        assert picture(canvas) != before
        button.click()
        page.mouse.move(0, 0)
        assert picture(canvas) == before


def test_a_logarithmic_scale_makes_decay_a_straight_line(opened: Opened, report: Path) -> None:
    page = opened.file(report)
    page.get_by_role("radio", name="Rounds").check()
    page.get_by_role("button", name="FedAvg").click()
    page.mouse.move(0, 0)
    card = chart(page, "Gradient mapping")
    scale = page.get_by_role("button", name="Logarithmic scale: Gradient mapping")
    assert scale.get_attribute("aria-pressed") == "true"
    begin, middle, end = heights(card, "--c0", [0.2, 0.5, 0.8])
    assert begin < end - 50
    assert middle == pytest.approx((begin + end) / 2, abs=2)
    scale.click()
    page.mouse.move(0, 0)
    begin, middle, end = heights(card, "--c0", [0.2, 0.5, 0.8])
    assert middle > (begin + end) / 2 + 20


def test_workers_have_a_table_and_a_bar_each(opened: Opened, tmp_path: Path) -> None:
    method(tmp_path / "run", rows(), {"cluster": CLUSTER})
    page = opened.file(written(tmp_path / "report.html", tmp_path / "run"))
    section = page.locator("#placement")
    assert section.locator("h2").inner_text() == "Placement"
    last = section.locator("tbody tr").last.locator("th, td").all_inner_texts()
    assert last == ["2", "second", "9", "32 to 63", "2", "1.25 s", "1 time"]
    tall = section.locator("svg.fares rect").evaluate_all("all => all.map((one) => Number(one.getAttribute('height')))")
    assert tall == [100, 50]
    assert "2 workers of 2 threads on 2 machines" in section.locator("header p").inner_text()
