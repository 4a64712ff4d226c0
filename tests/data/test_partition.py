"""Partitions: every sample exactly once, one seed one partition, nobody empty, and what each of them promises."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr.data import partition
from feddr.data.partition import Indices

Make = Callable[[list[int], int, int], list[Indices]]
PARTITIONS: dict[str, Make] = {
    "iid": lambda y, n, seed: partition.iid(y, n, seed=seed),
    "shards": lambda y, n, seed: partition.shards(y, n, 1, seed=seed),
    "dirichlet, very different": lambda y, n, seed: partition.dirichlet(y, n, 0.01, seed=seed),
    "dirichlet": lambda y, n, seed: partition.dirichlet(y, n, 1.0, seed=seed),
    "quantity": lambda y, n, seed: partition.quantity(y, n, 3.0, seed=seed),
    "quantity, equal": lambda y, n, seed: partition.quantity(y, n, 0.0, seed=seed),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], int, int]:
    size = draw(st.integers(1, 60))
    # Half as many classes as samples at most: more are refused as no classes.
    labels = draw(st.lists(st.integers(0, max(0, size // 2 - 1)), min_size=size, max_size=size))
    return labels, draw(st.integers(1, size)), draw(st.integers(0, 2**40))


def covers(parts: list[Indices], size: int) -> bool:
    return sorted(np.concatenate(parts).tolist()) == list(range(size))


@pytest.mark.parametrize("name", PARTITIONS)
@given(cases())
@settings(deadline=None, max_examples=60)
def test_every_sample_once_nobody_empty_and_the_seed_decides(name: str, case: tuple[list[int], int, int]) -> None:
    labels, n, seed = case
    parts = PARTITIONS[name](labels, n, seed)
    assert len(parts) == n
    assert covers(parts, len(labels))
    assert all(len(part) > 0 and part.dtype == np.int64 for part in parts)
    again = PARTITIONS[name](labels, n, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("name", PARTITIONS)
def test_another_seed_is_another_partition(name: str) -> None:
    labels = [i % 5 for i in range(200)]
    one, other = PARTITIONS[name](labels, 4, 0), PARTITIONS[name](labels, 4, 1)
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=30))
@settings(deadline=None, max_examples=40)
def test_a_column_has_a_client_for_each_value(column: list[str]) -> None:
    parts = partition.by_column(column)
    assert covers(parts, len(column))
    assert [{column[i] for i in part} for part in parts] == [{value} for value in sorted(set(column))]


@given(cases())
@settings(deadline=None, max_examples=40)
def test_equal_sizes_differ_by_one_at_most(case: tuple[list[int], int, int]) -> None:
    labels, n, seed = case
    for parts in (partition.iid(labels, n, seed), partition.shards(labels, n, 1, seed)):
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_shards_hold_few_labels() -> None:
    labels = np.repeat(np.arange(10), 100)
    parts = partition.shards(np.random.default_rng(0).permutation(labels), 50, 2, seed=3)
    # A shard of 10 out of 100 equal labels lies within one label.
    assert all(len(part) == 20 for part in parts)
    shuffled = np.random.default_rng(0).permutation(labels)
    assert max(len(np.unique(shuffled[part])) for part in parts) == 2


def test_samples_of_a_label_are_dealt_out_at_random() -> None:
    labels = np.zeros(1000, int)
    first = partition.shards(labels, 10, 1, seed=0)[0]
    assert abs(np.mean(first) - 499.5) < 5 * 1000 / np.sqrt(12 * 100)


@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_dirichlet_shares_have_the_moments_of_the_dirichlet_law(beta: float) -> None:
    n, classes, size = 5, 400, 1000
    parts = partition.dirichlet(np.repeat(np.arange(classes), size), n, beta, min_samples=0, seed=2)
    shares = np.array([np.bincount(part // size, minlength=classes) for part in parts]) / size
    # Var p_i = (1/n)(1 - 1/n) / (n beta + 1); over the classes, which are independent, each client gives an estimate.
    variance = (1 / n) * (1 - 1 / n) / (n * beta + 1)
    assert np.allclose(shares.mean(axis=1), 1 / n, atol=5 * np.sqrt(variance / classes))
    assert np.mean((shares - 1 / n) ** 2) == pytest.approx(variance, rel=0.15)


def test_dirichlet_leaves_clients_empty_only_if_asked() -> None:
    labels = [i % 2 for i in range(40)]
    assert min(map(len, partition.dirichlet(labels, 20, 0.01, min_samples=0, seed=0))) == 0
    assert min(map(len, partition.dirichlet(labels, 20, 0.01, min_samples=2, seed=0))) == 2


def test_quantity_sizes_are_lognormal() -> None:
    parts = partition.quantity(np.zeros(10**6), 2000, sigma=1.5, seed=0)
    logs = np.log([len(part) for part in parts])
    # The deviation of 2000 normal numbers is known to 1/sqrt(4000), and rounding blurs small sizes.
    assert np.std(logs) == pytest.approx(1.5, rel=0.1)
    assert abs(np.mean((logs - logs.mean()) ** 3)) < 0.4 * 1.5**3


def test_quantity_gives_everybody_the_least_first() -> None:
    assert min(map(len, partition.quantity(np.zeros(100), 10, sigma=50.0, min_samples=3, seed=1))) == 3
    assert min(map(len, partition.quantity(np.zeros(100), 10, sigma=50.0, min_samples=0, seed=1))) == 0


def test_few_labels_are_counted_around_and_no_sample_is_used_twice() -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 900))
    parts = partition.few_labels(labels, 40, 3, seed=5)
    for i, part in enumerate(parts):
        counts = np.bincount(labels[part], minlength=10)
        mine = [i % 10, (i + 1) % 10, (i + 2) % 10]
        assert set(np.flatnonzero(counts)) == set(mine)
        assert len(set(counts[mine])) == 1
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything) < len(labels)
    again, other = partition.few_labels(labels, 40, 3, seed=5), partition.few_labels(labels, 40, 3, seed=6)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))


def test_sizes_of_few_labels_are_lognormal_and_5_more() -> None:
    parts = partition.few_labels(np.zeros(10**6, int), 3000, 1, seed=0)
    logs = np.log(np.array([len(part) for part in parts]) - 5 + 0.5)
    # Means and deviations of 3000 normal numbers are known to about 0.02; sizes are rounded down.
    assert np.mean(logs) == pytest.approx(4.0, abs=0.08)
    assert np.std(logs) == pytest.approx(1.0, abs=0.08)
    assert len({len(part) for part in partition.few_labels(np.zeros(2000, int), 10, 1, sigma=0.0)}) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: partition.iid([0, 1], 3), "3 clients with 1 or more samples each need 3 samples, got 2"),
        (lambda: partition.shards([0, 1, 2], 2, 2), "2 clients with 2 or more samples each need 4 samples, got 3"),
        (lambda: partition.dirichlet([0, 0, 1, 1], 2, min_samples=3), "need 6 samples, got 4"),
        (lambda: partition.iid([[0], [1]], 1), "one label for each sample, got labels of shape"),
        (lambda: partition.iid([0], 0), "num_clients >= 1, a whole number, got 0"),
        (lambda: partition.iid([0], 1, seed=-1), "seed must be a whole number >= 0, got -1"),
        (lambda: partition.shards([0], 1, 0), "shards_per_client must be a whole number >= 1, got 0"),
        (lambda: partition.dirichlet([0, 1], 1, 0.0), "beta > 0, got 0.0"),
        (lambda: partition.dirichlet([0, 1], 1, float("nan")), "beta > 0, got nan"),
        (lambda: partition.dirichlet(np.linspace(0, 1, 50), 2), "needs classes, got 50 different labels"),
        (lambda: partition.dirichlet([0, 1], 1, min_samples=-1), "min_samples must be a whole number >= 0, got -1"),
        (lambda: partition.quantity([0, 1], 1, -1.0), "sigma >= 0, got -1.0"),
        (lambda: partition.few_labels([0, 1], 1, 3), "from 1 to the number of labels, 2, got 3"),
        (lambda: partition.few_labels([0, 1], 1, 1, -1.0), "sigma >= 0, got -1.0"),
        (
            lambda: partition.few_labels([0, 1] * 9, 2, 2, 0.0),
            "need 58 samples with label 0, got 9; take fewer clients",
        ),
        (lambda: partition.few_labels([0, 1] * 9, 2, 1, 1e9), "take fewer clients, or a smaller sigma"),
        (lambda: partition.by_column([]), "one value for each sample"),
    ],
)
def test_refuses(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
