"""Tables and arrays as people have them: columns, categories, missing values, splits, weights and refusals."""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from feddr import FederatedData
from feddr.data.split import split
from feddr.datasets import csv
from feddr.preparation import Preparation


def patients(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "hospital": rng.choice(["basel", "bern", "chur"], rows),
            "age": rng.integers(20, 90, rows),
            "chol": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(200, 40, rows)),
            "ward": rng.choice(["a", "b", "c"], rows),
            "ill": rng.choice(["no", "yes"], rows),
        },
        index=np.arange(100, 100 + rows),
    )


def frame(table: pd.DataFrame, **settings: Any) -> FederatedData:
    return FederatedData.from_frame(table, "hospital", "ill", categorical=["ward"], **settings)


def test_features_are_those_of_scikit_learn() -> None:
    table = patients()
    data = frame(table, missing="median", reference="first", standardise=True, test_share=0)
    theirs = ColumnTransformer(
        [
            ("age", StandardScaler(), ["age"]),
            ("chol", make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), ["chol"]),
            ("ward", make_pipeline(OneHotEncoder(drop="first", sparse_output=False), StandardScaler()), ["ward"]),
        ]
    ).fit_transform(table)
    assert data.preparation is not None
    assert data.features == ("age", "chol", "chol=missing", "ward=b", "ward=c")
    np.testing.assert_allclose(data.preparation.transform(table), theirs, atol=1e-6)
    assert sorted(data.train.samples["x"].tolist()) == sorted(data.preparation.transform(table).tolist())


def test_statistics_are_those_of_training_rows_alone() -> None:
    table = patients()
    data = frame(table, missing="median", standardise=True, test_share=0.3, validation_share=0.2)
    assert data.train.samples["x"].mean(axis=0) == pytest.approx(0, abs=1e-5)
    assert data.test is not None
    assert data.validation is not None
    sizes = [part.num_samples for part in (data.train, data.validation, data.test)]
    assert sum(sizes) == len(table)
    # Test rows are the same whether there is a validation part or not.
    other = frame(table, missing="median", test_share=0.3)
    assert other.test is not None
    assert other.test.samples["y"].tolist() == data.test.samples["y"].tolist()


def test_a_csv_file_and_its_frame_are_one_federation(tmp_path: Any) -> None:
    table = patients()
    table.to_csv(tmp_path / "all.csv", index=False)
    settings: dict[str, Any] = {"missing": "median", "standardise": True, "stratify": True, "reference": {"ward": "b"}}
    one, other = frame(table, **settings), csv(str(tmp_path / "all.csv"), "hospital", "ill", None, ["ward"], **settings)
    assert one.preparation == other.preparation
    for part, same in ((one.train, other.train), (one.test, other.test)):
        assert part is not None
        assert same is not None
        assert np.allclose(part.samples["x"].astype(float), same.samples["x"].astype(float), rtol=1e-6)
        assert part.samples["y"].tolist() == same.samples["y"].tolist()
    # New rows, read by pandas as numbers or as texts, are prepared alike.
    assert other.preparation is not None
    text = pd.read_csv(tmp_path / "all.csv", dtype=str, keep_default_na=False)
    np.testing.assert_allclose(other.preparation.transform(text), other.preparation.transform(table), rtol=1e-6)


def test_files_of_clients_are_one_table(tmp_path: Any) -> None:
    table = patients()
    files = {}
    for name, rows in table.groupby("hospital"):
        files[str(name)] = str(tmp_path / f"{name}.csv")
        rows.drop(columns="hospital").to_csv(files[str(name)], index=False)
    joined = csv(files=files, label="ill", categorical=["ward"], missing="median", test_share=0)
    whole = frame(table, missing="median", test_share=0)
    assert joined.clients == whole.clients == ("basel", "bern", "chur")
    for i in range(3):
        assert sorted(joined.train.client(i)["x"].tolist()) == sorted(whole.train.client(i)["x"].tolist())
    (tmp_path / "chur.csv").write_text("age,chol,ward,ill\n30,,a,no\n31,oh,a,no\n")
    with pytest.raises(ValueError, match=r"chur\.csv, line 3: column chol must hold finite numbers, got 'oh'"):
        csv(files=files, label="ill", categorical=["ward"], missing="median")
    (tmp_path / "chur.csv").write_text("age,ward,ill\n30,a,no\n")
    with pytest.raises(ValueError, match=r"chur\.csv: files of clients need the same columns, .* differ in chol"):
        csv(files=files, label="ill", categorical=["ward"])


