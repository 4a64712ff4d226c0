"""What is searched: grids are exact, draws are within bounds, and keys go where --set would put them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr.config import ConfigError
from feddr.tune.axes import Choice, Range, axis
from feddr.tune.paper import ALPHA, ETA, GRIDS, MU, RANGES, TRIALS
from feddr.tune.plan import plan
from feddr.tune.space import resolve
from tests.tune.small_searches import THREE, TOML, TWO, raw


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True), min_size=1, max_size=3))
@settings(deadline=None, max_examples=30)
def test_a_grid_has_every_combination_once(values: list[list[int]]) -> None:
    keys = ["algorithm.eta", "algorithm.alpha", "local.lr"][: len(values)]
    space = resolve(raw(), {key: Choice(tuple(v)) for key, v in zip(keys, values, strict=True)}, random=False)
    tried = space.settings("FedDR", None, seed=0)
    assert list(tried) == list(range(math.prod(map(len, values))))
    assert [tuple(point.values()) for point in tried.values()] == list(itertools.product(*values))
    assert all(list(point) == keys for point in tried.values())


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e6), st.floats(0, 1, exclude_max=True))
@settings(deadline=None)
def test_draws_stay_within_their_bounds(low: float, factor: float, u: float) -> None:
    high = low * factor
    for scale in ("lin", "log"):
        assert low <= Range(scale, low, high).draw(u) <= high
    assert 0 < ALPHA.draw(u) <= 1.99
    whole = Range("int", 3, 7).draw(u)
    assert whole in range(3, 8)
    assert isinstance(whole, int)


def test_draws_are_uniform_on_their_scale() -> None:
    axes = {"algorithm.eta": Range("log", 0.01, 1000.0), "algorithm.alpha": Range("lin", 0.0, 2.0)}
    drawn = resolve(raw(), axes, random=True).settings("FedDR", 2000, seed=3)
    logs = np.sort([math.log(point["algorithm.eta"] / 0.01) / math.log(1e5) for point in drawn.values()])
    alphas = np.sort([point["algorithm.alpha"] / 2 for point in drawn.values()])
    steps = np.arange(1, 2001) / 2000
    for values in (logs, alphas):
        # Kolmogorov and Smirnov: beyond 1.95 / sqrt(n) with a probability of one in a thousand, for a fixed seed.
        assert np.max(np.abs(values - steps)) < 1.95 / math.sqrt(2000)
    # The keys are independent of each other.
    both = np.array([(math.log(point["algorithm.eta"]), point["algorithm.alpha"]) for point in drawn.values()])
    assert abs(np.corrcoef(both.T)[0, 1]) < 0.08


def test_whole_numbers_are_all_as_likely() -> None:
    values = [Range("int", 1, 4).draw(u) for u in np.linspace(0, 1, 400, endpoint=False)]
    assert [values.count(k) for k in range(1, 5)] == [100] * 4


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 5))
@settings(deadline=None, max_examples=25)
def test_a_longer_search_begins_like_a_shorter_one(short: int, more: int, seed: int) -> None:
    drawn = resolve(raw(), {"algorithm.eta": ETA, "algorithm.alpha": ALPHA}, random=True)
    few, many = (drawn.settings("FedDR", count, seed) for count in (short, short + more))
    assert list(many.items())[:short] == list(few.items())
    grid = resolve(raw(), {"algorithm.eta": Choice(tuple(range(1, 41)))}, random=False)
    assert grid.settings("FedDR", short, seed).items() <= grid.settings("FedDR", short + more, seed).items()
    assert len(grid.settings("FedDR", short, seed)) == short


def test_another_key_or_algorithm_leaves_the_draws_of_a_key_as_they_are() -> None:
    one = resolve(raw(TWO), {"algorithm.eta": ETA}, random=True)
    two = resolve(raw(TWO), {"algorithm.alpha": ALPHA, "algorithm.eta": ETA}, random=True)
    etas = [[point["algorithm.eta"] for point in space.settings("FedDR", 9, 0).values()] for space in (one, two)]
    assert etas[0] == etas[1]
    assert etas[0] == [point["algorithm.eta"] for point in one.settings("FedPD", 9, 0).values()]
    assert etas[0] != [point["algorithm.eta"] for point in one.settings("FedPD", 9, 1).values()]


def test_repeated_draws_are_left_out() -> None:
    space = resolve(raw(), {"algorithm.init": Choice(("lazy", "full", "joining"))}, random=True)
    drawn = [point["algorithm.init"] for point in space.settings("FedDR", 20, seed=0).values()]
    assert sorted(drawn) == ["full", "joining", "lazy"]
    narrow = resolve(raw(), {"algorithm.eta": Range("log", 1.0, 1.003)}, random=True).settings("FedDR", 20, seed=0)
    assert sorted(point["algorithm.eta"] for point in narrow.values()) == [1.0, 1.001, 1.002, 1.003]


KEYS = [
    ("algorithm.eta", {"FedDR": ["algorithm.eta"], "FedPD": ["algorithm.eta"], "FedAvg": []}),
    ("algorithm.FedDR.eta", {"FedDR": ["algorithm.eta"], "FedPD": [], "FedAvg": []}),
    ("local.lr", {"FedDR": ["local.lr"], "FedPD": ["local.lr"], "FedAvg": ["local.lr"]}),
    ("algorithm.FedPD.local.lr", {"FedDR": [], "FedPD": ["algorithm.local.lr"], "FedAvg": []}),
    ("g.strength", {"FedDR": ["g.strength"], "FedPD": ["g.strength"], "FedAvg": ["g.strength"]}),
]


@pytest.mark.parametrize(("key", "expected"), KEYS, ids=[key for key, _ in KEYS])
def test_a_key_is_for_the_algorithms_that_set_would_change(key: str, expected: dict[str, list[str]]) -> None:
    space = resolve(raw(THREE), {key: Choice((1.0, 2.0))}, random=False)
    assert {label: list(axes) for label, axes in space.axes.items()} == expected


def test_a_shared_part_does_not_vary_for_an_algorithm_with_its_own() -> None:
    tables = raw(TWO)
    tables["algorithm"][1]["local"] = {"name": "SGD", "lr": 0.5}
    space = resolve(tables, {"local.lr": Choice((0.1, 0.2))}, random=False)
    assert {label: list(axes) for label, axes in space.axes.items()} == {"FedDR": ["local.lr"], "FedPD": []}


def test_the_papers_grid_has_the_published_settings_and_as_many_trials_for_each() -> None:
    for name, axes in GRIDS.items():
        assert math.prod(len(one.values) for one in axes.values() if isinstance(one, Choice)) == TRIALS, name
    published: dict[str, dict[str, list[float]]] = {
        "FedDR": {"eta": [1000, 100], "alpha": [1.95]},
        "FedPD": {"eta": [10, 1]},
        "FedProx": {"mu": [1, 0.1]},
    }
    for name, expected in published.items():
        for setting, values in expected.items():
            ready = GRIDS[name][setting]
            assert isinstance(ready, Choice)
            assert all(any(math.isclose(value, one) for one in ready.values) for value in values)
    assert (MU.low, MU.high, ETA.low, ETA.high, ALPHA.high) == (0.001, 1.0, 1.0, 1000.0, 1.99)
    assert GRIDS.keys() == RANGES.keys()


def test_the_papers_space_is_a_grid_or_draws() -> None:
    grid = plan(raw(THREE), space="paper")
    assert {label: len(tried) for label, tried in grid.settings.items()} == {"FedDR": 16, "FedPD": 16, "FedAvg": 1}
    drawn = plan(raw(THREE), space="paper", trials=5)
    assert drawn.space.random
    assert {label: len(tried) for label, tried in drawn.settings.items()} == {"FedDR": 5, "FedPD": 5, "FedAvg": 1}
    assert list(drawn.settings["FedDR"][0]) == ["algorithm.eta", "algorithm.alpha"]
    mine = plan(raw(), space="paper", grid={"algorithm.eta": [3]})
    assert {point["algorithm.eta"] for point in mine.settings["FedDR"].values()} == {3}
    assert len(mine.settings["FedDR"]) == 4


AXES = [
    ("1,10,100", False, Choice((1, 10, 100))),
    ("lazy, full", False, Choice(("lazy", "full"))),
    ('{name="Uniform", m=5},{name="Full"}', False, Choice(({"name": "Uniform", "m": 5}, {"name": "Full"}))),
    ("log:1:1000:4", False, Choice((1.0, 10.0, 100.0, 1000.0))),
    ("int:1:5:3", False, Choice((1, 3, 5))),
    ("lin:0:1.99", True, Range("lin", 0.0, 1.99)),
    ([0.1, 0.2], True, Choice((0.1, 0.2))),
]


@pytest.mark.parametrize(("given", "random", "expected"), AXES, ids=[str(given) for given, _, _ in AXES])
def test_values_are_read(given: object, random: bool, expected: object) -> None:
    found = axis("key", given, random)
    assert found == expected
    if isinstance(found, Range) or not random:
        assert axis("key", found.spec, isinstance(found, Range)) == found


REFUSED = [
    (
        {"grid": {"algorithm.eta": "log:1:1000"}},
        "algorithm.eta must be log:LOW:HIGH:COUNT in a grid, got log:1:1000; --ra",
    ),
    (
        {"random": {"algorithm.eta": "log:1:1000:4"}, "trials": 3},
        "algorithm.eta must be log:LOW:HIGH in a random search",
    ),
    (
        {"random": {"algorithm.eta": "log:0:10"}, "trials": 3},
        "algorithm.eta needs LOW < HIGH, both positive, got log:0:1",
    ),
    (
        {"random": {"algorithm.eta": "lin:a:b"}, "trials": 3},
        "algorithm.eta must be lin:LOW:HIGH with numbers, got lin:a",
    ),
    ({"random": {"local.epochs": "int:1:2.5"}, "trials": 3}, "local.epochs needs whole numbers for LOW and HIGH, got"),
    ({"grid": {"algorithm.eta": "log:1:10:1"}}, "algorithm.eta needs a COUNT of at least 2, got log:1:10:1."),
    ({"grid": {"algorithm.eta": []}}, "algorithm.eta needs at least one value to try, got none."),
    ({"grid": {"algorithm.eta": [1, 1]}}, "algorithm.eta needs values that differ, got [1, 1]."),
    ({"random": {"algorithm.eta": "log:1:10"}}, "A random search needs --trials"),
    (
        {"grid": {"algorithm.eta": [1]}, "random": {"local.lr": "log:1:2"}},
        "A search is a grid or random, got the grid of",
    ),
    ({"grid": {"seed": [1, 2]}}, "seed cannot vary in a search; --seeds has the seeds."),
    ({"grid": {"algorithm.name": ["FedDR"]}}, "algorithm.name cannot vary in a search; an algorithm is searched"),
    ({"grid": {"algorithm": [{"name": "FedAvg"}]}}, "algorithm cannot vary in a search; an algorithm is searched"),
    ({"grid": {"tune.trials": [1]}}, "tune.trials cannot vary in a search; it is the search."),
    ({"grid": {"a b": [1]}}, "A key to search over is written as for --set, such as algorithm.eta, got a b."),
    ({"grid": {"algorithm.etta": [1, 2]}}, "algorithm.etta is not a setting of FedDR"),
    ({"grid": {"local.lr": ["fast"]}}, 'local.lr must be a number, got "fast".'),
    ({"space": "papers"}, 'space must be one of paper, got "papers".'),
    ({}, "There is nothing to search over; give --grid algorithm.eta=1,10,100"),
    ({"grid": {"algorithm.eta": [1]}, "metric": "personal_train_loss"}, "metric must be one at xbar, F, f, train_loss"),
    ({"grid": {"algorithm.eta": [1]}, "at": "end"}, 'tune.at must be "last" or "best", got "end".'),
    ({"grid": {"algorithm.eta": [1]}, "seeds": [0, 0]}, "seeds must be whole numbers from 0 that differ, got [0, 0]."),
    ({"grid": {"algorithm.eta": [1]}, "trials": 0}, "trials must be at least 1, got 0."),
    ({"grid": 3}, "tune.grid must be a table of keys and values to try, got 3."),
    ({"budget": 3}, "tune.budget is not a setting of a search; it has grid, random"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_searched_is_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan({**raw(TOML), "tune": asked})
    assert str(caught.value).startswith(message)


def test_algorithms_get_as_many_trials_each() -> None:
    grid = {"algorithm.eta": [1, 10], "algorithm.alpha": [1, 1.5, 1.9]}
    with pytest.raises(
        ConfigError, match=r"as many trials each, got FedDR 6, FedPD 2; .* --trials 2 for a part of each"
    ):
        plan(raw(THREE), grid=grid)
    sizes = {label: len(tried) for label, tried in plan(raw(THREE), grid=grid, trials=2).settings.items()}
    assert sizes == {"FedDR": 2, "FedPD": 2, "FedAvg": 1}
    sizes = {label: len(tried) for label, tried in plan(raw(THREE), grid=grid, unequal=True).settings.items()}
    assert sizes == {"FedDR": 6, "FedPD": 2, "FedAvg": 1}


def test_the_table_and_the_command_line_go_together() -> None:
    table = {"random": {"algorithm": {"eta": "log:1:10"}}, "trials": 4, "seeds": [0, 1], "metric": "train_accuracy"}
    search = plan({**raw(), "tune": table})
    assert (search.size, search.metric, search.space.random) == (8, "train_accuracy", True)
    assert list(search.space.axes["FedDR"]) == ["algorithm.eta"]
    replaced = plan({**raw(), "tune": table}, grid={"local.lr": "0.1,0.2,0.3"}, seeds=[5], trials=None)
    assert [(job.number, job.seed, job.settings) for job in replaced.jobs()] == [
        (0, 5, {"local.lr": 0.1}),
        (1, 5, {"local.lr": 0.2}),
        (2, 5, {"local.lr": 0.3}),
    ]


def test_a_setting_that_is_searched_may_be_missing() -> None:
    tables = raw(TWO)
    for table in tables["algorithm"]:
        del table["eta"]
    assert plan(tables, space="paper").size == 32
    with pytest.raises(ConfigError, match=r"algorithm.*eta is missing; FedPD needs it"):
        plan(tables, grid={"algorithm.FedDR.eta": [1, 2]})
