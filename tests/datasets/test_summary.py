"""The numbers of a summary: counts, the label skew, and what chance alone would give."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr import FederatedData
from feddr.commands.data import table
from feddr.datasets import bundled, synthetic
from feddr.datasets.summary import summarise


def federation(labels: Sequence[Sequence[float]]) -> FederatedData:
    return FederatedData.from_clients([{"x": np.zeros((len(y), 2)), "y": np.array(y)} for y in labels])


def test_counts_and_names() -> None:
    data = bundled("wine", partition="shards", num_clients=4)
    found = summarise(data)
    assert data.test is not None
    assert np.array_equal(found.train, data.train.sizes)
    assert np.array_equal(found.test, data.test.sizes)
    assert (found.columns, found.num_features, found.clients[3]) == (("class_0", "class_1", "class_2"), 13, "client 3")
    for i in range(4):
        assert found.counts[i].tolist() == [int(np.sum(data.train.client(i)["y"] == c)) for c in range(3)]


def test_skew_is_half_the_distance_of_the_shares() -> None:
    assert summarise(federation([[0, 1], [1, 0]])).skew.tolist() == [0, 0]
    assert summarise(federation([[0, 0], [1, 1]])).skew.tolist() == [0.5, 0.5]
    # one client has 1/9 of the samples, and a label that nobody else has
    assert summarise(federation([[0] * 8, [1]])).skew == pytest.approx([1 / 9, 8 / 9])


@given(st.integers(1, 40), st.floats(0.02, 0.98))
@settings(deadline=None, max_examples=40)
def test_skew_by_chance_is_the_mean_over_binomial_draws(n: int, p: float) -> None:
    ones = max(1, round(p * 1000))
    found = summarise(federation([[0] * (1000 - ones) + [1] * ones, [0] * n]))
    pooled = ones / (1000 + n)
    k = np.arange(n + 1)
    log_choose = np.array(
        [np.sum(np.log(np.arange(n - j + 1, n + 1))) - np.sum(np.log(np.arange(1, j + 1))) for j in k]
    )
    probability = np.exp(log_choose + k * np.log(pooled) + (n - k) * np.log1p(-pooled))
    # With two classes, half the sum of the distances is one of them.
    assert found.skew_by_chance[1] == pytest.approx(float(probability @ np.abs(k / n - pooled)), rel=1e-9)


def test_a_random_partition_has_the_skew_of_chance() -> None:
    found = summarise(bundled("digits", num_clients=30, test_share=0))
    assert np.mean(found.skew) == pytest.approx(np.mean(found.skew_by_chance), rel=0.15)


def test_numbers_to_predict_are_counted_in_ranges() -> None:
    found = summarise(federation([[0.0, 0.5, 10.0], [9.9]]))
    assert not found.are_classes
    assert found.columns[0] == "0 to 1"
    assert found.counts.tolist() == [[2, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0] * 9 + [1]]
    assert summarise(federation([[2.5, 2.5]])).counts.sum() == 2


def test_a_line_for_each_client(tmp_path: Path) -> None:
    found = summarise(synthetic(1, 1, num_clients=3))
    found.to_csv(tmp_path / "clients.csv")
    with open(tmp_path / "clients.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["train"]) for row in rows] == found.train.tolist()
    assert [[int(row[name]) for name in found.columns] for row in rows] == found.counts.tolist()


def test_a_summary_needs_features_and_labels() -> None:
    data = FederatedData.from_clients([{"x": np.zeros((1, 1))}])
    with pytest.raises(ValueError, match="needs the arrays x and y, the data have no y"):
        summarise(data)


def test_names_must_fit() -> None:
    data = federation([[0], [1]])
    for names, message in (
        ({"features": ("a",)}, "features needs a name for each of 2, got 1"),
        ({"clients": ("a",)}, "clients needs a name for each of 2, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            FederatedData(data.train, **names)  # type: ignore[arg-type]


def test_a_validation_part_is_counted_and_shown() -> None:
    x = np.zeros((20, 1))
    data = FederatedData.from_arrays(
        x, [0, 1] * 10, partition="iid", num_clients=2, validation_share=0.2, test_share=0.3
    )
    found = summarise(data)
    assert (found.train.sum(), found.validation.sum(), found.test.sum()) == (10, 4, 6)
    assert "validation samples" in [str(cell) for cell in table(found).columns[0].cells]
    assert "validation samples" not in [str(cell) for cell in table(summarise(federation([[0], [1]]))).columns[0].cells]
