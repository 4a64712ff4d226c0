import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from feddr.engines.reference import _sum
from feddr.engines.shared.aggregation import BLOCK, WeightedUpload, _blocks, shard_sums, summed, weighted_sum
from feddr.engines.shared.shards import ROOT, SHARDS, cover, fold


def uploads(count: int, size: int) -> list[WeightedUpload]:
    rng = np.random.default_rng(count)
    shards = np.sort(rng.integers(SHARDS, size=count)).tolist()

    def one(shard: int) -> WeightedUpload:
        upload = {
            "weight": rng.normal(size=(size, 3)).astype(np.float32),
            "bias": rng.normal(size=()).astype(np.float32),
        }
        return WeightedUpload(shard, rng.random(), rng.random(), bool(rng.random() < 0.5), upload, rng.random())

    return [one(shard) for shard in shards]


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


@pytest.mark.parametrize("size", [1, 7, 1_000, BLOCK])
@pytest.mark.parametrize("count", [1, 2, 23, 200])
def test_the_sum_has_the_bits_of_the_reference_however_many_are_added_at_a_time(count: int, size: int) -> None:
    given = [one._replace(factor=1.0) for one in uploads(min(count, 30) if size == BLOCK else count, size)]
    found, expected = weighted_sum(given), _sum(given)
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(found.sum[name], expected.sum[name])
    assert found._replace(sum=None, discount=1.0) == expected._replace(sum=None)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 64])
@pytest.mark.parametrize(("count", "size"), [(3, 1), (200, 7), (60, 1_000)])
def test_sums_of_parts_of_the_shards_add_up_to_the_same_bits(workers: int, count: int, size: int) -> None:
    given = uploads(count, size)
    bounds = [SHARDS * j // workers for j in range(workers + 1)]
    sent = []
    for start, stop in itertools.pairwise(bounds):
        own = [one for one in given if start <= one.shard < stop]
        sent += list(fold(cover(start, stop), shard_sums(own)))
    ((_, total),) = fold([ROOT], sent)
    found, expected = summed(total, given[0].upload), weighted_sum(given)
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(found.sum[name], expected.sum[name])
    assert found._replace(sum=None) == expected._replace(sum=None)


def test_the_order_of_clients_would_have_other_bits() -> None:
    """Otherwise the two tests above could not fail."""
    given = uploads(200, 7)
    plain = sum(one.factor * one.weight * one.upload["weight"].astype(np.float64) for one in given)
    assert not np.array_equal(weighted_sum(given).sum["weight"], plain)


def test_uploads_that_are_not_in_the_order_of_shards_are_refused() -> None:
    with pytest.raises(ValueError, match="order of shards"):
        weighted_sum(uploads(23, 1)[::-1])


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


def test_parameters_without_entries_are_summed_with_the_others() -> None:
    empty = [one._replace(upload={**one.upload, "weight": np.zeros((0, 3), np.float32)}) for one in uploads(5, 2)]
    total = weighted_sum(empty)
    assert total.sum["weight"].shape == (0, 3)
    np.testing.assert_array_equal(total.sum["bias"], weighted_sum(uploads(5, 2)).sum["bias"])


def test_sums_that_are_not_finite_raise_no_warning() -> None:
    """Who takes the sum refuses it, with the client's name; warnings are errors here."""
    bad = [
        one._replace(upload={**one.upload, "bias": np.float32(sign * np.inf)})
        for sign, one in zip((1, -1), uploads(2, 3), strict=True)
    ]
    assert np.isnan(weighted_sum(bad).sum["bias"])
