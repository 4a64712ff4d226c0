"""LIBSVM files, CSV files and the sets of scikit-learn: agreement with scikit-learn's reader, names, and refusals."""

import bz2
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets as sklearn_datasets

from feddr.datasets import bundled, csv, libsvm
from feddr.datasets.libsvm import read_libsvm
from feddr.storage import limits
from tests.datasets.formats import refusal, samples, write

TEXT = b"-1 1:0.5 3:2 # a comment\n+1 2:-1.5e0\n\n1\n-1 3:1\n"


def test_libsvm_is_read(tmp_path: Path) -> None:
    x, y = read_libsvm(write(tmp_path / "a", TEXT))
    assert x.tolist() == [[0.5, 0, 2], [0, -1.5, 0], [0, 0, 0], [0, 0, 1]]
    assert y.tolist() == [-1, 1, 1, -1]
    assert read_libsvm(tmp_path / "a", num_features=5)[0].shape == (4, 5)
    assert read_libsvm(write(tmp_path / "b", b"0 0:1 1:2\n"), first_index=0)[0].tolist() == [[1, 2]]
    for name, packed in (("a.gz", TEXT), ("a.bz2", bz2.compress(TEXT)), ("a.xz", lzma.compress(TEXT))):
        assert np.array_equal(read_libsvm(write(tmp_path / name, packed))[0], x)


@given(st.lists(st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4), min_size=1, max_size=8))
@settings(deadline=None, max_examples=30)
def test_libsvm_agrees_with_scikit_learn(tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]]) -> None:
    path = tmp_path_factory.mktemp("svm") / "a"
    x, y = np.array(rows, np.float32), np.arange(len(rows)) % 3
    sklearn_datasets.dump_svmlight_file(x, y, str(path), zero_based=False)
    theirs, labels = sklearn_datasets.load_svmlight_file(str(path), n_features=4, zero_based=False)
    try:
        ours, found = read_libsvm(path, num_features=4)
    except ValueError:
        assert not np.any(x)
        return
    assert np.array_equal(found, labels)
    assert ours == pytest.approx(theirs.toarray(), rel=1e-6)


def test_libsvm_labels_become_classes_in_their_order(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a", b"".join(b"%d 1:%d\n" % (label, i) for i, label in enumerate([5, -1, 5, 2] * 5))))
    data = libsvm(path, partition="shards", num_clients=2, shards_per_client=1, test_share=0.2)
    assert data.classes == ("-1", "2", "5")
    assert data.test is not None
    both = sorted(samples(data.train) + samples(data.test))
    assert both == sorted((i, {5: 2, -1: 0, 2: 1}[label]) for i, label in enumerate([5, -1, 5, 2] * 5))
    numbers = libsvm(path, labels="numbers", num_clients=2)
    assert numbers.train.samples["y"].dtype == np.float32
    assert set(numbers.train.samples["y"]) <= {-1, 2, 5}


def test_features_can_be_standardised_by_the_training_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"{i % 2} 1:{rng.normal(50, 9):.4f} 2:{rng.normal():.4f} 3:7\n" for i in range(100))
    data = libsvm(str(write(tmp_path / "a", text.encode())), num_clients=4, standardise=True)
    x = data.train.samples["x"]
    assert x.mean(axis=0) == pytest.approx(0, abs=1e-4)
    assert x[:, :2].std(axis=0) == pytest.approx(1, abs=1e-4)
    assert np.all(x[:, 2] == 0)
    assert data.test is not None
    assert np.abs(data.test.samples["x"].mean(axis=0)).max() < 1.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 1:2 x\n", "line 1: needs a label and pairs index:value, got 1 1:2 x"),
        (b"1 1:2\n1 1:2:3\n", "line 2: needs a label and pairs"),
        (b"x,y\n1,2\n", "it is not a file of LIBSVM"),
        (b"1 qid:3 1:2\n", "needs a label and pairs"),
        (b"1 2:1 1:1\n", "line 1: indices must increase from 1, got [2, 1]"),
        (b"1 1:1 1:1\n", "indices must increase"),
        (b"1 0:1\n", "files that count from 0 need first_index=0"),
        (b"1 1:nan\n", "label and values must be finite"),
        (b"inf 1:1\n", "label and values must be finite"),
        (b"1 1:1e300\n", "label and values must be finite"),
        (b"1 1:" + b"9" * 5000 + b"\n", "must be finite"),
        (b"1 99999999999999999999:1\n", "needs a label and pairs"),
        (b"1 2000000000:1\n", "need 8,000,000,000 bytes as a dense array"),
        (b"# nothing\n", "has no samples with features"),
        (b"1.5 1:1\n2 1:1\n", 'use labels="numbers"'),
        (b"\xff", "not a text in UTF-8"),
    ],
)
def test_bad_libsvm_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = write(tmp_path / "bad", text)
    with pytest.raises(ValueError, match="bad") as error:
        libsvm(str(path), num_clients=1)
    assert message in refusal(error)


