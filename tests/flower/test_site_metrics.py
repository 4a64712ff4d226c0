"""Metrics over the samples of all sites: those of the pooled samples, told as sums, and of few samples not at all."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import flower
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.measured import MetricSet
from feddr.flower import site_metrics
from feddr.metrics import choose
from feddr.storage import tensors
from feddr.tree import cast
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import app_for, classes, deploy, events, federation_of, lasso, populated, xbar_of

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)


def run(folder: Path, problem: feddr.Problem, metrics: list[Any], fewest_rows: int = 1, **more: Any) -> feddr.History:
    app = app_for(problem, METHOD, LOCAL, fewest_rows=fewest_rows)
    grid = populated(FakeGrid(), app, range(problem.data.num_clients), folder)
    federation = federation_of(problem, evaluation="nodes", metrics=metrics)
    settings: dict[str, Any] = {"rounds": 2, "precision": "float64", **more}
    return deploy(grid, federation, METHOD, folder, **settings)


def pooled(problem: feddr.Problem, folder: Path, metrics: list[Any]) -> dict[str, float]:
    """Return the metrics over all samples at the xbar of a run, as the simulator computes them."""
    arrays = {key.removeprefix("xbar").removeprefix(".") or "x": a for key, a in xbar_of(folder).items()}
    model = tensors.restore(cast(problem.init, np.float64), arrays)
    evaluator = Evaluator(problem, np.float64)
    return MetricSet(problem, evaluator, choose(metrics)).at(model)[0]


@pytest.mark.parametrize("metrics", [["f1", "train_log_loss", "calibration_error", "loss", "train_accuracy"]])
def test_they_are_those_of_the_pooled_samples(tmp_path: Path, metrics: list[str]) -> None:
    problem = classes()
    history = run(tmp_path, problem, metrics)
    expected = pooled(problem, tmp_path, metrics)
    assert list(history.last.metrics) == ["test_f1", "train_log_loss", "test_calibration_error", "test_loss"]
    for name, value in expected.items():  # train_accuracy is in every history
        assert history.last.value(name) == pytest.approx(value, abs=1e-12), name
    saved = feddr.History.from_csv(tmp_path / "server" / "feddr" / "history.csv")
    assert saved.last.metrics == history.last.metrics


def test_r2_of_a_regression_without_a_test_part(tmp_path: Path) -> None:
    data = lasso().data
    problem = feddr.Problem.regression(feddr.models.linear(6), feddr.FederatedData(data.train))
    history = run(tmp_path, problem, ["r2"])
    expected = pooled(problem, tmp_path, ["r2"])
    assert history.last.metrics == pytest.approx({"train_r2": expected["train_r2"]}, abs=1e-12)


def test_a_run_may_stop_by_one(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", classes(), ["log_loss"], rounds=5)
    target = whole.rows[1].metrics["test_log_loss"]
    stopped = run(tmp_path, classes(), ["log_loss"], rounds=5, stop_when=f"log_loss<={target}")
    assert 1 <= stopped.last.round < 5
    assert any(row.metrics.get("test_log_loss", np.inf) <= target for row in stopped.rows)


def test_few_samples_tell_nothing_and_say_why(tmp_path: Path) -> None:
    """The clients have 13, 30, 8 and 21 training samples."""
    history = run(tmp_path, classes(), ["train_f1", "train_log_loss"], fewest_rows=10)
    assert np.isnan(history.last.metrics["train_f1"])
    assert np.isnan(history.last.metrics["train_log_loss"])
    assert history.last.train_accuracy == history.last.train_accuracy
    said = events(tmp_path, "withheld")
    assert [(event["client"], event["metric"]) for event in said] == [(2, "train_f1"), (2, "train_log_loss")]
    assert "has 8 samples, sums are told of 10 or more" in said[0]["reason"]
    enough = run(tmp_path / "enough", classes(), ["train_f1"], fewest_rows=8)
    assert 0 < enough.last.metrics["train_f1"] <= 1


def test_a_metric_that_does_not_fit_the_problem_is_withheld_with_its_reason(tmp_path: Path) -> None:
    history = run(tmp_path, classes(), ["r2"])
    assert np.isnan(history.last.metrics["test_r2"])
    assert "r2 needs one output for each target" in events(tmp_path, "withheld")[0]["reason"]
    assert history.last.F == history.last.F


def largest(outputs: Any, batch: Any) -> Any:
    del batch
    return outputs.max()


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        (["auc"], "auc over all sites needs the order of all scores, which nodes do not tell"),
        (["f1", "test_auc"], "auc over all sites needs the order"),
        ([largest], "which nodes know, got largest of your own"),
        ([feddr.metrics.Metric("f1", largest)], "which nodes know, got f1 of your own"),
    ],
)
def test_what_nodes_cannot_tell_is_refused(metrics: list[Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        federation_of(classes(), evaluation="nodes", metrics=metrics)
    flower.Federation(classes().init, 4, evaluation=classes(), metrics=metrics)


def test_metrics_without_an_evaluation_are_refused() -> None:
    with pytest.raises(ValueError, match="Further metrics need an evaluation"):
        federation_of(classes(), metrics=["f1"])


def test_an_empty_part_tells_nothing_and_the_others_count() -> None:
    told = [{"test_accuracy": [4.0, 3.0]}, {"test_accuracy": list[float]()}, {"test_accuracy": [2.0, 0.0]}]
    assert site_metrics.over_all("test_accuracy", told) == {"test_accuracy": 0.5}
    assert np.isnan(site_metrics.over_all("test_accuracy", [{"test_accuracy": []}])["test_accuracy"])


def test_the_test_part_of_some_sites_is_the_one_that_counts() -> None:
    told = [{"test_accuracy": [4.0, 3.0]}, {"train_accuracy": [50.0, 0.0]}]
    assert site_metrics.over_all("accuracy", told) == {"test_accuracy": 0.75}
    assert site_metrics.over_all("accuracy", told[1:]) == {"train_accuracy": 0.0}


def test_sites_with_other_classes_than_the_rest_make_it_nan() -> None:
    told = [{"test_f1": [1.0, 1.0, 2.0, 2.0]}, {"test_f1": [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]}]
    assert np.isnan(site_metrics.over_all("f1", told)["test_f1"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[" * 100_000,
        "[]",
        "{}",
        json.dumps({"test_f1": [1.0] * 4, "more": []}),
        json.dumps({"validation_f1": [1.0] * 4}),
        json.dumps({"test_f1": [1.0] * 3}),
        json.dumps({"test_f1": ["1"] * 4}),
        json.dumps({"test_f1": [[1.0] * 4]}),
        json.dumps({"test_f1": None}),
        json.dumps({"test_f1": True}),
    ],
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(flower.Refused):
        site_metrics.read(text, "f1")


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(flower.Refused, match="nobody asked"):
        site_metrics.read("{}", "")
    assert site_metrics.read("", "") == {}
    assert site_metrics.read(json.dumps({"train_f1": [1.0] * 4}), "f1") == {"train_f1": [1.0] * 4}