def test_parquet_without_pyarrow_is_refused_with_the_extra(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"a\.parquet: Parquet files need pyarrow, .*; pip install 'feddr\[parquet\]'"):
        csv(str(tmp_path / "a.parquet"), "hospital", "ill")


def test_parquet_is_the_same_table(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="Parquet files need the extra: pip install 'feddr[parquet]'")
    table, path = patients(), str(tmp_path / "a.parquet")
    table.to_parquet(path)
    found = csv(path, "hospital", "ill", categorical=["ward"], missing="median", standardise=True)
    assert found.preparation == frame(table, missing="median", standardise=True).preparation
    with pytest.raises(ValueError, match=r"a\.parquet, row \d+: column chol is empty"):
        csv(path, "hospital", "ill", categorical=["ward"])
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and not much else")
    with pytest.raises(ValueError, match="not a sound Parquet file"):
        csv(path, "hospital", "ill")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60), st.floats(0, 0.5), st.floats(0, 0.4))
@settings(deadline=None, max_examples=60)
def test_stratified_parts_have_each_label_in_its_share(labels: list[str], test: float, validation: float) -> None:
    codes = np.unique(labels, return_inverse=True)[1]
    found = split([np.arange(len(codes))], test, 0, validation, codes)
    parts = [np.empty(0, np.int64) if part is None else part[0] for part in found]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(codes)))
    plain = split([np.arange(len(codes))], test, 0, validation)
    for part, other in zip(parts, plain, strict=True):
        assert len(part) == (0 if other is None else len(other[0]))
        expected = np.bincount(codes) * len(part) / len(codes)
        assert np.all(np.abs(np.bincount(codes[part], minlength=len(expected)) - expected) <= 2)


def test_stratified_parts_keep_rare_labels_in_training() -> None:
    table = pd.DataFrame({"hospital": "a", "age": range(100), "ill": [i < 10 for i in range(100)]})
    data = FederatedData.from_frame(table, "hospital", "ill", test_share=0.2, validation_share=0.1, stratify=True)
    assert data.classes == (False, True)
    parts = (data.train, data.validation, data.test)
    assert [int(part.samples["y"].sum()) for part in parts if part is not None] == [7, 1, 2]


def test_a_preparation_of_several_sites_is_taken_as_it_is() -> None:
    table = patients()
    whole = frame(table, missing="median", standardise=True)
    own = table[table["hospital"] == "bern"].assign(note="x")
    one = FederatedData.from_frame(own, "hospital", "ill", preparation=whole.preparation, test_share=0)
    assert one.preparation == whole.preparation
    assert whole.preparation is not None
    assert sorted(one.train.samples["x"].tolist()) == sorted(whole.preparation.transform(own).tolist())
    with pytest.raises(ValueError, match="The preparation fixes the columns"):
        frame(own, preparation=whole.preparation)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({}, {}, r"row \d+: column chol is empty; fill it in, .* use missing=\"median\""),
        ({"chol": 1.0, "ward": None}, {}, "row 100: column ward is empty; .*missing="),
        ({"ill": None}, {"missing": "median"}, "row 100: column ill is empty; leave the row out"),
        ({"hospital": None}, {"missing": "median"}, "row 100: column hospital is empty"),
        ({"chol": np.nan}, {"missing": "median"}, "Column chol needs a value in at least one training row"),
        ({"age": "old"}, {"missing": "median"}, "row 100: column age must hold finite numbers, got 'old'"),
        ({"ill": 0.5}, {"missing": "median"}, "ill must hold classes: .*, got 0.5; use regression=True"),
        ({}, {"regression": True, "missing": "median"}, "column ill must hold finite numbers"),
        ({"ill": 0.5}, {"regression": True, "stratify": True, "missing": "median"}, "stratify needs classes"),
        ({}, {"missing": "mean"}, 'missing must be "refuse" or "median", got \'mean\''),
        ({}, {"missing": "median", "reference": {"age": 3}}, "reference must name categorical columns, got age"),
        ({}, {"missing": "median", "reference": {"ward": "z"}}, "reference of column ward must be one of its cat"),
        ({}, {"missing": "median", "reference": "last"}, 'reference must be "first", "none" or'),
        ({}, {"missing": "median", "unknown": "guess"}, 'unknown must be "refuse" or "zeros"'),
        ({}, {"numeric": "age"}, r"numeric must be a list of columns, got the text 'age'; write \['age'\]"),
        ({}, {"test_share": 0.6, "validation_share": 0.4}, "must leave some for training, got 0.6 [+] 0.4"),
        ({}, {"ignore": ["weight"]}, "has no column weight; it has hospital, age"),
        ({"w": -1.0}, {"missing": "median", "sample_weight": "w"}, "row 100: column w must not be negative, got -1"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change: dict[str, Any], settings: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        frame(patients().assign(**change), **settings)
    assert "\n" not in str(error.value)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="from_frame needs a DataFrame, got a list; use from_arrays"):
        FederatedData.from_frame([[1]], "a", "b")
    with pytest.raises(ValueError, match="the table has no rows"):
        frame(patients()[:0])
    with pytest.raises(ValueError, match=r"columns need texts as names, got 0; use table.rename\(columns=str\)"):
        FederatedData.from_frame(pd.DataFrame({0: [1], "c": ["a"], "y": [0]}), "c", "y")


