"""A validation part for data that have none: every sample in one part, labels in their shares, and what is refused."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr.data import FederatedData
from feddr.data.split import Shares


def data(sizes: tuple[int, ...] = (40, 1, 23)) -> FederatedData:
    """Return clients whose samples are numbered, with labels 0, 1, 1, 1, 0, ..."""
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    train = [{"x": rows[:, None].astype(float), "y": (rows % 4 > 0).astype(int)} for rows in numbers]
    return FederatedData.from_clients(train, train)


@pytest.mark.parametrize("stratify", [False, True])
def test_every_training_sample_is_in_one_of_both_parts_and_with_its_client(stratify: bool) -> None:
    whole = data()
    parts = whole.with_validation(0.3, stratify)
    assert parts.test is whole.test
    assert parts.validation is not None
    assert parts.validation.sizes.tolist() == [12, 0, 7]
    for i in range(3):
        train, held = parts.train.client(i), parts.validation.client(i)
        together = np.concatenate([train["x"], held["x"]])[:, 0]
        assert sorted(together.tolist()) == whole.train.client(i)["x"][:, 0].tolist()
        assert np.array_equal(held["y"], held["x"][:, 0].astype(int) % 4 > 0)


def test_stratified_parts_have_the_labels_in_their_shares() -> None:
    validation = data((40, 40)).with_validation(0.3, stratify=True, seed=3).validation
    assert validation is not None
    assert [np.bincount(validation.client(i)["y"]).tolist() for i in range(2)] == [[3, 9], [3, 9]]
    counts = set()
    for seed in range(10):  # a plain draw does not
        plain = data((40, 40)).with_validation(0.3, seed=seed).validation
        assert plain is not None
        counts.add(int(plain.client(0)["y"].sum()))
    assert len(counts) > 1


def test_a_draw_depends_on_seed_and_client_alone() -> None:
    def held(sizes: tuple[int, ...], seed: int = 0) -> Any:
        part = data(sizes).with_validation(0.3, seed=seed).validation
        assert part is not None
        return part.client(0)["x"]

    assert np.array_equal(held((40, 5)), held((40, 60, 9)))
    assert not np.array_equal(held((40, 5)), held((40, 5), seed=1))


def test_a_share_of_zero_leaves_all_as_it_is() -> None:
    whole = data()
    assert whole.with_validation(0) is whole


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(ValueError, match="validation_share must be at least 0 and below 1, got 1"):
        data().with_validation(1)
    with pytest.raises(ValueError, match=r"validation_share must be at least 0 and below 1, got -0\.1"):
        data().with_validation(-0.1)
    with pytest.raises(ValueError, match="without a validation part, these have one; leave it out"):
        data().with_validation(0.2).with_validation(0.2)
    bare = FederatedData.from_clients([{"x": np.ones((4, 1))}])
    assert bare.with_validation(0.5).train.sizes.tolist() == [2]
    with pytest.raises(ValueError, match="stratify needs labels y, the samples have x"):
        bare.with_validation(0.5, stratify=True)
    numbers = FederatedData.from_clients([{"x": np.ones((4, 1)), "y": np.linspace(0, 1, 4)}])
    with pytest.raises(ValueError, match="stratify needs classes, got a regression"):
        numbers.with_validation(0.5, stratify=True)
    made = FederatedData.generated(lambda i: {"x": np.full((2, 1), float(i))}, sizes=[2, 2])
    with pytest.raises(ValueError, match="needs samples in memory, these are made on demand"):
        made.with_validation(0.5)


def test_shares_refuse_numbers_to_predict_only_where_they_are_to_be_stratified() -> None:
    labels = np.linspace(0, 1, 8)
    assert len(Shares(validation=0.5).split([np.arange(8)], labels).train[0]) == 4
    with pytest.raises(ValueError, match="stratify needs classes"):
        Shares(validation=0.5, stratify=True).split([np.arange(8)], labels)


def test_runs_use_the_part() -> None:
    parts = feddr.datasets.synthetic_iid(3, validation_share=0.2)
    problem = feddr.Problem.classification(feddr.models.softmax(60, 10), parts)
    result = feddr.simulate(
        problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=1, metrics=["validation_accuracy"]
    )
    part = parts.validation
    assert part is not None
    right = np.mean(result.predict(part.samples["x"]) == part.samples["y"])
    assert result.history.last.metrics["validation_accuracy"] == pytest.approx(float(right))
