"""Data sets of other libraries, by what they have in common: a length, rows, and names of columns."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import FederatedData


class Rows(dict[str, list[Any]]):
    """What is used of a Hugging Face Dataset."""

    column_names = property(list)
    label: Any = None

    @property
    def features(self) -> dict[str, Any]:
        return {"y": self.label}


def samples(count: int, seed: int) -> list[tuple[Any, int]]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(2, 3)).astype(np.float32), int(rng.integers(3))) for _ in range(count)]


def test_pairs_of_each_client_stay_with_it() -> None:
    given = {"ann": samples(5, 0), "bob": samples(3, 1)}
    data = FederatedData.from_torch(given)
    assert data.clients == ("ann", "bob")
    assert data.classes == (0, 1, 2)
    for i, pairs in enumerate(given.values()):
        mine = data.train.client(i)
        order = np.argsort(mine["x"][:, 0, 0])
        expected = sorted(pairs, key=lambda pair: float(pair[0][0, 0]))
        np.testing.assert_array_equal(mine["x"][order], [x for x, _ in expected])
        assert mine["y"][order].tolist() == [y for _, y in expected]
    split = FederatedData.from_torch(list(given.values()), test_share=0.4, validation_share=0.2)
    assert split.clients == ()
    assert split.test is not None
    assert split.validation is not None
    assert split.train.num_samples + split.test.num_samples + split.validation.num_samples == 8
    held = FederatedData.from_torch(given, test={"ann": samples(2, 5), "bob": samples(1, 6)})
    assert held.test is not None
    assert held.test.sizes.tolist() == [2, 1]


def test_images_tokens_and_targets() -> None:
    image = [(np.full((2, 2, 1), 255, np.uint8), "cat"), (np.zeros((2, 2, 1), np.uint8), "dog")]
    data = FederatedData.from_torch([image])
    assert sorted(data.train.samples["x"].max(axis=(1, 2, 3)).tolist()) == [0.0, 1.0]
    assert data.classes == ("cat", "dog")
    tokens = FederatedData.from_torch([[(np.array([5, 7]), 0), (np.array([1, 2]), 1)]])
    assert tokens.train.samples["x"].dtype.kind == "i"
    target = FederatedData.from_torch([[([1.0], 0.5), ([2.0], 1.5)]], regression=True)
    assert sorted(target.train.samples["y"].tolist()) == [0.5, 1.5]
    assert target.classes == ()


def test_columns_of_owners_and_partitions_agree() -> None:
    rng = np.random.default_rng(0)
    x, y, who = rng.normal(size=(9, 2)).tolist(), rng.integers(0, 2, 9).tolist(), list("abcabcabc")
    whole = FederatedData.from_huggingface(Rows(x=x, y=y, who=who), "x", "y", client="who")
    parts = {
        name: Rows(
            **{key: [v for v, w in zip(values, who, strict=True) if w == name] for key, values in (("x", x), ("y", y))}
        )
        for name in "abc"
    }
    single = FederatedData.from_huggingface(parts, "x", "y")
    assert whole.clients == single.clients == ("a", "b", "c")
    assert whole.train.samples["x"].tolist() == single.train.samples["x"].tolist()
    assert whole.train.samples["y"].tolist() == single.train.samples["y"].tolist()
    held = FederatedData.from_huggingface(
        Rows(x=x, y=y, who=who), "x", "y", client="who", test=Rows(x=x[:2], y=y[:2], who=["c", "c"])
    )
    assert held.test is not None
    assert held.test.sizes.tolist() == [0, 0, 2]


def test_names_of_labels_are_classes() -> None:
    class Label:
        names = ("cat", "dog", "owl")

    rows = Rows(x=[[0.0], [1.0]], y=[2, 0])
    rows.label = Label()
    data = FederatedData.from_huggingface([rows], "x", "y")
    assert data.classes == ("cat", "dog", "owl")
    assert sorted(data.train.samples["y"].tolist()) == [0, 2]
    rows["y"] = [3, 0]
    with pytest.raises(ValueError, match="y must be from 0 to 2, got 3"):
        FederatedData.from_huggingface([rows], "x", "y")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FederatedData.from_torch(samples(2, 0)[0][0]), "needs a data set for each client, got a ndarray"),
        (lambda: FederatedData.from_torch([iter(samples(2, 0))]), "client 0 needs a Dataset with a length and rows"),
        (lambda: FederatedData.from_torch([[np.ones(2)]]), r"client 0 needs samples \(x, y\), got a ndarray"),
        (lambda: FederatedData.from_torch([[]]), r"client 0 needs samples \(x, y\), got none"),
        (lambda: FederatedData.from_torch([[([1.0], 0), ([1.0, 2.0], 1)]]), "Samples need one shape, client 0 has"),
        (lambda: FederatedData.from_torch([[([1.0], 0)], [([1.0, 2.0], 1)]]), "Samples of all clients need one shape"),
        (lambda: FederatedData.from_torch([[([1.0], 0.5)]]), "use regression=True"),
        (lambda: FederatedData.from_torch([[([1.0], None)]]), "y must have a label for every sample"),
        (lambda: FederatedData.from_torch([[([1.0], [0, 1])]]), "needs one value a row"),
        (lambda: FederatedData.from_torch([[(np.ones(2, np.uint8), 0)]]), "x of client 0 must not be bytes"),
        (
            lambda: FederatedData.from_torch([samples(2, 0)], test=[samples(1, 0)], test_share=0.5),
            "test_share is for data without test samples",
        ),
        (lambda: FederatedData.from_torch([samples(2, 0)], test=[]), "test needs the clients of datasets"),
        (
            lambda: FederatedData.from_huggingface([Rows(a=[1])], "x", "y"),
            "client 0 needs a column x, got a Rows with a",
        ),
        (
            lambda: FederatedData.from_huggingface(Rows(x=[1], y=[0]), "x", "y"),
            "needs client, the column of owners, for a Rows",
        ),
        (lambda: FederatedData.from_huggingface([Rows(x=["text"], y=[0])], "x", "y"), "must be real or whole numbers"),
    ],
)
def test_other_things_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_what_was_adapted_trains() -> None:
    data = FederatedData.from_torch([samples(8, i) for i in range(3)])
    model = feddr.models.Model(
        lambda _: {"w": np.zeros((6, 3))}, lambda p, x: x.reshape(len(x), 6) @ p["w"], num_outputs=3
    )
    problem = feddr.Problem.classification(model, data)
    result = feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(0.5, epochs=5), rounds=5, seed=0)
    assert problem.F(result.params) < problem.F(problem.init)
