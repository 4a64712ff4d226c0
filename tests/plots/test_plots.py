"""Figures: which panels, lines and labels a history gives, and that global and personal metrics never meet."""

import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from feddr import plots
from feddr.engines.clock.events import SERVER, Event
from feddr.history import History, Row
from feddr.plots.timeline import STYLES


def history(rows: int = 5, sparsity: float = 0.0, personal: float = math.nan, accuracy: float = 0.5) -> History:
    return History(
        [
            Row(
                round=10 * k,
                bytes_up=k * 10**6,
                bytes_down=k * 10**6,
                F=4.0 / (1 + k),
                train_loss=5.0 / (1 + k),
                train_accuracy=accuracy,
                test_accuracy=accuracy,
                gradient_mapping=10.0**-k,
                sparsity=1.0 if k == 0 else sparsity,
                local_steps=1000 * k,
                personal_train_loss=personal,
                personal_train_accuracy=personal,
                personal_test_accuracy=personal,
            )
            for k in range(rows)
        ]
    )


def panels(figure: Figure) -> list[tuple[str, str]]:
    return [(axes.get_ylabel(), axes.get_xlabel()) for axes in figure.axes]


def test_the_panels_of_a_comparison() -> None:
    sent = "megabytes sent, up and down"
    expected = [
        ("training loss", "round"),
        ("training accuracy (%)", "round"),
        ("test accuracy (%)", "round"),
        ("objective F", sent),
        ("norm of the gradient mapping", "round"),
    ]
    dense = plots.curves({"a": history(), "b": history()})
    sparse = plots.curves({"a": history(), "b": history(sparsity=0.25)})
    # The start is all zeros in both: that alone is no reason for a panel.
    assert panels(dense) == [*expected, ("objective F", "local steps")]
    assert panels(sparse) == [*expected, ("zeros where g acts (%)", "round")]


def test_panels_without_data_are_left_out() -> None:
    shown = panels(plots.curves({"regression": history(accuracy=math.nan)}))
    assert ("training loss", "round") in shown
    assert not any("accuracy" in label for label, _ in shown)
    with pytest.raises(ValueError, match="a metric that was measured"):
        plots.curves({"nothing": History([Row(round=0)])})
    with pytest.raises(ValueError, match="a metric that was measured"):
        plots.curves({})


def test_lines_show_the_numbers_of_the_histories() -> None:
    figure = plots.curves({"a": history(sparsity=0.25)})
    drawn = [np.asarray(axes.lines[0].get_xydata()).tolist() for axes in figure.axes]
    data = dict(zip(panels(figure), drawn, strict=True))
    assert data[("training loss", "round")] == [[10 * k, 5.0 / (1 + k)] for k in range(5)]
    assert data[("objective F", "megabytes sent, up and down")] == [[2.0 * k, 4.0 / (1 + k)] for k in range(5)]
    assert data[("test accuracy (%)", "round")] == [[10 * k, 50.0] for k in range(5)]
    assert data[("zeros where g acts (%)", "round")] == [[0, 100.0], *([10 * k, 25.0] for k in range(1, 5))]


def test_numbers_that_are_not_finite_are_not_drawn() -> None:
    broken = History([Row(round=0, F=math.inf, train_loss=2.0), Row(round=1, F=math.nan, train_loss=1.0)])
    assert panels(plots.curves({"a": broken})) == [("training loss", "round")]


def test_scales_are_logarithmic_where_that_helps_and_can_be() -> None:
    def scale(*losses: float) -> str:
        rows = [Row(round=k, train_loss=loss) for k, loss in enumerate(losses)]
        return plots.curves({"a": History(rows)}).axes[0].get_yscale()

    assert scale(10.0, 0.1) == "log"
    assert scale(1.0, 0.9) == "linear"
    assert scale(1.0, 0.0) == "linear"
    assert scale(1.0, -1.0) == "linear"


def test_methods_differ_in_more_than_colour() -> None:
    figure = plots.curves({f"method {i}": history() for i in range(7)})
    for axes in figure.axes:
        looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines}
        assert len(looks) == 7
        assert len({line.get_color() for line in axes.lines}) == 7
        assert len({line.get_marker() for line in axes.lines}) == 7


def test_a_method_looks_the_same_in_every_panel_and_the_legend() -> None:
    figure = plots.curves({"a": history(accuracy=math.nan), "b": history()})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    colours = {line.get_color() for axes in figure.axes for line in axes.lines[-1:]}
    assert colours == {plots.COLOURS[1]}