def test_columns_that_are_not_used_are_named() -> None:
    table = patients().assign(weight=1.0)
    with pytest.warns(UserWarning, match="columns chol, weight are not used; name them in ignore if that is meant"):
        frame(table, numeric=["age"])
    data = frame(table, numeric=["age"], ignore=["chol"], sample_weight="weight")
    assert data.train.samples["sample_weight"].dtype == np.float32
    assert data.features == ("age", "ward=a", "ward=b", "ward=c")


def test_arrays_and_frames_agree() -> None:
    table = patients()
    X, y = table[["age", "chol"]], table["ill"]
    for clients in (table["hospital"], table["hospital"].tolist(), table["hospital"].to_numpy()):
        data = FederatedData.from_arrays(X, y, clients, missing="median", standardise=True, stratify=True)
        other = FederatedData.from_frame(
            table.drop(columns="ward"), "hospital", "ill", missing="median", standardise=True, stratify=True
        )
        assert (data.clients, data.classes, data.features) == (other.clients, other.classes, other.features)
        assert data.train.samples["x"].tolist() == other.train.samples["x"].tolist()
        assert isinstance(data.preparation, Preparation)
        assert data.preparation.transform(X.to_numpy()).shape == (60, 3)


def test_arrays_are_dealt_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.choice(["cat", "dog"], 200)
    data = FederatedData.from_arrays(X, y, partition="dirichlet", beta=0.3, num_clients=5, test_share=0.25)
    assert data.num_clients == 5
    assert data.classes == ("cat", "dog")
    assert data.features == ("x0", "x1", "x2")
    target = FederatedData.from_arrays(X, X[:, 0], partition="iid", num_clients=2, regression=True)
    assert target.train.samples["y"].dtype == np.float32
    assert target.classes == ()
    named = FederatedData.from_arrays(
        X, y, partition="iid", features=["y", "sample_weight", "z"], sample_weight=X[:, 0] ** 2
    )
    assert named.features == ("y", "sample_weight", "z")


