"""What a person sees of a search: bars, lines, the table and the picture."""

import io
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from feddr.plots import tune
from feddr.runs.progress import Pace
from feddr.tune import RankedSetting, RunRecord, Search, Store, plan, rank, run, view
from feddr.tune.jobs import record
from feddr.tune.view import SearchBars, SearchLines, announce, table
from tests.tune.small_searches import THREE, TWO, bowl, made_up, raw


def lines(search: Search, folder: Path, **console: Any) -> tuple[list[str], type]:
    file = io.StringIO()
    with Store(folder, search) as store:
        shown = view.view(search, store, Console(file=file, width=120, color_system=None, **console))
        with shown:
            run(search, store, made_up(), shown.update)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).replace("\r", "\n")
    return [line for line in text.splitlines() if line.strip()], type(shown)


def test_lines_come_about_every_tenth_of_the_runs(tmp_path: Path) -> None:
    shown, kind = lines(plan(raw(), grid={"algorithm.eta": list(range(1, 41))}), tmp_path)
    assert kind is SearchLines
    assert [int(line.split("/")[0]) for line in shown] == [*range(1, 41, 4), 40]
    assert re.fullmatch(r"5/40 runs, \d+ s, \d:\d\d:\d\d left; FedDR eta=5, seed 0: F 25", shown[1])


def test_bars_for_a_terminal(tmp_path: Path) -> None:
    shown, kind = lines(plan(raw(TWO), grid={"algorithm.eta": [1, 9]}), tmp_path, force_terminal=True)
    assert kind is SearchBars
    total, *algorithms = shown[-3:]
    assert re.match(r"runs +━+ 4/4 .* eta 0:00:00", total)
    for line, label in zip(algorithms, ("FedDR", "FedPD"), strict=True):
        assert re.match(rf"{label} +━+ 2/2 F 1 at eta=9", line)


def test_the_time_that_is_left_follows_the_newest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    pace = Pace()
    now[0] += 50
    assert pace.left(10) == "0:08:20"
    for _ in range(40):
        now[0] += 2
        last = pace.left(30)
    assert last == "0:01:00"
    assert pace.seconds == 130


def test_the_announcement_is_honest() -> None:
    unequal = plan(raw(TWO), grid={"algorithm.eta": [1, 2], "algorithm.alpha": [1, 1.5]}, unequal=True)
    assert announce(unequal, 0, "")[0] == "Search: a grid, UNEQUAL: 4 trials for FedDR, 2 trials for FedPD."
    drawn = plan(raw(), space="paper", trials=3, metric="test_accuracy", at="best")
    told = announce(drawn, 2, "2 at a time")
    assert told[0] == "Search: random draws, 3 trials for FedDR."
    assert told[1] == "  FedDR: eta in log:1.0:1000.0, alpha in lin:0.0:1.99"
    assert told[2] == "Budget: 3 rounds a run, each trial with seed 0: 3 runs, 2 of them done, 2 at a time."
    assert told[3] == "Best is the largest of the value of test_accuracy at xbar, at its best evaluation."
    assert told[4].startswith("The test samples choose the settings here")
    lists = plan(raw(TWO), random={"algorithm.eta": "log:1:9", "algorithm.FedPD.eta": [1, 2]}, trials=5)
    assert announce(lists, 0, "")[:2] == [
        "Search: random draws, 5 trials for FedDR.",
        "FedPD: 2 trials, all that there are.",
    ]
    assert "rounds that vary a run" in announce(plan(raw(), grid={"rounds": [1, 2]}), 0, "")[2]


def results(search: Search, bad: Collection[int] = ()) -> dict[str, list[RankedSetting]]:
    found: dict[tuple[str, int, int], RunRecord] = {}
    for job in search.jobs():
        if job.number in bad:
            found[job.key] = record(job, "diverged", round=2)
        else:
            found[job.key] = record(job, "finished", value=bowl(job), local_steps=1200, bytes_up=3 * 10**6, seconds=2.0)
    return rank(search, found)


def test_the_table_has_mean_spread_rank_and_what_a_run_takes() -> None:
    search = plan(raw(THREE), grid={"algorithm.FedDR.eta": [1, 9, 12, 30]}, seeds=[0, 1])
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(table(search, results(search, bad={0})))
    rows = [line.split() for line in capture.get().splitlines()[2:]]
    assert rows[0] == ["FedDR", "1", "eta=9", "1.25", "0.3536", "1,200", "3.00", "2.0"]
    assert [row[2] for row in rows[:3]] == ["eta=9", "eta=12", "eta=30"]
    assert rows[3] == ["FedPD", "-", "-:", "2", "diverged", "-", "-", "-", "-", "-"]


def axes_of(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_title()]


def crosses(axes: Any) -> int:
    return sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() == "x")


def test_two_keys_make_a_map_with_crosses_and_a_star() -> None:
    search = plan(raw(), grid={"algorithm.alpha": [0.5, 1], "algorithm.eta": [100, 1, 9]})
    figure = tune.figure(search, results(search, bad={0, 4}))
    (axes,) = axes_of(figure)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("alpha", "eta", "FedDR")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "9", "100"]
    # Columns are alpha, rows eta in order; trial 0 is (0.5, 100), trial 4 is (1, 1).
    cells = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(cells, [[81, np.nan], [1, 1], [np.nan, 8100]])
    assert crosses(axes) == 2
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert (star.get_xdata()[0], round(star.get_ydata()[0])) == (0, 1)


def test_one_key_makes_a_line_with_the_spread() -> None:
    search = plan(raw(THREE), grid={"algorithm.eta": [1, 8, 9, 100]}, seeds=[0, 1])
    panels = axes_of(tune.figure(search, results(search, bad={0})))
    assert [axes.get_title() for axes in panels] == ["FedDR", "FedPD"]  # FedAvg has nothing to vary
    for axes in panels:
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), [8, 9, 100])
        np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), float), [4.25, 1.25, 8100.25])
        assert crosses(axes) == 1
        assert axes.get_xscale() == "log"


def test_draws_make_points_and_more_keys_a_panel_each() -> None:
    two = plan(raw(), random={"algorithm.eta": "log:1:100", "algorithm.alpha": "lin:0:2"}, trials=9)
    (axes,) = axes_of(tune.figure(two, results(two, bad={1, 2})))
    assert len(axes.collections[0].get_offsets()) == 7
    assert crosses(axes) == 2
    keys = {"algorithm.eta": "log:1:100", "algorithm.alpha": "lin:0:2", "algorithm.init": ["lazy", "full"]}
    three = plan(raw(), random=keys, trials=9)
    panels = axes_of(tune.figure(three, results(three, bad={1})))
    assert [axes.get_xlabel() for axes in panels] == ["eta", "alpha", "init"]
    assert [label.get_text() for label in panels[2].get_xticklabels()] == ["full", "lazy"]


@pytest.mark.parametrize("keys", [1, 2])
def test_a_search_without_any_good_run_has_a_picture(keys: int, tmp_path: Path) -> None:
    search = plan(raw(), grid=dict(list({"algorithm.eta": [1, 9], "algorithm.alpha": [1, 2]}.items())[:keys]))
    figure = tune.figure(search, results(search, bad={0, 1, 2, 3}))
    assert figure is not None
    figure.savefig(tmp_path / "a.png")
    assert crosses(axes_of(figure)[0]) == 2 * keys


def test_nothing_to_draw() -> None:
    search = plan(raw(), grid={"algorithm.eta": [1]})
    assert tune.figure(search, results(search)) is None
    assert tune.figure(plan(raw(), space="paper"), rank(plan(raw(), space="paper"), {})) is None
