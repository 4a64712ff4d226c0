"""Rounds of k sites in n: answers after the deadline are dropped, or count in the round in which they arrive."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

import feddr
from feddr import flower
from feddr.flower.inspect import audit
from feddr.flower.settings import Settings
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate
from tests.flower.federations import (
    app_for,
    deploy,
    events,
    federation_of,
    lasso,
    lasso_solution,
    populated,
    xbar_of,
)

METHOD = feddr.FedDR(eta=0.4, alpha=1.0, init="joining", mean="all")


def slow_two(node: FakeNode, message: Message) -> Fate:
    slow = node.client == 2 and message.metadata.message_type == "train"
    return Fate(delay=25.0 if slow else 1.0)


def run(folder: Path, late: str, method: Any = METHOD, rounds: int = 12) -> feddr.History:
    grid = populated(
        FakeGrid(fate=slow_two), app_for(lasso(), method, feddr.local.Accelerated(tol=1e-10)), range(3), folder
    )
    settings: dict[str, Any] = {
        "rounds": rounds,
        "precision": "float64",
        "deadline": 10.0,
        "late": late,
        "evaluate_every": rounds,
    }
    return deploy(grid, federation_of(lasso()), method, folder, **settings)


@pytest.mark.parametrize("upload", [None, feddr.compress.Quantised(8)], ids=["whole", "compressed"])
def test_late_answers_count_and_the_invariant_holds(tmp_path: Path, upload: Any) -> None:
    """A client that is always two rounds late takes part in every third round or so, and (INV) holds."""
    method = feddr.FedDR(eta=0.4, alpha=1.0, init="joining", mean="all", upload=upload)
    run(tmp_path, "count", method)
    books = flower.read_run(tmp_path / "server" / "feddr")
    assert books.numbers[0] == books.numbers[1] == 12
    assert 3 <= books.numbers[2] <= 5
    late = [line for line in events(tmp_path, "accepted") if line["client"] == 2]
    assert all(line["staleness"] >= 1 for line in late)
    assert not any(line["rejoined"] for line in late)
    assert audit(tmp_path / "server" / "feddr", method, federation_of(lasso())) <= 1e-12


@pytest.mark.slow
def test_late_answers_lead_to_the_solution_of_all_and_dropping_them_does_not(tmp_path: Path) -> None:
    errors = {}
    for late in ("count", "drop"):
        run(tmp_path / late, late, rounds=100)
        errors[late] = np.abs(xbar_of(tmp_path / late)["xbar"] - lasso_solution()).max()
    assert errors["count"] < 1e-3
    assert errors["drop"] > 0.05


@pytest.mark.parametrize(
    ("method", "deadline"),
    [
        (feddr.FedAvg(), 10.0),
        (feddr.FedDR(), 10.0),
        (feddr.FedDR(mean="active"), 10.0),
        (feddr.FedDR(mean="all"), None),
        (feddr.AsyncFedDR(mean="all"), None),
    ],
)
def test_methods_that_cannot_use_them_refuse(method: Any, deadline: float | None) -> None:
    with pytest.raises(ValueError, match='late="count" is for rounds of FedDR'):
        Settings(late="count", deadline=deadline).check(method, 3)
    Settings(late="drop", deadline=None).check(method, 3)
    with pytest.raises(ValueError, match="late must be one of drop, count, got 'later'"):
        Settings(late="later")


@pytest.mark.parametrize("delay", [1.0, 5.0, 12.0, 90.0])
def test_how_late_an_answer_is_seen_grows_with_its_time(tmp_path: Path, delay: float) -> None:
    """The server looks often while little time has passed, and once a second in the end."""
    local = feddr.local.Accelerated(tol=1e-10)
    grid = populated(FakeGrid(fate=lambda *_: Fate(delay)), app_for(lasso(), METHOD, local), range(3), tmp_path)
    deploy(grid, federation_of(lasso()), METHOD, tmp_path, rounds=2, precision="float64")
    seconds = [line["seconds"] for line in events(tmp_path, "accepted")]
    assert len(seconds) == 6
    assert all(delay <= one <= delay + min(0.1 + 0.05 * delay, 1.0) + 0.001 for one in seconds)
