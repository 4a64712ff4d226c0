"""The search: the best is the best mean, and one that is interrupted and resumed is one that was not."""

import math
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr import config
from feddr.config import ConfigError
from feddr.tune import RunRecord, RunSpec, Store, best, execute, plan, rank, run, serial, tune
from feddr.tune.jobs import record
from feddr.tune.output import save_best, save_runs, save_trials
from feddr.tune.plan import together
from feddr.tune.ranking import edges
from tests.tune.small_searches import TWO, bowl, made_up, raw

GRID: dict[str, Any] = {"grid": {"algorithm.eta": [1, 9, 11, 100]}, "seeds": [0, 1]}


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=6), st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_best_is_the_best_mean_over_the_seeds(values: list[list[float]], largest: bool) -> None:
    metric = "train_accuracy" if largest else "F"
    grid = {"algorithm.eta": list(range(1, len(values) + 1))}
    search = plan(raw(), grid=grid, seeds=[4, 5, 6], metric=metric)
    records = {one.key: record(one, "finished", value=values[one.number][one.seed - 4]) for one in search.jobs()}
    standings = rank(search, records)["FedDR"]
    means = [statistics.fmean(row) for row in values]
    winner = standings[0]
    assert winner.number == means.index(max(means) if largest else min(means))
    assert winner.spread == pytest.approx(statistics.stdev(values[winner.number]))
    assert [one.rank for one in standings] == list(range(1, len(values) + 1))
    ordered = [one.mean or 0.0 for one in standings]
    assert ordered == sorted(ordered, reverse=largest)


def test_a_trial_with_a_seed_that_diverged_is_not_the_best() -> None:
    search = plan(raw(), **GRID)
    records = {one.key: record(one, "finished", value=bowl(one)) for one in search.jobs()}
    first = rank(search, records)["FedDR"][0]
    broken = search.job("FedDR", first.number, 1)
    records[broken.key] = record(broken, "diverged", round=1)
    ranking = rank(search, records)
    assert ranking["FedDR"][0].number != first.number
    assert (ranking["FedDR"][-1].number, ranking["FedDR"][-1].rank) == (first.number, None)
    assert ranking["FedDR"][-1].trouble == "1 diverged"


def test_a_search_that_was_interrupted_resumes_to_the_same_end(tmp_path: Path) -> None:
    whole = tune(raw(TWO), tmp_path / "whole", made_up(), **GRID)
    seen: list[tuple[str, int, int]] = []
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            tune(raw(TWO), tmp_path / "cut", made_up(most=3, seen=seen), **GRID)
    assert tune(raw(TWO), tmp_path / "cut", made_up(seen=seen), **GRID) == whole
    assert len(seen) == len(set(seen)) == 16
    assert tune(raw(TWO), tmp_path / "cut", made_up(most=0), **GRID) == whole  # nothing is left to do


def test_a_cut_search_has_been_fair(tmp_path: Path) -> None:
    search = plan(raw(TWO), **GRID)
    with Store(_new(tmp_path), search) as store:
        count = iter(range(100))
        run(search, store, made_up(), stopping=lambda: next(count) == 8)
        done = sorted(store.records)
    # No more are begun when it is to stop; both algorithms have got as far.
    assert done == [(label, number, seed) for label in ("FedDR", "FedPD") for number in (0, 1) for seed in (0, 1)]


@pytest.mark.parametrize("bytes_left", [0, 1, 40, -1])
def test_a_line_that_was_cut_is_run_again(tmp_path: Path, bytes_left: int) -> None:
    whole = tune(raw(), tmp_path, made_up(), **GRID)
    path = tmp_path / "runs.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:bytes_left])
    seen: list[tuple[str, int, int]] = []
    assert tune(raw(), tmp_path, made_up(seen=seen), **GRID) == whole
    assert len(seen) == 1
    assert path.read_bytes() == b"".join(lines)


