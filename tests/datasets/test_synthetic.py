"""The synthetic federations: exact properties of the recipe, and agreement in distribution with the published files."""

import gzip
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from feddr.data import FederatedData, Samples
from feddr.datasets import synthetic, synthetic_iid

Array = NDArray[np.generic]
VARIANCE = np.arange(1, 61) ** -1.2
SETS: dict[str, Callable[[int], FederatedData]] = {
    "iid": lambda seed: synthetic_iid(seed=seed),
    "0_0": lambda seed: synthetic(0, 0, seed=seed),
    "0.5_0.5": lambda seed: synthetic(0.5, 0.5, seed=seed),
    "1_1": lambda seed: synthetic(1, 1, seed=seed),
}
SPREAD = {"0_0": 0.0, "0.5_0.5": 0.5, "1_1": 1.0}


def train_clients(data: FederatedData) -> list[Samples]:
    return [data.train.client(i) for i in range(data.num_clients)]


def held_out(data: FederatedData) -> list[Samples]:
    assert data.test is not None
    return [data.test.client(i) for i in range(data.num_clients)]


@pytest.mark.parametrize("name", SETS)
def test_shapes_types_and_the_split(name: str) -> None:
    data = SETS[name](0)
    assert data.test is not None
    assert data.num_clients == 30
    for part in (data.train, data.test):
        x, y = part.samples["x"], part.samples["y"]
        assert set(part.samples) == {"x", "y"}
        assert (x.dtype, y.dtype) == (np.dtype("float32"), np.dtype("int32"))
        assert (x.shape, y.shape) == ((part.num_samples, 60), (part.num_samples,))
        assert set(np.unique(y).tolist()) <= set(range(10))
    total = data.train.sizes + data.test.sizes
    assert total.min() >= 50
    assert data.test.sizes.min() >= 1
    assert np.array_equal(data.train.sizes, [int(0.9 * n) for n in total])


def test_sizes_are_lognormal() -> None:
    data = synthetic_iid(num_clients=300, seed=5)
    assert data.test is not None
    extra = data.train.sizes + data.test.sizes - 50
    for threshold in (5, 20, 55, 150, 400):
        # floor(L) < t exactly if L < t, for a whole t
        p = stats.lognorm(2, scale=np.exp(4)).cdf(threshold)
        assert abs(np.sum(extra < threshold) - 300 * p) <= 5 * np.sqrt(300 * p * (1 - p))


