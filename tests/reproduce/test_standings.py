"""Ranks within equal budgets, on made-up histories."""

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from feddr.history import History
from feddr.reproduce import Experiment, Figure, Finished, PanelRow, Plan, Runs
from feddr.reproduce.standings import BudgetRanking, Standing, describe, read, save, standings
from tests.reproduce.small_figures import history

FIGURE = Figure("f", "A figure", "", (Experiment(("f",)),), budgets=("round", "megabytes"))
SEEDS = (1, 2)
HALF = {"bytes_each": 500_000}


def ranked(**lines: Sequence[History | None]) -> list[BudgetRanking]:
    """Return the standings of runs that are made up, one for each seed, None for those that diverged."""
    runs = {
        (label, seed): Finished(History(), "diverged") if run is None else Finished(run, "finished")
        for label, made in lines.items()
        for seed, run in zip(SEEDS, made, strict=False)
    }
    with patch.object(Plan, "finished", return_value=runs):
        row = PanelRow("a set", "f", {label: {} for label in lines}, SEEDS)
        return standings(FIGURE, [row], Plan({}, Runs(Path("nowhere"))))


def means(ranking: BudgetRanking) -> dict[str, float]:
    return {label: method.F for label, method in ranking.methods.items()}


def ranks(ranking: BudgetRanking) -> dict[str, int]:
    return {label: method.rank for label, method in ranking.methods.items()}


def rounded(ranking: BudgetRanking) -> dict[str, Standing]:
    """Return the standings with F as it is written."""
    return {label: method._replace(F=float(f"{method.F:.6g}")) for label, method in ranking.methods.items()}


def test_equal_rounds_and_equal_bytes_rank_differently() -> None:
    frugal = [history([0.3, 0.5, 0.6, 0.7], **HALF), history([0.3, 0.5, 0.6, 0.7], **HALF)]
    lavish = [history([0.4, 0.55, 0.8, 0.9]), history([0.4, 0.55, 0.8, 0.9])]
    rounds, size = ranked(frugal=frugal, lavish=lavish)
    assert means(rounds) == pytest.approx({"frugal": 0.3, "lavish": 0.1})
    assert ranks(rounds) == {"frugal": 2, "lavish": 1}
    # Two megabytes: four rounds of one and two of the other.
    assert means(size) == pytest.approx({"frugal": 0.3, "lavish": 0.45})
    assert ranks(size) == {"frugal": 1, "lavish": 2}


def test_who_has_fewer_rounds_is_ranked_by_bytes_alone() -> None:
    few = [history([0.9], bytes_each=3_000_000), None]
    rounds, size = ranked(few=few[:1], many=[history([0.1, 0.2, 0.3])])
    assert math.isnan(means(rounds)["few"])
    assert ranks(rounds) == {"few": 0, "many": 1}
    assert ranks(size) == {"few": 1, "many": 2}
    assert "| - |" in describe([rounds])


def test_only_seeds_that_all_lines_have_count_and_divergence_is_last() -> None:
    rounds, _ = ranked(one=[history([0.5]), history([0.9])], other=[history([0.4])])
    assert rounds.draws == 1
    assert means(rounds)["one"] == pytest.approx(0.5)
    rounds, _ = ranked(one=[history([0.5]), None], other=[history([0.1]), history([0.1])])
    assert ranks(rounds) == {"one": 2, "other": 1}
    assert "diverged (2)" in describe([rounds])
    assert ranked(one=[], other=[history([0.1])]) == []


def test_the_text_says_plainly_where_feddr_is_not_first(tmp_path: Path) -> None:
    found = ranked(**{"FedDR()": [history([0.5]), history([0.8])], "FedDyn": [history([0.7]), history([0.7])]})
    text = save(tmp_path, found)
    assert "FedDR() is first in 0 of 2 rows. It is not first here:" in text
    assert "- a set, equal rounds: 2 of 2 with 0.35, behind FedDyn 0.3; first in 1 of 2 draws." in text
    assert "| a set | rounds | 2 | 0.35 (2) | **0.3 (1)** |" in text
    assert "| mean rank |  |  | 2.0 | 1.0 |" in text
    assert (tmp_path / "summary.md").read_text() == text
    with open(tmp_path / "summary.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["line"], line["F"], line["rank"]) for line in lines[:2]] == [
        ("FedDR()", "0.35", "2"),
        ("FedDyn", "0.3", "1"),
    ]
    assert read(tmp_path / "summary.csv") == [replace(one, methods=rounded(one)) for one in found]
    first = ranked(**{"FedDR()": [history([0.5])], "FedDyn": [history([0.4])]})
    assert "FedDR() is first in 2 of 2 rows.\n" in describe(first)
    assert "No figure is complete" in describe([])


def test_a_swing_at_the_end_is_told() -> None:
    swinging = history([*[0.7] * 39, 0.1])  # the last four evaluations have a mean F of 0.45
    found = ranked(**{"FedDR()": [history([0.5] * 40)], "FedDyn": [swinging]})
    assert ranks(found[0]) == {"FedDR()": 1, "FedDyn": 2}
    assert [method.late_rank for method in found[0].methods.values()] == [2, 1]
    text = describe(found)
    assert "FedDR() is first in 2 of 2 rows." in text
    assert "FedDR() is first in 0 of 2 rows; it differs in a set (equal rounds), a set (equal bytes)." in text