def test_a_damaged_line_is_refused(tmp_path: Path) -> None:
    tune(raw(), tmp_path, made_up(), **GRID)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(ConfigError, match=r"runs\.jsonl, line 1 is not a record of a run"):
        tune(raw(), tmp_path, made_up(), **GRID)


def test_more_trials_and_seeds_reuse_what_is_there(tmp_path: Path) -> None:
    options: dict[str, Any] = {"random": {"algorithm.eta": "log:1:1000"}}
    seen: list[tuple[str, int, int]] = []
    tune(raw(), tmp_path, made_up(seen=seen), trials=3, seeds=[0], **options)
    longer = tune(raw(), tmp_path, made_up(seen=seen), trials=5, seeds=[0, 1], **options)
    assert len(seen) == len(set(seen)) == 10
    assert longer == tune(raw(), _new(tmp_path), made_up(), trials=5, seeds=[0, 1], **options)


def test_failed_runs_are_tried_again_and_others_are_not(tmp_path: Path) -> None:
    def unlucky(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        for one, status in zip(jobs, ("failed", "diverged", "refused"), strict=False):
            yield record(one, status)  # type: ignore[arg-type]

    search = plan(raw(), grid={"algorithm.eta": [1, 2, 3]})
    with Store(_new(tmp_path), search) as store:
        run(search, store, unlucky)
        seen: list[tuple[str, int, int]] = []
        run(search, store, made_up(seen=seen))
        assert seen == [("FedDR", 0, 0)]
        assert store.records["FedDR", 0, 0].status == "finished"


CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"rounds": 9}, {}, "rounds was 3 and is 9"),
    ({"weights": "samples"}, {}, 'weights was not there and is "samples"'),
    ({"local": {"name": "SGD", "lr": 0.5}}, {}, "local.lr was 0.01 and is 0.5"),
    ({}, {"metric": "f"}, 'metric was "F" and is "f"'),
    ({}, {"at": "best"}, 'at was "last" and is "best"'),
    ({}, {"grid": {"algorithm.eta": [1, 9, 11]}}, "FedDR.algorithm.eta was [1, 9, 11, 100] and is [1, 9, 11]"),
    ({"algorithm": [{"name": "FedDR", "eta": 2.0}]}, {}, "algorithm.FedDR.eta was 1.0 and is 2.0"),
]


