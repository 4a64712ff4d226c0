"""Fixed point: steps are powers of two, nothing is lost for good, and sums of levels are sums of numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddr.compress import EncodingError, FixedPoint
from feddr.compress.compressor import feedback

POINTS = st.builds(FixedPoint, st.integers(8, 40), st.floats(1e-6, 1e6), st.floats(1e-3, 1.0))


@given(POINTS)
def test_the_step_is_the_smallest_power_of_two_that_reaches_the_clip(point: FixedPoint) -> None:
    assert math.frexp(point.step)[0] == 0.5
    assert point.step * point.largest >= point.clip > point.step / 2 * point.largest


@given(POINTS, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_a_number_within_the_range_is_off_by_half_a_step_at_most(point: FixedPoint, values: list[float]) -> None:
    numbers = np.array(values)
    left = np.abs(point.compress(numbers) - numbers)
    inside = np.abs(numbers) <= point.largest * point.scale
    assert (left[inside] <= 0.5 * point.scale * (1 + 1e-9) + 1e-9 * np.abs(numbers[inside])).all()
    assert (np.abs(point.levels(numbers)) <= point.largest).all()


def test_what_exceeds_the_range_arrives_later() -> None:
    point, target = FixedPoint(8, 1.0), np.array([7.3, -0.4, 0.0])
    counted = np.zeros(3)
    for rounds in range(1, 5):
        counted = feedback(point, target, counted)
        assert counted[0] == pytest.approx(min(rounds * point.largest * point.scale, 7.3), abs=point.scale / 2)
    assert np.abs(counted - target).max() <= point.scale / 2


@given(POINTS, st.lists(st.floats(-1e3, 1e3), max_size=6))
def test_a_message_is_what_compress_says(point: FixedPoint, values: list[float]) -> None:
    numbers = np.array(values)
    message = point.encode(numbers)
    assert len(message) == point.num_bytes(numbers)
    assert point.decode(message, numbers).tobytes() == point.compress(numbers).tobytes()


def test_a_number_beyond_the_largest_is_no_message() -> None:
    with pytest.raises(EncodingError, match="at most 127"):
        FixedPoint(8).unpack(np.array([128], "<i4").tobytes(), [1], np.dtype(float))


@pytest.mark.parametrize("weight", [0.0, 1.5, -1.0, float("nan")])
def test_weights_are_above_zero_and_at_most_one(weight: float) -> None:
    with pytest.raises(ValueError, match="weight must be above 0"):
        FixedPoint(weight=weight)
