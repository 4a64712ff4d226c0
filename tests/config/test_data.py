"""Experiments on files of one's own: a file for each client, numbers to predict, weights of classes."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import feddr
from feddr import config
from feddr.config import ConfigError


def tables(folder: Path, **data: Any) -> dict[str, Any]:
    """An experiment on two files, which are written."""
    rng = np.random.default_rng(0)
    files = {}
    for name, rows in (("boston", 30), ("cleveland", 20)):
        x = rng.normal(size=(rows, 2))
        frame = pd.DataFrame({"age": x[:, 0], "dose": x[:, 1], "ward": rng.choice(["a", "b"], rows)})
        frame["cost"] = x @ [1.0, -1.0] + 0.1 * rng.normal(size=rows)
        frame["ill"] = np.where(frame["cost"] > 0.7, "yes", "no")
        files[name] = str(folder / f"{name}.csv")
        frame.to_csv(files[name], index=False)
    return {
        "name": "own",
        "rounds": 3,
        "evaluate_every": 1,
        "data": {"name": "csv", "files": files, "categorical": ["ward"], "reference": "first", **data},
        "model": {"name": "linear", "num_features": 3},
        "local": {"name": "SGD", "lr": 0.1},
        "algorithm": {"name": "FedAvg"},
    }


def test_numbers_to_predict_make_a_regression(tmp_path: Path) -> None:
    parsed = config.parse(tables(tmp_path, label="cost", regression=True, ignore=["ill"], sample_weight="dose_weight"))
    for name in ("boston", "cleveland"):
        path = tmp_path / f"{name}.csv"
        pd.read_csv(path).assign(dose_weight=lambda rows: 1.0 + rows["dose"] ** 2).to_csv(path, index=False)
    problem, runs = config.build(parsed)
    assert problem.data.clients == ("boston", "cleveland")
    assert problem.data.features == ("age", "dose", "ward=b")
    data = problem.data
    expected = feddr.Problem.regression(feddr.models.linear(3), data)
    assert problem.F(problem.init) == expected.F(expected.init)
    last = config.perform(parsed, problem, runs[0]).history.last
    assert problem.F(problem.init) > last.F
    assert math.isnan(last.train_accuracy)
    assert math.isnan(last.test_accuracy)


def test_a_network_with_one_output_is_a_regression_too(tmp_path: Path) -> None:
    raw = tables(tmp_path, label="cost", regression=True, ignore=["ill"])
    network = config.build(config.parse({**raw, "model": {"name": "mlp", "sizes": [3, 4, 1]}}))[0]
    assert np.isfinite(network.F(network.init))
    with pytest.raises(ConfigError, match="Regression needs a model with one output, got 2"):
        config.build(config.parse({**raw, "model": {"name": "mlp", "sizes": [3, 4, 2]}}))


def test_classes_have_weights(tmp_path: Path) -> None:
    raw = {**tables(tmp_path, label="ill", ignore=["cost"], stratify=True), "class_weight": "balanced"}
    parsed = config.parse(raw)
    assert config.parse(feddr.config.toml.loads(config.dumps(parsed))) == parsed
    problem, _ = config.build(parsed)
    assert "sample_weight" in problem.data.train.samples
    assert problem.data.classes == ("no", "yes")
    numbers = config.parse(
        {**tables(tmp_path, label="cost", regression=True, ignore=["ill"]), "class_weight": "balanced"}
    )
    with pytest.raises(ConfigError, match="class_weight is for classes, the data have numbers to predict"):
        config.build(numbers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": {"a": 3}}, 'data.files must be a table of strings or "none", got {a = 3}.'),
        ({"files": "a.csv"}, 'data.files must be a table of strings or "none", got "a.csv".'),
        ({"reference": 3}, 'data.reference must be "first" or "none" or a table of strings or numbers, got 3.'),
        ({"path": "a.csv"}, "csv needs path and client, a file and its column of clients, or files"),
        ({"label": ""}, "csv needs label, the name of the column to predict"),
        ({"files": {}}, 'csv needs a file for each client, got none; write files = {name = "its.csv"}'),
        ({"missing": "mean"}, 'data.missing must be "refuse" or "median", got "mean".'),
    ],
)
def test_wrong_settings_of_files_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        config.build(config.parse(tables(tmp_path, **{"label": "ill", "ignore": ["cost"], **change})))
    assert message in str(error.value)