@pytest.mark.parametrize("name", SETS)
def test_a_seed_is_a_draw(name: str) -> None:
    def arrays(seed: int) -> list[Array]:
        return list(SETS[name](seed).train.samples.values())

    assert all(np.array_equal(a, b) for a, b in zip(arrays(0), arrays(0), strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(arrays(0), arrays(1), strict=True))


@pytest.mark.parametrize("make", [lambda n: synthetic(1, 1, n, seed=2), lambda n: synthetic_iid(n, seed=2)])
def test_a_client_does_not_depend_on_the_number_of_clients(make: Callable[[int], FederatedData]) -> None:
    few, many = make(3), make(7)
    for part, whole in ((train_clients(few), train_clients(many)), (held_out(few), held_out(many))):
        for a, b in zip(part, whole[:3], strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in ("x", "y"))
    assert not np.array_equal(few.train.client(0)["x"][:40], few.train.client(1)["x"][:40])


@pytest.mark.parametrize("name", SETS)
def test_feature_variances_around_the_clients_mean(name: str) -> None:
    squares, freedom = squares_within(train_clients(SETS[name](1)))
    assert np.all(np.abs(squares / freedom - 1) <= 5 * np.sqrt(2 / freedom))


def separable(samples: Samples, classes: tuple[int, int]) -> bool:
    """Whether a hyperplane parts the two classes: a linear program with the margin as constraint."""
    x, y = samples["x"].astype(np.float64), samples["y"]
    rows = np.isin(y, classes)
    sign = np.where(y[rows] == classes[0], 1.0, -1.0)
    planes = sign[:, None] * np.column_stack([x[rows], np.ones(rows.sum())])
    # By Cover's theorem, arbitrary labels of more than twice as many points as dimensions are hardly ever separable.
    assert rows.sum() > 3 * planes.shape[1]
    result = optimize.linprog(np.zeros(61), A_ub=-planes, b_ub=-np.ones(len(planes)), bounds=(None, None))
    assert result.status in (0, 2)
    return bool(result.status == 0)


def counts(y: Array) -> NDArray[np.int64]:
    return np.bincount(y.astype(np.int64), minlength=10)


def common_classes(y: Array) -> tuple[int, int]:
    a, b = np.argsort(counts(y))[-2:]
    return int(a), int(b)


def test_labels_of_a_client_come_from_one_linear_model() -> None:
    clients = [c for c in train_clients(synthetic(1, 1, seed=0)) if np.sort(counts(c["y"]))[-2] > 150]
    assert clients
    for client in clients[:3]:
        assert separable(client, common_classes(client["y"]))


@pytest.mark.parametrize(
    ("make", "one_model"), [(lambda n: synthetic_iid(n), True), (lambda n: synthetic(0, 0, n), False)]
)
def test_only_iid_clients_share_a_linear_model(make: Callable[[int], FederatedData], one_model: bool) -> None:
    clients = train_clients(make(200))
    samples = {name: np.concatenate([c[name][:10] for c in clients]) for name in ("x", "y")}
    assert separable(samples, common_classes(samples["y"])) == one_model


def test_r_leaves_features_and_labels_as_they_are() -> None:
    plain, shifted = synthetic(0, 0.5, 10).train, synthetic(3, 0.5, 10).train
    assert np.array_equal(plain.samples["x"], shifted.samples["x"])
    assert np.array_equal(plain.samples["y"], shifted.samples["y"])


def test_s_is_the_standard_deviation_of_a_shift_of_each_clients_features() -> None:
    n = 100
    zero, half, two = (synthetic(0, s, n, seed=4).train for s in (0, 0.5, 2))
    base = zero.samples["x"].astype(np.float64)
    moved = two.samples["x"].astype(np.float64) - base
    shift = moved[zero.offsets[:-1], 0]
    np.testing.assert_allclose(moved, np.repeat(shift, zero.sizes)[:, None] * np.ones(60), atol=1e-5)
    np.testing.assert_allclose(half.samples["x"].astype(np.float64) - base, moved / 4, atol=1e-5)
    # sum of squares over 4 is chi-square with n degrees of freedom: mean n, variance 2 n
    assert abs(np.sum((shift / 2) ** 2) - n) <= 5 * np.sqrt(2 * n)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: synthetic(-1, 0), "r=-1"),
        (lambda: synthetic(0, -0.5), "s=-0.5"),
        (lambda: synthetic(0, float("nan")), "s=nan"),
        (lambda: synthetic(float("inf"), 0), "r=inf"),
        (lambda: synthetic(0, 0, num_clients=0), "num_clients >= 1"),
        (lambda: synthetic_iid(num_clients=0), "num_clients >= 1"),
        (lambda: synthetic_iid(seed=-1), "got -1"),
    ],
)
def test_refuses(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Agreement in distribution with the test halves that Li et al. published in LEAF format.


def data_folder() -> Path | None:
    """FEDDR_DATA, or the first folder shared/data beside the repository or beside a folder above it."""
    if "FEDDR_DATA" in os.environ:
        return Path(os.environ["FEDDR_DATA"])
    folders = (folder / "shared" / "data" for folder in Path(__file__).resolve().parents[2:])
    return next((folder for folder in folders if folder.is_dir()), None)


def read_leaf(path: Path) -> list[Samples]:
    with gzip.open(path, "rt") as file:
        leaf = json.load(file)
    clients = [leaf["user_data"][user] for user in leaf["users"]]
    assert [len(c["y"]) for c in clients] == leaf["num_samples"]
    return [{"x": np.array(c["x"]), "y": np.array(c["y"], np.int64)} for c in clients]


def write_leaf(path: Path, clients: list[Samples]) -> None:
    users = [f"f_{i:05d}" for i in range(len(clients))]
    data = {user: {name: a.tolist() for name, a in c.items()} for user, c in zip(users, clients, strict=True)}
    with gzip.open(path, "wt", compresslevel=1) as file:
        json.dump({"users": users, "num_samples": [len(c["y"]) for c in clients], "user_data": data}, file)


def squares_within(clients: list[Samples]) -> tuple[NDArray[np.float64], int]:
    """For each feature, the squared deviations from the clients' means over j^-1.2, and their degrees of freedom."""
    squares = sum(np.sum((c["x"] - c["x"].mean(0, dtype=np.float64)) ** 2, axis=0) for c in clients) / VARIANCE
    return squares, sum(len(c["y"]) - 1 for c in clients)


def largest_shares(clients: list[Samples]) -> NDArray[np.float64]:
    return np.array([counts(c["y"]).max() / len(c["y"]) for c in clients])


@cache
def our_draws(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes and largest class shares of our test halves: a row for each of 59 seeds."""
    draws = [held_out(SETS[name](seed)) for seed in range(100, 159)]
    return np.array([[len(c["y"]) for c in d] for d in draws], float), np.array([largest_shares(d) for d in draws])


def rank_p_value(theirs: NDArray[np.float64], ours: NDArray[np.float64]) -> float:
    """Whether theirs looks like one more draw: its Kolmogorov-Smirnov distance from our pool among our draws' own.

    Unlike the tabulated p-value, the rank allows for ties and for clients that depend on each other (the iid W is one).
    """
    distance = [stats.ks_2samp(draw, ours.ravel(), method="asymp").statistic for draw in (theirs, *ours)]
    return float(np.mean(np.array(distance) >= distance[0]))


def two_sided(statistic: float, freedom: int) -> float:
    return float(2 * min(stats.chi2(freedom).cdf(statistic), stats.chi2(freedom).sf(statistic)))


def means_p_value(clients: list[Samples], s: float | None) -> float:
    """Client means against N(B_i, 1) with B_i ~ N(0, s), or against 0 for s = None: the chi-square of all of them."""
    statistic = 0.0
    for c in clients:
        covariance = np.diag(VARIANCE / len(c["y"]))
        if s is not None:
            covariance += np.eye(60) + s**2
        mean = c["x"].mean(0, dtype=np.float64)
        statistic += mean @ np.linalg.solve(covariance, mean)
    return two_sided(statistic, 60 * len(clients))


def shift_p_value(clients: list[Samples], s: float) -> float:
    """The average coordinate of each client's mean against N(0, s^2 + 1/60 + what sampling adds)."""
    statistic = 0.0
    for c in clients:
        variance = s**2 + 1 / 60 + VARIANCE.sum() / len(c["y"]) / 60**2
        statistic += float(c["x"].mean(dtype=np.float64)) ** 2 / variance
    return two_sided(statistic, len(clients))


def p_values(clients: list[Samples], name: str) -> dict[str, float]:
    """Compare the test halves of 30 clients with the recipe of the set of that name."""
    sizes, shares = our_draws(name)
    squares, freedom = squares_within(clients)
    found = {
        "sizes": rank_p_value(np.array([len(c["y"]) for c in clients], float), sizes),
        "shares": rank_p_value(largest_shares(clients), shares),
        "variances": float(stats.kstest(stats.chi2(freedom).cdf(squares), "uniform").pvalue),
        "means": means_p_value(clients, SPREAD.get(name)),
    }
    return found | ({"shift": shift_p_value(clients, SPREAD[name])} if name in SPREAD else {})


# The smallest rank p-value is 1/60: it means farther from our pool than all of our own draws.
REJECTED = 0.02


@pytest.mark.parametrize("name", SETS)
def test_agrees_with_the_published_test_half(name: str) -> None:
    folder = data_folder()
    path = None if folder is None else folder / "synthetic_fedprox" / name / "mytest.json.gz"
    if path is None or not path.is_file():
        pytest.skip(f"the published synthetic data is not here ({path}); set FEDDR_DATA to the folder that holds it")
    found = p_values(read_leaf(path), name)
    assert min(found.values()) > REJECTED, found


@pytest.mark.parametrize("name", ["iid", "0.5_0.5"])
def test_the_comparison_accepts_another_draw(name: str, tmp_path: Path) -> None:
    write_leaf(tmp_path / "mytest.json.gz", held_out(SETS[name](7)))
    found = p_values(read_leaf(tmp_path / "mytest.json.gz"), name)
    assert min(found.values()) > REJECTED, found


def stretched(clients: list[Samples]) -> list[Samples]:
    return [{"x": c["x"].mean(0) + VARIANCE**0.05 * (c["x"] - c["x"].mean(0)), "y": c["y"]} for c in clients]


@pytest.mark.parametrize(
    ("truth", "claim", "change", "seen"),
    [
        ("iid", "0_0", list, {"shares", "means"}),
        ("0_0", "iid", list, {"shares", "means"}),
        ("1_1", "0.5_0.5", list, {"shift"}),
        ("0_0", "0_0", stretched, {"variances"}),
        ("0_0", "0_0", lambda clients: [{k: a[::2] for k, a in c.items()} for c in clients], {"sizes"}),
    ],
)
def test_the_comparison_rejects_another_recipe(
    truth: str, claim: str, change: Callable[[list[Samples]], list[Samples]], seen: set[str], tmp_path: Path
) -> None:
    write_leaf(tmp_path / "mytest.json.gz", change(held_out(SETS[truth](7))))
    found = p_values(read_leaf(tmp_path / "mytest.json.gz"), claim)
    assert seen <= {key for key, p in found.items() if p < REJECTED}, found


def test_the_folder_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDR_DATA", "/elsewhere")
    assert data_folder() == Path("/elsewhere")
