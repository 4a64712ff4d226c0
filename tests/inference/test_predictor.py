"""Predictions: the same as the run's own metrics, in the user's words, from raw rows."""

import numpy as np
import pandas as pd
import pytest

import feddr
from feddr import FederatedData
from tests.inference.small_models import CLASSES, NUMBERS, PREPARATION, RAW, ill, run

assert CLASSES.test is not None
X, Y = CLASSES.test.samples["x"], CLASSES.test.samples["y"]


def test_scores_are_those_of_the_history() -> None:
    result = run(feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), CLASSES))
    assert result.score(X, Y) == pytest.approx(result.history.last.test_accuracy, abs=1e-6)
    assert result.score(CLASSES.train.samples["x"], CLASSES.train.samples["y"]) == pytest.approx(
        result.history.last.train_accuracy, abs=1e-6
    )


@pytest.mark.parametrize("outputs", [0, 2])
def test_probabilities_are_those_of_the_loss(outputs: int) -> None:
    labels = np.minimum(np.asarray(Y, np.int64), 1)
    data = FederatedData.from_clients([{"x": X[:20], "y": labels[:20]}, {"x": X[20:], "y": labels[20:]}])
    model = feddr.models.softmax(5, 2) if outputs else feddr.models.linear(5)
    result = run(feddr.Problem.classification(model, data, weights="samples"), "float64")
    found = result.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    loss = -np.mean(np.log(found[np.arange(len(X)), labels]))
    assert loss == pytest.approx(result.history.last.f, rel=1e-9)
    np.testing.assert_array_equal(result.predict(X), np.argmax(found, axis=1))


def test_a_regression_scores_r2() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    result = run(feddr.Problem.regression(feddr.models.linear(4), NUMBERS), "float64", rounds=20)
    x, y = NUMBERS.train.samples["x"], NUMBERS.train.samples["y"]
    assert result.score(x, y) == pytest.approx(sklearn.r2_score(y, result.predict(x)), rel=1e-9)
    with pytest.raises(ValueError, match="predict_proba is for classifications, this is a regression; use predict"):
        result.predict_proba(x)


def test_raw_rows_go_in_and_labels_in_the_users_words_come_out() -> None:
    result = ill()
    prepared = PREPARATION.transform(RAW)
    labels = result.predict(RAW)
    assert set(labels.tolist()) <= {"no", "yes"}
    np.testing.assert_array_equal(labels, result.predict(prepared, prepared=True))
    np.testing.assert_array_equal(labels, result.predict(RAW[["sex", "ill", "age"]]))
    np.testing.assert_array_equal(labels, result.predict(RAW[["age", "sex"]].to_numpy()))
    assert result.score(RAW, RAW["ill"]) == np.mean(labels == RAW["ill"].to_numpy())
    with pytest.raises(ValueError, match="no column sex"):
        result.predict(RAW[["age"]])
    with pytest.raises(ValueError, match="must be one of the classes 'no', 'yes', got 'perhaps'"):
        result.score(RAW, ["perhaps"] * 4)


def test_coefficients_have_names_and_raw_units() -> None:
    result = ill()
    scaled, raw = result.predictor.coefficients(), result.predictor.coefficients(raw=True)
    assert isinstance(scaled, pd.Series)
    assert isinstance(raw, pd.Series)
    assert scaled.index.tolist() == ["age", "sex=m", "intercept"]
    np.testing.assert_allclose(scaled.to_numpy()[:2], result.params["weight"])
    score = raw["intercept"] + raw["age"] * 63 + raw["sex=m"]
    assert score == pytest.approx(result.predictor.outputs(pd.DataFrame({"age": [63], "sex": ["m"]}))[0], rel=1e-5)


def test_coefficients_of_several_classes_have_a_column_each() -> None:
    result = run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES))
    table = result.predictor.coefficients()
    assert isinstance(table, pd.DataFrame)
    assert table.shape == (6, 3)
    assert table.index.tolist()[-1] == "intercept"
    np.testing.assert_array_equal(table.loc["intercept"].to_numpy(), result.params["bias"].astype(np.float64))
    other = run(feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), CLASSES))
    with pytest.raises(ValueError, match="coefficients is for linear models"):
        other.predictor.coefficients()


def test_named_columns_are_chosen_by_name() -> None:
    data = FederatedData(CLASSES.train, features=tuple("abcde"))
    result = run(feddr.Problem.classification(feddr.models.softmax(5, 3), data))
    table = pd.DataFrame(X, columns=list("abcde"))
    np.testing.assert_array_equal(result.predict(table[list("edcba")]), result.predict(X))
    with pytest.raises(ValueError, match=r"Rows need the column 'c', got \['a', 'b', 'd', 'e'\]"):
        result.predict(table.drop(columns="c"))


def test_what_does_not_fit_is_refused() -> None:
    result = run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES))
    assert result.predict(X[:0]).shape == (0,)
    assert result.predict_proba(X[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match=r"rows of shape \(5,\), got x of shape \(5,\); give x\[None\] for one row"):
        result.predict(X[0])
    with pytest.raises(ValueError, match=r"rows of shape \(5,\), got x of shape \(34, 4\)"):
        result.predict(np.zeros((34, 4)))
    with pytest.raises(ValueError, match=r"labels of the classes \[0, 1, 2\], got 7"):
        result.score(X, np.full(len(X), 7))
    with pytest.raises(ValueError, match="one value for each of 26 rows"):
        result.score(X, Y[:3])


def test_a_loss_alone_has_no_predictions() -> None:
    problem = feddr.Problem(lambda p, batch: (batch["x"] @ p["w"] - batch["y"]) ** 2, NUMBERS, {"w": np.zeros(4)})
    result = run(problem)
    with pytest.raises(ValueError, match="Predictions need the model, this problem has a loss alone; use Problem"):
        result.predict(NUMBERS.train.samples["x"])


def test_many_rows_are_computed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES))
    whole = result.predict_proba(X)
    monkeypatch.setattr("feddr.inference.predictor.CHUNK", 7)
    np.testing.assert_allclose(result.predict_proba(X), whole, rtol=1e-5)
