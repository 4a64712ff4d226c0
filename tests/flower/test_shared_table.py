"""Sites agree on one preparation without sharing rows: that of the pooled rows, and the run is the simulated one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Message

import feddr
from feddr import flower
from feddr.flower.run import serve
from feddr.flower.settings import Settings
from tests.flower.fake_grid import Crash, FakeGrid, FakeNode, Fate, fields
from tests.flower.federations import QUIET, deploy, distance, events, populated, xbar_of

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.SGD(lr=0.1, epochs=2, batch_size=5)
SITES = ("bern", "chur", "davos")
SETTINGS: dict[str, Any] = {
    "standardise": True,
    "missing": "median",
    "reference": {"smoker": "never"},
    "test_share": 0.2,
    "stratify": True,
    "seed": 3,
}
TABLE = flower.SharedTable("ill", ["age", "pressure"], ["smoker"], **SETTINGS)
SHARP: dict[str, Any] = {"rounds": 3, "precision": "float64"}


def patients(missing: bool = True) -> pd.DataFrame:
    """Return the patients of three hospitals, the last of which has no smokers, and a column that nobody uses."""
    rng = np.random.default_rng(0)
    frames = []
    for i, (site, size) in enumerate(zip(SITES, (31, 40, 24), strict=True)):
        age = rng.normal(50 + 10 * i, 12, size).round()
        smoker = rng.choice(["never", "daily", "once"][: 3 - (i == 2)], size)
        ill = np.where(rng.random(size) < 1 / (1 + np.exp(-(age - 55) / 10)), "yes", "no")
        frame = pd.DataFrame({"hospital": site, "age": age, "smoker": smoker, "ill": ill, "room": range(size)})
        frame["pressure"] = rng.normal(1e6, 15, size)  # a large mean, so that sums of squares would lose digits
        if missing:
            frame.loc[rng.random(size) < 0.2, "pressure"] = np.nan
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def app(table: flower.SharedTable = TABLE, frame: pd.DataFrame | None = None) -> Any:
    rows = patients() if frame is None else frame

    def read(client: int, context: Any) -> pd.DataFrame:
        del context
        return rows[rows.hospital == SITES[client]].drop(columns="hospital").reset_index(drop=True)

    return flower.client_app(table.problem(read), METHOD, LOCAL)


def run(folder: Path, grid: FakeGrid | None = None, table: flower.SharedTable = TABLE, **more: Any) -> Any:
    grid = FakeGrid() if grid is None else grid
    if not grid.nodes:
        populated(grid, app(table), range(3), folder)
    federation = flower.Federation(table, 3, weights="samples", **more)
    return deploy(grid, federation, METHOD, folder, **SHARP)


def pooled(**more: Any) -> feddr.FederatedData:
    settings = SETTINGS | more
    frame = patients(settings["missing"] == "median").drop(columns="room")
    return feddr.FederatedData.from_frame(frame, "hospital", "ill", ["age", "pressure"], ["smoker"], **settings)


def agreed(folder: Path) -> Any:
    return json.loads((folder / "server/feddr/preparation.json").read_text())["preparation"]


def test_the_preparation_is_that_of_the_pooled_rows(tmp_path: Path) -> None:
    run(tmp_path)
    ours, theirs = agreed(tmp_path), pooled().preparation
    assert theirs is not None
    wanted = theirs.to_dict()
    for name in ("mean", "scale"):
        assert ours.pop(name) == pytest.approx(wanted.pop(name), rel=1e-10)
    assert ours == wanted
    assert [column["median"] for column in ours["columns"][:2]] == [c["median"] for c in wanted["columns"][:2]]
    assert "pressure=missing" in theirs.features


def test_a_deployment_of_tables_is_the_simulation_of_the_pooled_table(tmp_path: Path) -> None:
    """Also the split: client i draws its test rows by itself as it would among all."""
    history = run(tmp_path, evaluation="nodes")
    data = pooled()
    problem = feddr.Problem.classification(feddr.models.linear(len(data.features)), data, weights="samples")
    plain = feddr.reference(problem, METHOD, local=LOCAL, **SHARP)
    assert distance(xbar_of(tmp_path), plain.state.server.xbar) < 1e-6  # features are float32, of means to 1e-16
    assert history.last.test_accuracy == plain.history.last.test_accuracy
    assert pytest.approx(plain.history.last.F, rel=1e-6) == history.last.F


def test_the_folder_predicts_for_raw_rows_as_any_run_does(tmp_path: Path) -> None:
    run(tmp_path)
    predictor = feddr.load(tmp_path / "server/feddr")
    assert predictor.classes == ("no", "yes")
    assert predictor.features == pooled().features
    new = pd.DataFrame({"age": [30.0, 85.0], "pressure": [1e6, None], "smoker": ["never", "daily"]})
    risk = predictor.predict_proba(new)[:, 1]
    assert risk[0] < risk[1]
    assert predictor.coefficients().index.tolist() == [*predictor.features, "intercept"]
    np.testing.assert_allclose(predictor.params["weight"], xbar_of(tmp_path)["xbar.weight"], rtol=1e-12)


def test_no_row_leaves_its_site(tmp_path: Path) -> None:
    """What nodes answer before the first update: statistics, and counts, whose number does not grow with the rows."""
    replies: list[Any] = []

    def spy(node: FakeNode, message: Message) -> Fate:
        del node

        def change(reply: Message) -> Message:
            if message.metadata.message_type == "query.table":
                replies.append(json.loads(str(fields(reply)["text"])))
            return reply

        return Fate(change=change)

    run(tmp_path, FakeGrid(fate=spy))
    statistics = [reply for reply in replies if "numeric" in reply]
    assert len(statistics) == 3
    assert {len(site["numeric"]["age"]) for site in statistics} == {4}
    counts = [reply for reply in replies if "numeric" not in reply]
    assert len(counts) == 3 * 16
    assert all(set(reply) == {"age", "pressure"} and len(reply["age"]) == 30 for reply in counts)
    assert "room" not in json.dumps(replies)
    assert [event["what"] for event in events(tmp_path, "answered")] == ["statistics", *["counts"] * 16]


def test_answers_that_are_lost_or_wrong_are_asked_for_again(tmp_path: Path) -> None:
    seen: list[int] = []

    def fate(node: FakeNode, message: Message) -> Fate:
        if message.metadata.message_type != "query.table":
            return Fate()
        seen.append(node.client)
        wrong = {0: Fate(error=2), 1: Fate(change=garbled)}.get(node.client)
        return wrong if wrong is not None and seen.count(node.client) == 1 else Fate()

    def garbled(reply: Message) -> Message:
        fields(reply)["text"] = '{"numeric": {"age": [1, 0, 1e999, 0]}, "categorical": {}, "classes": []}'
        return reply

    run(tmp_path, FakeGrid(fate=fate))
    run(tmp_path / "calm")
    assert agreed(tmp_path) == agreed(tmp_path / "calm")
    assert [event["client"] for event in events(tmp_path, "table_refused")] == [0, 1]


def test_a_server_that_is_killed_asks_again_or_not_at_all(tmp_path: Path) -> None:
    grid = populated(FakeGrid(), app(), range(3), tmp_path)
    grid.crash_at(12)
    ordinary = type(grid).pull_messages
    with pytest.raises(Crash):
        run(tmp_path, grid)
    assert not (tmp_path / "server/feddr/preparation.json").exists()
    grid.pull_messages = ordinary.__get__(grid)  # type: ignore[method-assign]
    grid.restart_server()
    run(tmp_path, grid)
    before = len(grid.worked)
    federation = flower.Federation(TABLE, 3, weights="samples")
    deploy(grid, federation, METHOD, tmp_path, **(SHARP | {"rounds": 4}))
    assert not [kind for _, _, kind in grid.worked[before:] if kind == "query.table"]
    plain = tmp_path / "plain"
    deploy(populated(FakeGrid(), app(), range(3), plain), federation, METHOD, plain, **(SHARP | {"rounds": 4}))
    assert distance(xbar_of(tmp_path), {k[5:]: v for k, v in xbar_of(plain).items()}) == 0.0


def test_another_table_is_refused_when_a_run_resumes_and_by_nodes(tmp_path: Path) -> None:
    run(tmp_path)
    other = flower.SharedTable("ill", ["age"], ["smoker"], **SETTINGS)
    with pytest.raises(ValueError, match="resumed with the table that it began with"):
        run(tmp_path, FakeGrid(), other)
    grid = populated(FakeGrid(), app(), range(3), tmp_path)
    with pytest.raises(flower.Abandoned, match="must have the same SharedTable"):
        run(tmp_path / "new", grid, other)


@pytest.mark.parametrize("side", ["server", "nodes"])
def test_one_side_alone_cannot_have_a_table(tmp_path: Path, side: str) -> None:
    grid = FakeGrid()
    if side == "nodes":
        populated(grid, app(), range(3), tmp_path)
        federation = flower.Federation(feddr.models.linear(4).init(0), 3)
    else:

        def nothing(client: int, context: Any) -> feddr.Problem:
            raise AssertionError((client, context))  # is not asked for its problem

        plain = flower.client_app(nothing, METHOD, LOCAL)
        populated(grid, plain, range(3), tmp_path)
        federation = flower.Federation(TABLE, 3)
    with pytest.raises(flower.Abandoned, match="SharedTable"):
        deploy(grid, federation, METHOD, tmp_path, **SHARP)


def test_a_site_with_few_rows_tells_nothing(tmp_path: Path) -> None:
    rows = patients()
    few = pd.concat([rows[rows.hospital != "chur"], rows[rows.hospital == "chur"].head(9)])
    grid = populated(FakeGrid(), app(frame=few), range(3), tmp_path)
    with pytest.raises(flower.Abandoned, match=r"at least 10 training rows.*client 1 has 7"):
        run(tmp_path, grid)


def test_a_run_waits_for_tables_no_longer_than_its_patience(tmp_path: Path) -> None:
    grid = populated(FakeGrid(), app(), range(2), tmp_path)
    settings = Settings(folder=tmp_path, patience=30.0, **SHARP)
    with pytest.raises(flower.Abandoned, match=r"statistics of every client, \[2\] have not answered within 30 s"):
        serve(grid, flower.Federation(TABLE, 3), METHOD, feddr.sampling.Full(), settings, grid.clock, QUIET)


def test_regression_and_several_classes(tmp_path: Path) -> None:
    """The model follows from what is to be predicted, unless it is given."""
    more: dict[str, Any] = {"standardise": True}
    number = flower.SharedTable("age", ["pressure"], regression=True, **more)
    rows = patients(missing=False)
    grid = populated(FakeGrid(), app(number, rows), range(3), tmp_path)
    deploy(grid, flower.Federation(number, 3), METHOD, tmp_path, **SHARP)
    predictor = feddr.load(tmp_path / "server/feddr")
    assert predictor.task == "regression"
    assert predictor.predict(rows.head(2)).shape == (2,)
    words = flower.SharedTable("smoker", ["age"], **more, model=lambda p: feddr.models.mlp([len(p.features), 4, 3]))
    place = tmp_path / "words"
    grid = populated(FakeGrid(), app(words, rows), range(3), place)
    deploy(grid, flower.Federation(words, 3), METHOD, place, **SHARP)
    assert feddr.load(place / "server/feddr").classes == ("daily", "never", "once")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"numeric": "age"}, "numeric must be a list of columns, got 'age'"),
        ({"numeric": []}, "needs columns to predict from, got none"),
        ({"test_share": 0.6, "validation_share": 0.5}, "must leave some for training"),
        ({"regression": True, "stratify": True}, "stratify needs classes"),
    ],
)
def test_tables_that_cannot_be_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        flower.SharedTable(**({"label": "ill", "numeric": ["age"]} | wrong))
