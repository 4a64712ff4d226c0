"""A preparation treats new rows as it treated the old ones, says what is wrong with others, and survives JSON."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from feddr.preparation import CategoricalColumn, NumericColumn, Preparation

PATIENTS = Preparation(
    (
        NumericColumn("age"),
        NumericColumn("chol", median=200.0, indicator=True),
        CategoricalColumn("ward", ("north", "south", None), reference="north"),
    ),
    mean=(50.0, 200.0, 0.0, 0.0, 0.0),
    scale=(10.0, 40.0, 1.0, 1.0, 1.0),
    label="ill",
    classes=("no", "yes"),
)
ROWS = pd.DataFrame(
    {"ward": ["south", "north", None], "id": [1, 2, 3], "age": [60, 45, 50], "chol": [240.0, None, 160.0]}, [7, 8, 9]
)
EXPECTED = [[1, 1, 0, 1, 0], [-0.5, 0, 1, 0, 0], [0, -1, 0, 0, 1]]


def test_columns_become_features_in_their_order() -> None:
    assert PATIENTS.features == ("age", "chol", "chol=missing", "ward=south", "ward=missing")
    x = PATIENTS.transform(ROWS)
    assert x.dtype == np.float32
    assert x.tolist() == EXPECTED


@pytest.mark.parametrize(
    "table",
    [
        ROWS[["age", "chol", "ward"]].to_numpy(),
        ROWS.to_dict("list"),
        ROWS.astype({"age": "Int64", "chol": "Float64", "ward": "category"}),
        ROWS.assign(age=["60", " 45", "5e1"], chol=["240", "NA", "160.0"], ward=["south ", "north", ""]),
    ],
)
def test_rows_may_come_as_people_have_them(table: Any) -> None:
    assert PATIENTS.transform(table).tolist() == EXPECTED


def test_labels_are_those_of_the_table() -> None:
    assert PATIENTS.labels(["yes", "no", "yes"]).tolist() == [1, 0, 1]
    counted = Preparation((NumericColumn("age"),), classes=(0, 1))
    for labels in ([0, 1], ["0", "1"], np.array([0.0, 1.0]), pd.Series(["0 ", "1"])):
        assert counted.labels(labels).tolist() == [0, 1]
        assert counted.labels(labels).dtype == np.int32
    truth = Preparation((NumericColumn("age"),), classes=(False, True))
    assert truth.labels(np.array([True, False])).tolist() == truth.labels(["True", "False"]).tolist() == [1, 0]
    target = Preparation((NumericColumn("age"),), label="dose").labels(["0.5", "2"])
    assert target.tolist() == [0.5, 2.0]
    assert target.dtype == np.float32


def test_unknown_categories_are_refused_or_zero() -> None:
    rows = ROWS.assign(ward=["east", "north", "south"])
    with pytest.raises(ValueError, match=r"row 7: column ward must be one of 'north'.*got 'east'; .*unknown=\"zeros"):
        PATIENTS.transform(rows)
    with_empty = CategoricalColumn("ward", ("north", None))
    with pytest.raises(ValueError, match="column ward must be one of 'north' or empty, got 'east'; correct it"):
        Preparation((with_empty,)).transform(rows[["ward"]])
    lenient = Preparation(PATIENTS.columns, unknown="zeros")
    assert lenient.transform(rows)[:, 3:].tolist() == [[0, 0], [0, 0], [1, 0]]


@pytest.mark.parametrize("preparation", [PATIENTS, Preparation((CategoricalColumn("a", (1, 2.5, "b", True)),))])
def test_json_keeps_everything(preparation: Preparation) -> None:
    again = Preparation.from_dict(json.loads(json.dumps(preparation.to_dict(), allow_nan=False)))
    assert again == preparation
    assert [type(c) for c in again.classes] == [type(c) for c in preparation.classes]


def test_numbers_of_numpy_become_pythons_own() -> None:
    found = Preparation((NumericColumn("a"),), mean=tuple(np.ones(1)), scale=(np.float32(2),))  # type: ignore[arg-type]
    json.dumps(found.to_dict())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": None}, "as to_dict writes it"),
        ({"mean": [1.0]}, "mean needs a number for each of 5 features, got 1"),
        ({"scale": [1.0, 0.0, 1.0, 1.0, 1.0]}, "scale positive"),
        ({"mean": [float("nan")] * 5}, "mean must be finite"),
        ({"columns": [], "mean": [1.0], "scale": []}, "mean needs a number for each of 0 features, got 1"),
        ({"columns": [{"name": "a", "kind": "date"}]}, 'must be "numeric" or "categorical", got \'date\''),
        ({"columns": [{"name": 3, "kind": "numeric"}]}, "int in place of str"),
        ({"columns": [{"name": "a", "kind": "numeric", "median": float("nan"), "indicator": True}]}, "must be finite"),
        ({"columns": [{"kind": "numeric"}]}, "needs name, it has none"),
        ({"classes": [[1]]}, "list in place of str"),
        ({"classes": ["1", 1]}, "Classes must differ"),
        ({"unknown": "maybe"}, 'unknown must be "refuse" or "zeros"'),
        ({"label": 3}, "int in place of str"),
    ],
)
def test_damaged_descriptions_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Preparation.from_dict(PATIENTS.to_dict() | change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (ROWS.drop(columns="chol"), "The table has no column chol; it has ward, id, age"),
        (ROWS.assign(age=["60", "old", "5"]), "row 8: column age must hold finite numbers, got 'old'; correct it"),
        (ROWS.assign(age=[60, np.nan, 50]), 'row 8: column age is empty; fill it in, .* or use missing="median"'),
        (ROWS.assign(age=[60, np.inf, 50]), "row 8: column age must hold finite numbers, got 'inf'"),
        (ROWS.assign(age=pd.to_datetime(["2020-01-01"] * 3)), "row 7: column age must hold finite numbers"),
        (np.ones((3, 2)), r"shape \(rows, 3\), a column for each of 'age', 'chol', 'ward', got shape \(3, 2\)"),
        (np.ones(3), r"a single row is array\[None\]"),
        ({"age": [1], "chol": [1, 2], "ward": ["north"]}, "Columns need one length"),
        ({"age": np.ones((1, 1)), "chol": [1], "ward": ["north"]}, "A column needs one value a row"),
    ],
)
def test_rows_that_do_not_fit_are_refused(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PATIENTS.transform(table)


def test_labels_that_are_no_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1: column ill must be one of the classes 'no', 'yes', got 'perhaps'"):
        PATIENTS.labels(["no", "perhaps"])
    with pytest.raises(ValueError, match="row 0: column y must hold finite numbers, got 'a'"):
        Preparation((NumericColumn("age"),)).labels(["a"])


def test_categories_that_would_be_one_are_refused() -> None:
    with pytest.raises(ValueError, match="column zip has '1' twice"):
        CategoricalColumn("zip", ("01", "1"))
    with pytest.raises(ValueError, match="reference of column zip must be one of its categories, 'a', got 'b'"):
        CategoricalColumn("zip", ("a",), reference="b")
    with pytest.raises(ValueError, match="Features need different names, got a=missing twice"):
        Preparation((CategoricalColumn("a", ("missing", None)),))
