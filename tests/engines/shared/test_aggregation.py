from collections.abc import Iterator

import numpy as np
import pytest

from feddr.engines.shared.aggregation import BLOCK, WeightedUpload, _blocks, weighted_sum


def uploads(count: int, size: int) -> list[WeightedUpload]:
    rng = np.random.default_rng(count)

    def one() -> WeightedUpload:
        upload = {
            "weight": rng.normal(size=(size, 3)).astype(np.float32),
            "bias": rng.normal(size=()).astype(np.float32),
        }
        return WeightedUpload(rng.random(), rng.random(), bool(rng.random() < 0.5), upload, rng.random())

    return [one() for _ in range(count)]


@pytest.mark.parametrize("size", [1, 7, 1_000, BLOCK])
@pytest.mark.parametrize("count", [1, 2, 23, 60])
def test_the_sum_is_that_of_a_plain_loop_however_many_are_added_at_a_time(count: int, size: int) -> None:
    given = uploads(count, size)
    found = weighted_sum(given)
    for name in ("weight", "bias"):
        expected = np.zeros_like(given[0].upload[name], np.float64)
        for one in given:
            expected += one.factor * one.weight * one.upload[name].astype(np.float64)
        assert found.sum[name].dtype == np.float64
        assert found.sum[name].shape == expected.shape
        np.testing.assert_allclose(found.sum[name], expected, rtol=1e-12, atol=1e-14)
    assert found.weight == pytest.approx(sum(a.weight for a in given), rel=1e-14)
    assert found.joined == pytest.approx(sum(a.weight for a in given if a.new), rel=1e-14)
    assert found.joined_share == pytest.approx(sum(a.share for a in given if a.new), rel=1e-14)
    assert found.discount == pytest.approx(sum(a.weight * a.factor for a in given) / found.weight, rel=1e-14)


def test_the_sum_does_not_share_memory_with_an_upload() -> None:
    (only,) = uploads(1, 5)
    only.upload["weight"] = only.upload["weight"].astype(np.float64)
    before = only.upload["weight"].copy()
    found = weighted_sum([only._replace(weight=1.0, factor=1.0)])
    found.sum["weight"] += 1.0
    np.testing.assert_array_equal(only.upload["weight"], before)


def test_large_uploads_are_taken_in_one_at_a_time() -> None:
    """They may come from a disk that holds more of them than the memory does."""
    held: list[int] = []

    def arriving() -> Iterator[WeightedUpload]:
        for k, upload in enumerate(uploads(4, BLOCK)):
            held.append(k)
            yield upload

    taken = _blocks(arriving())
    for k in range(4):
        assert len(next(taken)) == 1
        assert held[-1] == k
