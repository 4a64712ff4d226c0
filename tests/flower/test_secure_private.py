"""Private sites in secure rounds: what becomes whole numbers under masks is a release, and each release is charged."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr.flower import private
from feddr.privacy import RecordLevel, SiteLevel, epsilon_of_uploads
from feddr.storage import tensors
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import events
from tests.flower.secure_federations import (
    SECURE,
    SITES,
    five,
    is_balanced,
    losing,
    run,
    server_state,
    site_folder,
)

NOISE, DELTA = 4.0, 1e-3


def method(budget: float | None = None) -> Any:
    return feddr.FedDR(eta=0.5, alpha=1.2, init="lazy", mean="all", privacy=SiteLevel(0.5, NOISE, DELTA, budget))


def releases(folder: Path) -> list[float]:
    accounts = [private.account(folder / f"disk-{i}", i) for i in range(SITES)]
    return [round(one.spent * NOISE**2 / 4, 9) for one in accounts]


def test_what_is_masked_follows_from_what_was_released(tmp_path: Path) -> None:
    """A site's xhat_i is 2 x_i - y_i at the released x_i, but for the rounding, and the sum is that of the sites."""
    history = run(FakeGrid(), tmp_path, method())
    np.testing.assert_allclose(
        history.column("epsilon"), [epsilon_of_uploads(NOISE, DELTA, k) for k in range(4)], rtol=1e-9
    )
    assert releases(tmp_path) == [3.0] * SITES
    is_balanced(tmp_path, method())
    for i in range(SITES):
        (newest, *_) = private.account(tmp_path / f"disk-{i}", i).records.undamaged()
        x = newest[1].arrays["x"]
        number = server_state(tmp_path).header["clients"][str(i)][0]
        own = tensors.read(site_folder(tmp_path, i) / "state" / f"{number}{tensors.SUFFIX}").arrays
        np.testing.assert_array_equal(own["x"], x)
        np.testing.assert_allclose(own["xhat"], 2 * x - own["y"], atol=SECURE.fixed_point(weight=0.8).step)


def test_records_are_private_in_secure_rounds_of_fedavg_too(tmp_path: Path) -> None:
    """Two passes an update: the budget of five is enough for two rounds."""
    budget = epsilon_of_uploads(NOISE, DELTA, 5)
    rules = feddr.FedAvg(privacy=RecordLevel(0.5, NOISE, DELTA, budget, epochs=2))
    history = run(FakeGrid(), tmp_path, rules, five(g=False), rounds=5)
    assert history.last.round == 2
    assert history.last.value("epsilon") == pytest.approx(epsilon_of_uploads(NOISE, DELTA, 4), rel=1e-9)
    assert releases(tmp_path) == [4.0] * SITES
    (end,) = events(tmp_path, "stopping")
    assert "a further round would make epsilon" in end["reason"]
    again = run(FakeGrid(), tmp_path, rules, five(g=False), rounds=5)  # the server has kept what sites have spent
    assert (again.last.round, releases(tmp_path)) == (2, [4.0] * SITES)


def test_a_release_that_is_in_no_sum_is_charged(tmp_path: Path) -> None:
    """The masked vectors of site 2 are lost in every round: nothing of it is counted, each broadcast is a release."""
    grid = FakeGrid(fate=losing("masked", [2], serials=9, lost="reply"))
    run(grid, tmp_path, method(), deadline=10.0)
    assert [event["clients"] for event in events(tmp_path, "counted")] == [[0, 1, 3, 4]] * 3
    assert releases(tmp_path) == [3.0] * SITES


def test_a_round_that_begins_again_costs_nothing_more(tmp_path: Path) -> None:
    """The first attempt ends with all vectors released and masked; the second masks the same releases anew."""
    grid = FakeGrid(fate=losing("agree", [0, 1, 2]))
    budget = epsilon_of_uploads(NOISE, DELTA, 3) * (1 + 1e-9)
    history = run(grid, tmp_path, method(budget), deadline=10.0)
    assert [event["stage"] for event in events(tmp_path, "given_up")] == ["agree"]
    assert history.last.round == 3
    assert releases(tmp_path) == [3.0] * SITES
    is_balanced(tmp_path, method(budget))