def test_the_title_says_where_metrics_were_taken() -> None:
    both = {"a": history(personal=0.5)}
    assert plots.curves(both, "first").get_suptitle() == "first: metrics at the global model"
    assert plots.personal_curves(both, "first").get_suptitle() == "first: each client's own model on its own data"


def test_personal_metrics_have_a_figure_of_their_own() -> None:
    without, with_both = {"a": history()}, {"a": history(), "b": history(personal=0.125)}
    assert not plots.has_personal(without)
    assert plots.has_personal(with_both)
    assert panels(plots.curves(with_both)) == panels(plots.curves(without))
    figure = plots.personal_curves(with_both)
    assert [len(axes.lines) for axes in figure.axes] == [1, 1, 1]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["b"]
    with pytest.raises(ValueError, match="a metric that was measured"):
        plots.personal_curves(without)


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_a_picture_of_any_length(tmp_path: Path, rows: int) -> None:
    plots.save(plots.curves({"FedDR": history(rows), "$x$ eta=1": history(rows)}), tmp_path / "curves.png")
    picture = imread(tmp_path / "curves.png")
    assert picture.shape[0] > 400
    assert picture.shape[1] == 150 * 12
    assert picture.std() > 0.05  # not blank


def test_drawing_needs_no_screen_and_leaves_no_figure_open(tmp_path: Path) -> None:
    code = """
import sys
from feddr import plots
from feddr.history import History, Row
assert "matplotlib" not in sys.modules
plots.save(plots.curves({"a": History([Row(0, F=1.0)])}), sys.argv[1])
assert "matplotlib.pyplot" not in sys.modules
"""
    environment = {**os.environ, "MPLBACKEND": "tkagg"}
    subprocess.run([sys.executable, "-c", code, tmp_path / "curves.png"], check=True, env=environment)


def test_time_curves_show_the_runs_that_have_a_clock() -> None:
    timed = History([dataclasses.replace(row, time=1.5 * row.round) for row in history().rows])
    assert plots.has_time({"a": history(), "b": timed})
    assert not plots.has_time({"a": history()})
    figure = plots.time_curves({"a": history(), "b": timed}, "first")
    assert figure.get_suptitle() == "first: metrics at the global model over virtual time"
    assert panels(figure) == [
        ("training loss", "virtual time (s)"),
        ("training accuracy (%)", "virtual time (s)"),
        ("test accuracy (%)", "virtual time (s)"),
        ("objective F", "virtual time (s)"),
        ("objective F", "rounds, or updates of the server"),
        ("objective F", "megabytes sent, up and down"),
    ]
    (line,) = figure.axes[3].lines
    assert np.asarray(line.get_xydata()).tolist() == [[15.0 * k, 4.0 / (1 + k)] for k in range(5)]


EVENTS = [
    Event(0, "computing", 0.0, 2.0, read=0),
    Event(0, "sending", 2.0, 3.0, read=0, arrived=0),
    Event(SERVER, "server", 3.0, 3.0, read=1),
    Event(0, "idle", 3.0, 4.0),
    Event(2, "lost", 0.0, 1.0, read=0),
    Event(2, "offline", 1.0, 4.0),
]


def test_a_timeline_has_a_row_for_each_client_and_the_versions_of_the_server(tmp_path: Path) -> None:
    figure = plots.timeline(EVENTS, "four")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["server", "client 0", "client 2"]
    assert axes.get_xlim() == (0.0, 4.0)
    assert {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_color() != "white"} == {
        "0": 0.0,
        "1": 3.0,
    }
    assert [text.get_text() for text in axes.texts if text.get_color() == "white"] == ["0"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["computing", "sending", "idle", "offline", "lost"]
    # Kinds differ without colours, too: each has a hatch of its own, or none on a dark or a white ground.
    hatches = [style.hatch for style in STYLES.values() if style.hatch]
    assert len(set(hatches)) == len(hatches) == len(STYLES) - 2
    plots.save(figure, tmp_path / "timeline.png")
    assert imread(tmp_path / "timeline.png").std() > 0.05


def test_a_part_of_a_timeline() -> None:
    figure = plots.timeline(EVENTS, clients=[2], start=0.5, end=2.0)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["server", "client 2"]
    assert axes.get_xlim() == (0.5, 2.0)
    with pytest.raises(ValueError, match="A timeline needs events"):
        plots.timeline([])
