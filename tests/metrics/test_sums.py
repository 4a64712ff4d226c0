"""Metrics from the sums of several sites are the metrics of all samples together."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr import metrics
from feddr.metrics.sums import SUMS, pooled


def split(rng: np.random.Generator, n: int, places: int) -> list[slice]:
    """Return the samples of each place, perhaps none; they are in the order of places."""
    ends = np.sort(rng.integers(0, n + 1, places - 1))
    return [slice(int(a), int(b)) for a, b in zip([0, *ends], [*ends, n], strict=True) if a < b]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 80),
    st.integers(1, 6),
    st.sampled_from(["f1", "log_loss", "calibration_error"]),
    st.sampled_from([0, 2, 4]),
)
def test_metrics_of_classes(seed: int, n: int, places: int, name: str, classes: int) -> None:
    rng = np.random.default_rng(seed)
    outputs = rng.normal(scale=3.0, size=(n, classes) if classes else n)
    y = np.sort(rng.integers(0, classes or 2, n))  # places with very different labels
    told = [SUMS[name].sums(outputs[some], {"y": y[some]}) for some in split(rng, n, places)]
    assert len({len(one) for one in told}) == 1
    assert SUMS[name].fits(len(told[0]))
    assert pooled(name, told) == pytest.approx(metrics.READY[name](outputs, {"y": y}), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 80), st.integers(1, 6), st.sampled_from([(), (3,)]))
def test_r2_of_places_far_apart(seed: int, n: int, places: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, *shape)) + np.linspace(0, 50, n).reshape(-1, *[1] * len(shape))
    outputs = y + rng.normal(size=(n, *shape))
    told = [SUMS["r2"].sums(outputs[some], {"y": y[some]}) for some in split(rng, n, places)]
    expected = metrics.r2(outputs, {"y": y})
    assert pooled("r2", told) == pytest.approx(expected, abs=1e-12 * max(1.0, abs(expected)))


def test_r2_does_not_cancel_where_targets_are_large() -> None:
    y = 1e8 + np.arange(6.0)
    outputs = y + 0.5
    told = [SUMS["r2"].sums(outputs[some], {"y": y[some]}) for some in (slice(0, 2), slice(2, 6))]
    assert pooled("r2", told) == pytest.approx(1 - 6 * 0.25 / 17.5, abs=1e-12)


def test_means_weigh_places_by_their_samples() -> None:
    losses = np.arange(7.0, dtype=np.float32)
    told = [SUMS["loss"].sums(losses[:2], {}), SUMS["loss"].sums(losses[2:], {})]
    assert pooled("loss", told) == 3.0


def test_a_mean_of_the_places_metrics_would_be_another() -> None:
    y, outputs = np.array([0, 0, 0, 1, 1, 0]), np.array([-1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    parts = [{"y": y[:3]}, {"y": y[3:]}]
    means = np.mean([metrics.f1(outputs[:3], parts[0]), metrics.f1(outputs[3:], parts[1])])
    both = pooled("f1", [SUMS["f1"].sums(outputs[:3], parts[0]), SUMS["f1"].sums(outputs[3:], parts[1])])
    assert both == pytest.approx(metrics.f1(outputs, {"y": y}))
    assert abs(both - means) > 0.01


def test_nothing_told_is_nan() -> None:
    wrong: Any = [np.zeros(4)]
    assert np.isnan(pooled("f1", wrong))
    assert np.isnan(pooled("accuracy", [np.zeros(2)]))
    assert np.isnan(pooled("r2", [np.zeros(4)]))


def test_the_area_under_the_curve_has_no_sums() -> None:
    """Places with the same numbers of each class and the same area of their own may have any area together."""
    scores, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 0, 1])
    apart = np.array([1.0, 2.0, 13.0, 14.0])
    for one in (scores, apart):
        assert metrics.auc(one[:2], {"y": y[:2]}) == metrics.auc(one[2:], {"y": y[2:]}) == 1.0
    shifted = np.array([3.5, 4.5, 1.0, 2.0])
    assert metrics.auc(shifted[:2], {"y": y[:2]}) == metrics.auc(shifted[2:], {"y": y[2:]}) == 1.0
    interleaved = np.array([1.0, 4.0, 2.0, 3.0])
    assert metrics.auc(interleaved[:2], {"y": y[:2]}) == metrics.auc(interleaved[2:], {"y": y[2:]}) == 1.0
    assert metrics.auc(interleaved, {"y": y}) != metrics.auc(shifted, {"y": y})
    assert "auc" not in SUMS