def test_libsvm_refuses_settings(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a", TEXT))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"num_features": 2}, "num_features must be at least its largest index, 3, got 2"),
        ({"num_features": 0}, "num_features must be at least 1"),
        ({"first_index": 2}, "first_index must be 0 or 1"),
        ({"labels": "words"}, 'labels must be "classes" or "numbers"'),
        ({"num_clients": 5}, "5 clients with 1 or more samples"),
        (
            {"partition": "writer"},
            "partition must be one of iid, shards, dirichlet, quantity, few_labels, got 'writer'",
        ),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            libsvm(path, **arguments)


# CSV

BANKS = """bank,age,job,risk
north,30,clerk,low
south,41.5,nurse,high
north,50,nurse,low
east,20,clerk,"mid, or so"
"""


def table(tmp_path: Path, text: str, name: str = "bad.csv") -> str:
    return str(write(tmp_path / name, text.encode()))


def test_csv_rows_go_to_their_clients(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz"):
        data = csv(table(tmp_path, BANKS, name), "bank", "risk", categorical=["job"], test_share=0)
        assert data.clients == ("east", "north", "south")
        assert data.features == ("age", "job=clerk", "job=nurse")
        assert data.classes == ("high", "low", "mid, or so")
        assert sorted(data.train.client(1)["x"].tolist()) == [[30, 1, 0], [50, 0, 1]]
        assert data.train.client(2)["x"].tolist() == [[41.5, 0, 1]]
        assert [data.train.client(i)["y"].tolist() for i in range(3)] == [[2], [1, 1], [0]]
    semicolons = table(tmp_path, BANKS.replace(",", ";"), "b.csv")
    one = csv(semicolons, "bank", "age", numeric=[], categorical=["job", "risk"], regression=True, delimiter=";")
    assert one.features == ("job=clerk", "job=nurse", "risk=high", "risk=low", "risk=mid; or so")
    assert sorted(one.train.samples["y"].tolist()) == [20, 30, 41.5, 50]


def test_csv_classes_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    text = "c,x,y\n" + "".join(f"{i % 2},{i},{label}\n" for i, label in enumerate([10, 9, -1, 10]))
    data = csv(table(tmp_path, text), "c", "y", test_share=0)
    assert data.classes == (-1, 9, 10)
    assert sorted(map(tuple, np.column_stack([data.train.samples["x"], data.train.samples["y"]]).tolist())) == [
        (0, 2),
        (1, 1),
        (2, 0),
        (3, 2),
    ]


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (
            BANKS.replace("41.5", ""),
            {},
            "line 3: column age is empty; fill it in, leave the row or the column out, or use missing=",
        ),
        (BANKS.replace("41.5", "nan"), {}, "line 3: column age is missing, it holds 'nan'; fill it in, "),
        (BANKS.replace("41.5", "1e99"), {}, "line 3: column age must hold finite numbers, got '1e99'"),
        (BANKS, {"categorical": []}, "line 2: column job must hold finite numbers, got 'clerk'"),
        (BANKS.replace("south,", "south,1,"), {}, "line 3: needs 4 values, one for each column, it has 5"),
        (BANKS.replace(",low", ""), {}, "line 2: needs 4 values, one for each column, it has 3"),
        (BANKS.replace("north", "", 1), {}, "line 2: column bank is empty"),
        (BANKS, {"client": "branch"}, "has no column branch; it has bank, age, job, risk"),
        (BANKS, {"numeric": ["age", "job"]}, "column job can be one of client, label, numeric and categorical"),
        (BANKS, {"numeric": [], "categorical": []}, "has nothing to predict risk from"),
        (BANKS.replace("job", "age", 1), {"categorical": []}, "column age stands twice in line 1"),
        (BANKS.replace("or so", "or so\"'"), {}, "not a table"),
        (BANKS, {"label": "risk", "regression": True}, "column risk must hold finite numbers"),
        (BANKS, {"delimiter": ";;"}, "delimiter must be one character"),
        ("bank,age,job,risk\n", {}, "needs a line with the names of the columns and a line for each sample"),
        ("", {}, "needs a line with the names"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, changes: dict[str, Any], message: str) -> None:
    arguments = {"client": "bank", "label": "risk", "categorical": ["job"], **changes}
    with pytest.raises(ValueError, match=r"bad\.csv|column|delimiter") as error:
        csv(table(tmp_path, text), **arguments)
    assert message in refusal(error)


def test_csv_does_not_reserve_what_a_few_words_would_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "c,x,y\n" + "".join(f"{i},w{i},0\n" for i in range(100))
    with monkeypatch.context() as small:
        small.setattr(limits, "memory", lambda: 10_000)
        with pytest.raises(ValueError, match="100 rows of 100 features needs about 4e-05 GB, this machine has 1e-05"):
            csv(table(tmp_path, text), "c", "y", categorical=["x"])
    with pytest.raises(ValueError, match="1200 different values, at most 1000 are categories"):
        csv(table(tmp_path, "c,x,y\n" + "".join(f"0,1,w{i}\n" for i in range(1200))), "c", "y")


# scikit-learn's own


@pytest.mark.parametrize(
    ("which", "shape", "classes"),
    [
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
        ("iris", (150, 4), 3),
        ("wine", (178, 13), 3),
        ("diabetes", (442, 10), 0),
    ],
)
def test_bundled_sets_are_those_of_scikit_learn(which: Any, shape: tuple[int, int], classes: int) -> None:
    data = bundled(which, partition="quantity", sigma=0.5, standardise=False)
    assert data.test is not None
    theirs = getattr(sklearn_datasets, f"load_{which}")()
    x, y = theirs.data.astype(np.float32), theirs.target.astype(np.float32)
    assert sorted(samples(data.train) + samples(data.test)) == sorted(map(tuple, np.column_stack([x, y]).tolist()))
    assert (data.train.num_samples + data.test.num_samples, len(data.features)) == shape
    assert len(data.classes) == classes
    assert data.train.samples["y"].dtype == (np.int32 if classes else np.float32)


def test_bundled_sets_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="which must be one of breast_cancer, diabetes, digits, iris, wine"):
        bundled("cifar")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ValueError, match="bundled needs scikit-learn for wine; pip install scikit-learn"):
        bundled("wine")