def test_images_of_bytes_become_numbers_up_to_one() -> None:
    images = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3) * 10
    data = FederatedData.from_arrays(images, [1, 2, 1, 2], partition="iid", num_clients=2, test_share=0)
    assert data.train.samples["x"].shape == (4, 2, 3)
    assert data.train.samples["x"].max() == np.float32(230 / 255)
    assert data.classes == (1, 2)
    flat = images.reshape(4, 6)
    refusals: tuple[Callable[[], FederatedData], ...] = (
        lambda: FederatedData.from_arrays(flat, [1, 2, 1, 2], partition="iid", num_clients=2),
        lambda: FederatedData.from_clients([{"x": images}]),
        lambda: FederatedData.from_clients([{"x": flat}]),
        lambda: FederatedData.generated(lambda _: {"x": flat}, [4]),
    )
    for refused in refusals:
        with pytest.raises(
            ValueError, match=r"must not be bytes, .* got uint8 of shape .*; use x / 255 for pixels and"
        ):
            refused()
    labels = FederatedData.from_clients([{"x": flat / 255, "y": np.array([0, 1, 0, 1], np.uint8)}])
    assert labels.train.samples["y"].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("X", "y", "settings", "message"),
    [
        (np.ones((3, 2)), np.ones((3, 1)), {}, r"y needs one label a sample, .* got shape \(3, 1\); use y\[:, 0\]"),
        (np.ones((3, 2)), np.eye(3), {}, r"got shape \(3, 3\); number the classes"),
        (np.ones((3, 2)), [0, 1], {}, r"got X of shape \(3, 2\) and lengths \{'X': 3, 'y': 2, 'clients': 3\}"),
        (np.ones(3), [0, 1, 2], {}, r"got X of shape \(3,\) .*; a single feature is X\[:, None\]"),
        (np.ones((0, 2)), [], {"clients": []}, r"got X of shape \(0, 2\)"),
        (np.ones((3, 2)), [0.5, 1.5, 2.0], {}, "got 0.5; use regression=True"),
        (np.ones((3, 2)), [0, None, 1], {}, "row 1: column y is empty"),
        (np.array([[1, "a"]] * 3), [0, 1, 0], {}, "X must be real or whole numbers, got <U"),
        (np.array([[1, np.nan]] * 3), [0, 1, 0], {}, "row 0: column x1 is empty"),
        (np.ones((3, 2)), [0, 1, 0], {"clients": None}, "Samples need owners: .* got neither"),
        (np.ones((3, 2)), [0, 1, 0], {"partition": "iid"}, "Samples need owners: .* got both"),
        (np.ones((3, 2)), [0, 1, 0], {"num_clients": 2}, "num_clients must go with a partition"),
        (np.ones((3, 2)), [0, 1, 0], {"beta": 2.0}, "beta must go with a partition"),
        (np.ones((3, 2)), [0, 1, 0], {"clients": ["a", None, "b"]}, "row 1: column clients is empty"),
        (np.ones((3, 2)), [0, 1, 0], {"features": ["a"]}, "features needs a name for each of 2 columns of X, got 1"),
        (np.ones((3, 2, 2)), [0, 1, 0], {"features": ["a"]}, r"which has shape \(3, 2, 2\); leave them out"),
        (np.ones((3, 2, 2)), [0, 1, 0], {"standardise": True}, r"for X of 2 axes, got shape \(3, 2, 2\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(X: Any, y: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        FederatedData.from_arrays(X, y, **{"clients": ["a", "b", "a"], **settings})
    assert "\n" not in str(error.value)


def test_tuples_and_words_in_place_of_clients_are_refused() -> None:
    x, y = np.ones((2, 1)), np.ones(2)
    with pytest.raises(ValueError, match=r"needs a mapping of named arrays, train client 0 is a tuple; give \{'x': "):
        FederatedData.from_clients([(x, y), (x, y)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"y of train client 0 must be real .*from_frame and from_arrays do so with"):
        FederatedData.from_clients([{"x": x, "y": ["yes", "no"]}])


def test_a_federation_is_shown_in_a_few_lines_without_samples() -> None:
    table = patients().assign(**{f"column{i}": 123456.0 for i in range(40)})
    shown = repr(frame(table, missing="median", validation_share=0.2))
    assert shown.count("\n") < 10
    assert "123456" not in shown
    assert max(map(len, shown.splitlines())) < 160
    for fact in (
        "clients +3: basel, bern, chur",
        "train +",
        "validation +",
        "test +",
        "classes +2: no, yes",
        "age, chol",
    ):
        assert re.search(fact, shown)
    many = FederatedData.generated(lambda _: {"x": np.ones((3, 2))}, np.full(1000, 3), panel=10)
    assert re.search("clients +1,000\n", repr(many))
    assert "on demand" in repr(many)


def test_csv_takes_all_that_from_frame_takes() -> None:
    ours, theirs = (inspect.signature(f).parameters for f in (csv, FederatedData.from_frame))
    assert set(theirs) - set(ours) == {"frame", "preparation"}
    assert {name: ours[name].default for name in theirs if name in ours and name not in ("client", "label")} == {
        name: theirs[name].default for name in theirs if name in ours and name not in ("client", "label")
    }
