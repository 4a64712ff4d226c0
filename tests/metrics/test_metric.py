"""Which metrics a run is given, and which end of a column is the better one."""

from typing import Any

import numpy as np
import pytest

from feddr import metrics
from feddr.metrics import Metric


def recall(outputs: Any, batch: Any) -> Any:
    return (outputs > 0)[batch["y"] == 1].mean()


def error(outputs: Any, batch: Any) -> Any:
    return abs(outputs - batch["y"])


def test_a_function_of_each_sample_is_averaged() -> None:
    outputs, batch = np.array([1.0, 4.0]), {"y": np.array([0.0, 1.0])}
    assert Metric("error", error)(outputs, batch) == 2.0
    assert Metric("error", lambda o, b: error(o, b).max())(outputs, batch) == 3.0
    with pytest.raises(ValueError, match=r"metric error must return one number, or one for each of 2 samples"):
        Metric("error", lambda o, _: np.zeros(len(o) + 1))(outputs, batch)


def test_names_functions_and_metrics_are_taken() -> None:
    found = metrics.choose(["f1", "test_loss", recall, Metric("other", recall, "min")])
    assert [(one.name, one.part) for one in found] == [
        ("f1", None),
        ("loss", "test"),
        ("recall", None),
        ("other", None),
    ]
    assert [metrics.better(name, found) for name in ("test_recall", "train_other", "other")] == ["max", "min", "min"]


def test_columns_and_statistics_have_a_better_end() -> None:
    ends = {"F": "min", "sparsity": "max", "test_loss": "min", "p10_client_test_auc": "max", "wall_time": None}
    assert {name: metrics.better(name) for name in ends} == ends


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["acu"], "got 'acu'. Did you mean auc"),
        (["f1", "f1"], "got f1 twice"),
        ([lambda *_: 0.0], "function with a name"),
        ("f1", r'metrics must be a list, such as \["f1", "auc"\]'),
        ([3], "got 3"),
    ],
)
def test_what_is_no_metric_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        metrics.choose(given)


@pytest.mark.parametrize(
    "wrong", [{"name": "a b"}, {"better": "most"}, {"of": "labels"}, {"part": "holdout"}], ids=lambda x: str(x)
)
def test_a_metric_with_a_wrong_field_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=repr(next(iter(wrong.values())))):
        Metric(**{"name": "recall", "function": recall, **wrong})


def test_one_client_in_ten_is_worse_than_p10() -> None:
    values = np.arange(101.0)
    assert metrics.statistics(values, "max") == {"worst": 0.0, "p10": 10.0, "median": 50.0, "best": 100.0}
    assert metrics.statistics(values, "min") == {"worst": 100.0, "p10": 90.0, "median": 50.0, "best": 0.0}
    assert np.isnan(list(metrics.statistics([np.nan], "min").values())).all()
