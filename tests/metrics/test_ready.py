"""Ready-made metrics against scikit-learn's."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import calibration
from sklearn import metrics as sklearn

from feddr import metrics
from feddr.metrics.sums import BINS


def draw(seed: int, n: int, classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scores and labels; one score a sample, with ties, for two classes where classes is 0."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, classes)) if classes else np.round(rng.normal(size=n), 1)
    return scores, rng.integers(0, classes or 2, n)


def probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    two = np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores
    two = np.exp(two)
    return np.asarray(two / two.sum(axis=1, keepdims=True))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 60), st.sampled_from([0, 2, 3, 5]))
def test_classification_agrees_with_scikit_learn(seed: int, n: int, classes: int) -> None:
    scores, y = draw(seed, n, classes)
    p, batch = probabilities(scores), {"y": y}
    predicted = scores.argmax(axis=1) if classes else (scores > 0).astype(int)
    every = list(range(classes or 2))
    assert metrics.f1(scores, batch) == pytest.approx(sklearn.f1_score(y, predicted, average="macro"), abs=1e-12)
    assert metrics.log_loss(scores, batch) == pytest.approx(sklearn.log_loss(y, p, labels=every), abs=1e-12)
    if len(np.unique(y)) == len(every):
        theirs = (
            sklearn.roc_auc_score(y, scores)
            if not classes
            else sklearn.roc_auc_score(y, p if classes > 2 else np.log(p[:, 1]), multi_class="ovr", average="macro")
        )
        assert metrics.auc(scores, batch) == pytest.approx(theirs, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 200), st.sampled_from([0, 2, 4]))
def test_calibration_error_is_the_mean_gap_of_the_calibration_curve(seed: int, n: int, classes: int) -> None:
    scores, y = draw(seed, n, classes)
    p = probabilities(scores)
    right, sure = p.argmax(axis=1) == y, p.max(axis=1)
    if not classes:
        right = (scores > 0) == y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single kind of label
        accuracy, confidence = calibration.calibration_curve(right, sure, n_bins=BINS)
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], sure)
    share = np.bincount(bins, minlength=BINS)[np.unique(bins)] / n
    expected = float(np.sum(share * np.abs(accuracy - confidence)))
    assert metrics.calibration_error(scores, {"y": y}) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 50), st.sampled_from([(), (3,)]))
def test_r2_agrees_with_scikit_learn(seed: int, n: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    y, outputs = rng.normal(size=(2, n, *shape))
    assert metrics.r2(outputs, {"y": y}) == pytest.approx(sklearn.r2_score(y, outputs), abs=1e-9)


def test_what_is_not_defined_is_nan() -> None:
    assert np.isnan(metrics.auc(np.array([0.1, 0.2]), {"y": np.array([1, 1])}))
    assert np.isnan(metrics.auc(np.eye(2), {"y": np.array([1, 1])}))
    assert np.isnan(metrics.r2(np.array([0.1, 0.2]), {"y": np.array([1.0, 1.0])}))
    assert np.isnan(metrics.named("f1")(np.zeros(0), {"y": np.zeros(0)}))


def test_confidence_without_bounds_stays_finite() -> None:
    scores, y = np.array([800.0, -800.0, 800.0]), np.array([1, 0, 0])
    assert metrics.log_loss(scores, {"y": y}) == pytest.approx(800 / 3)
    assert metrics.auc(scores, {"y": y}) == pytest.approx(sklearn.roc_auc_score(y, scores))


@pytest.mark.parametrize("name", ["f1", "auc", "log_loss", "calibration_error"])
@pytest.mark.parametrize("y", [np.array([0.5, 1.0]), np.array([0, 2]), np.array([-1, 1]), np.zeros((2, 2))])
def test_labels_that_are_none_are_refused(name: str, y: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=rf"{name} needs one label for each sample, whole numbers from 0 to 1.*use r2"):
        metrics.named(name)(np.zeros(2), {"y": y})


def test_targets_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"r2 needs one output for each target y, got outputs of shape \(2, 3\)"):
        metrics.r2(np.zeros((2, 3)), {"y": np.zeros(2)})
    with pytest.raises(ValueError, match="r2 needs the array y, the samples have x"):
        metrics.r2(np.zeros(2), {"x": np.zeros(2)})
