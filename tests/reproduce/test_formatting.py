"""Bands, budgets and the text, on made-up histories."""

import math

import pytest

from feddr.history import History
from feddr.reproduce.bands import Point, at, band, cost
from feddr.reproduce.formatting import summary, target
from feddr.reproduce.output import dots
from tests.reproduce.small_figures import history

FAST = [history([0.5, 0.8, 0.92]), history([0.6, 0.86, 0.90])]
SLOW = [history([0.3, 0.4, 0.70], bytes_each=300_000), history([0.3, 0.5, 0.71], bytes_each=300_000)]


def test_a_band_has_the_mean_the_least_and_the_largest_of_the_seeds() -> None:
    points = band(FAST, "train_accuracy", "megabytes")
    assert points[0] == Point(0.0, 0.1, 0.1, 0.1)
    assert points[2] == pytest.approx(Point(2.0, 0.83, 0.8, 0.86))


def test_a_band_leaves_out_what_was_not_measured() -> None:
    assert band(FAST, "personal_train_loss", "round")[0].x == 1
    assert band(FAST, "gradient_mapping", "round") == []


def test_the_cost_of_a_target_is_a_mean_over_seeds_and_needs_all_of_them() -> None:
    assert cost(FAST, "train_accuracy", 0.85, "round") == 2.5
    assert cost(FAST, "train_accuracy", 0.85, "local_steps") == 25
    assert math.isnan(cost(FAST, "train_accuracy", 0.91, "round"))


def test_a_metric_within_a_budget_is_that_of_the_last_evaluation_before_it() -> None:
    assert at(SLOW, "train_accuracy", "megabytes", 0.7) == pytest.approx(0.45)
    assert at(SLOW, "train_accuracy", "megabytes", 0.6) == pytest.approx(0.45)
    assert at(SLOW, "train_accuracy", "megabytes", 0.59) == pytest.approx(0.3)


def test_the_target_is_what_two_lines_reach_with_every_seed() -> None:
    assert target({"fast": FAST, "slow": SLOW}) == pytest.approx(0.70)
    assert target({"fast": FAST}) == pytest.approx(0.90)
    assert target({"none": [History(history([]).rows)]}) == 0.0


def test_the_text_says_who_is_best_within_the_bytes_that_all_have_sent() -> None:
    text = summary("made up", {"slow": SLOW, "fast": FAST}, "megabytes")
    # Half of 0.9 MB: the fast line, whose rounds cost 1 MB, is still at its start.
    assert "After 0.45 MB, training accuracy at xbar: slow 30.0 %, fast 10.0 %" in text
    by_rounds = summary("made up", {"slow": SLOW, "fast": FAST}, "round")
    assert "After 3 rounds, training accuracy at xbar: fast 91.0 %, slow 70.5 %" in by_rounds
    assert "at the clients' own models: fast 96.0 %, slow 75.5 %" in by_rounds
    assert "| fast | 2 | 2 | 20 |" in by_rounds
    assert "| slow | 3 | 0.9 | 30 |" in by_rounds


def test_a_row_without_runs_says_so() -> None:
    assert "No seed is complete." in summary("made up", {"slow": []}, "round")


def test_dots_are_named_by_the_strength() -> None:
    found = dots({"set, g.strength=0.1": {"FedDR": FAST}, "set, g.strength=1": {"FedDR": SLOW}})
    assert [dot.row for dot in found["FedDR"]] == ["0.1", "1"]
    assert found["FedDR"][0].accuracy == pytest.approx(0.81)
    assert (found["FedDR"][0].least, found["FedDR"][0].largest) == pytest.approx((0.80, 0.82))