@pytest.mark.parametrize(("tables", "options", "message"), CHANGES, ids=[message[:25] for _, _, message in CHANGES])
def test_another_search_is_refused(
    tmp_path: Path, tables: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    tune(raw(), tmp_path, made_up(), **GRID)
    with pytest.raises(ConfigError) as caught:
        tune({**raw(), **tables}, tmp_path, made_up(), **{**GRID, **options})
    assert str(caught.value) == f"{tmp_path} holds another search: {message}; use a new --out, or the old settings."


def test_two_searches_do_not_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    search = plan(raw(), **GRID)
    with Store(tmp_path, search), pytest.raises(ConfigError, match="is in use by another search"):
        Store(tmp_path, search)
    with Store(tmp_path, search):
        assert sorted(os.listdir(tmp_path)) == ["runs.jsonl", "search.json"]


def test_bad_trials_do_not_end_a_search(tmp_path: Path) -> None:
    options: dict[str, Any] = {"grid": {"algorithm.alpha": [1, 3], "local.lr": [0.01, 1e38]}}
    standings = tune(raw(), tmp_path, serial, **options)["FedDR"]
    assert [one.rank for one in standings] == [1, None, None, None]
    assert [one.trouble for one in standings] == ["", "1 diverged", "1 refused", "1 refused"]
    assert standings[0].settings == {"algorithm.alpha": 1, "local.lr": 0.01}


def test_the_best_settings_are_a_config_that_gives_the_best_value(tmp_path: Path) -> None:
    tables = raw(TWO)
    options: dict[str, Any] = {"grid": {"algorithm.FedDR.eta": [1, 5], "local.lr": [0.03]}, "unequal": True}
    search = plan(tables, **options)
    ranking = tune(tables, tmp_path, serial, **options)
    (path,) = save_best(tmp_path, search, ranking)
    found = config.load(path)
    assert [method.label for method in found.algorithms] == ["FedDR", "FedPD"]
    for one, method in zip(best(ranking).values(), found.algorithms, strict=True):
        local = method.local or found.local
        assert local is not None
        assert local.arguments["lr"] == one.settings["local.lr"]
        again = execute(RunSpec(one.algorithm, 0, 0, {}, _alone(path, method.label), "F", "last"))
        assert again.value == one.mean
    # Another seed draws other data, as with the config that it was made from.
    assert config.load(path, ["seed=7"]).data.arguments["seed"] == 7


def test_best_settings_that_exclude_each_other_have_a_config_each(tmp_path: Path) -> None:
    search = plan(raw(TWO), grid={"rounds": [1, 2]})
    assert together(search.raw, {"FedDR": {"rounds": 1}, "FedPD": {"rounds": 2}}) is None
    agreed = together(search.raw, {"FedDR": {"rounds": 2}, "FedPD": {"rounds": 2}})
    assert agreed is not None
    assert config.parse(agreed).rounds == 2
    values = {("FedDR", 0): 1.0, ("FedDR", 1): 2.0, ("FedPD", 0): 2.0, ("FedPD", 1): 1.0}
    records = {one.key: record(one, "finished", value=values[one.algorithm, one.number]) for one in search.jobs()}
    paths = save_best(tmp_path, search, rank(search, records))
    assert [path.name for path in paths] == ["best-FedDR.toml", "best-FedPD.toml"]
    assert [config.load(path).rounds for path in paths] == [1, 2]


def test_twins_keep_their_labels(tmp_path: Path) -> None:
    tables = raw(TWO)
    tables["algorithm"] = [{"name": "FedDR", "eta": 1.0}, {"name": "FedDR", "eta": 2.0}]
    search = plan(tables, grid={"algorithm.alpha": [1, 1.5]})
    labels = ["FedDR eta=1.0", "FedDR eta=2.0"]
    assert list(search.settings) == labels
    records = {one.key: record(one, "finished", value=float(one.number)) for one in search.jobs()}
    (path,) = save_best(tmp_path, search, rank(search, records))
    assert [method.label for method in config.load(path).algorithms] == labels
    assert [method.algorithm.arguments["eta"] for method in config.load(path).algorithms] == [1.0, 2.0]


def test_tables_have_every_run_and_every_trial(tmp_path: Path) -> None:
    import csv

    search = plan(raw(TWO), **GRID)
    ranking = tune(raw(TWO), tmp_path, made_up(), **GRID)
    save_runs(tmp_path / "runs.csv", search, ranking)
    save_trials(tmp_path / "trials.csv", search, ranking)
    with open(tmp_path / "runs.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 16
    for row in runs:
        assert float(row["value"]) == (float(row["eta"]) - 10) ** 2 + 0.5 * int(row["seed"])
    with open(tmp_path / "trials.csv", newline="") as file:
        trials = list(csv.DictReader(file))
    assert [(row["algorithm"], row["rank"], row["eta"], row["mean"]) for row in trials[:2]] == [
        ("FedDR", "1", "9", "1.25"),
        ("FedDR", "2", "11", "1.25"),
    ]
    assert math.isclose(float(trials[0]["spread"]), 0.5 / math.sqrt(2))


def test_a_best_value_at_the_edge_is_mentioned() -> None:
    search = plan(raw(), grid={"algorithm.eta": [1, 2, 9], "algorithm.alpha": [1, 1.5]})
    records = {one.key: record(one, "finished", value=bowl(one)) for one in search.jobs()}
    lines = edges(search, best(rank(search, records)))
    assert lines == ["FedDR: eta=9 is the largest of its grid; the best may lie beyond."]


def _new(folder: Path) -> Path:
    made = folder / "new"
    made.mkdir()
    return made


def _alone(path: Path, label: str) -> dict[str, Any]:
    tables = config.read(path)
    return {**tables, "algorithm": [table for table in tables["algorithm"] if table["name"] == label]}
