"""Runs as their users see them: rounds with deadlines, nodes that report, history, log and bytes."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.clientapp.mod import LocalDpMod
from safetensors.numpy import load_file

import feddr
from feddr import flower, plots, tree
from feddr.compress import Nonzero, Quantised, Rounded
from feddr.engines.shared.evaluation import Evaluator
from feddr.flower import run as running
from feddr.flower import wire
from feddr.flower.journal import Journal
from feddr.flower.membership import LONGEST_PAUSE, Pauses
from feddr.storage import tensors
from tests.flower.fake_grid import Clock, FakeGrid, FakeNode, Fate, fields
from tests.flower.federations import (
    app_for,
    classes,
    deploy,
    distance,
    events,
    federation_of,
    lasso,
    populated,
    xbar_of,
)

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)
TWO = feddr.sampling.Uniform(2)


def slow_two(node: FakeNode, message: Message) -> Fate:
    slow = node.client == 2 and message.metadata.message_type == "train"
    return Fate(delay=100.0 if slow else 1.0)


def run(folder: Path, grid: FakeGrid, method: Any = METHOD, federation: Any = None, **more: Any) -> feddr.History:
    problem = lasso()
    populated(grid, app_for(problem, method, LOCAL), range(3), folder)
    arguments: dict[str, Any] = {"rounds": 3, "precision": "float64"}
    return deploy(grid, federation or federation_of(problem), method, folder, **(arguments | more))


class FirstTwo:
    """The first two clients, always."""

    def check(self, n: int) -> None:
        assert n > 2

    def draw(self, n: int, rng: np.random.Generator) -> Any:
        del n, rng
        return np.arange(2)

    def probabilities(self, n: int) -> Any:
        return np.ones(n)


def test_a_round_ends_at_its_deadline_and_who_is_late_stays_as_it_was(tmp_path: Path) -> None:
    """Then the run is that of the others; the late client is asked anew in each round and never gets further."""
    run(tmp_path, FakeGrid(fate=slow_two), deadline=10.0, rounds=4)
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {0: 4, 1: 4}
    plain = feddr.reference(lasso(), METHOD, local=LOCAL, sampling=FirstTwo(), rounds=4, precision="float64")
    assert distance(xbar_of(tmp_path), plain.state.server.xbar) < 1e-12


def test_a_round_waits_beyond_its_deadline_for_enough_replies(tmp_path: Path) -> None:
    grid = FakeGrid(fate=slow_two)
    run(tmp_path, grid, deadline=10.0, min_replies=3)
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {0: 3, 1: 3, 2: 3}
    assert grid.clock.now() > 300


def test_a_round_waits_for_nodes_that_come_late(tmp_path: Path) -> None:
    grid = FakeGrid()
    app = app_for(lasso(), METHOD, LOCAL)
    sleep = grid.clock.sleep

    def arrive(seconds: float) -> None:
        sleep(seconds)
        if len(grid.nodes) < 3 and grid.clock.now() > 20 * (1 + len(grid.nodes)):
            client = len(grid.nodes)
            grid.add(client, app, tmp_path / f"disk-{client}")

    grid.clock.sleep = arrive  # type: ignore[method-assign]
    deploy(grid, federation_of(lasso()), METHOD, tmp_path, rounds=2, precision="float64")
    plain = feddr.reference(lasso(), METHOD, local=LOCAL, rounds=2, precision="float64")
    assert distance(xbar_of(tmp_path), plain.state.server.xbar) < 1e-12


def test_empty_rounds_change_nothing(tmp_path: Path) -> None:
    sampling = feddr.sampling.DoublyUniform([0.5, 0.5])
    history = run(tmp_path, FakeGrid(), rounds=8, sampling=sampling)
    plain = feddr.reference(lasso(), METHOD, local=LOCAL, sampling=sampling, rounds=8, precision="float64")
    assert distance(xbar_of(tmp_path), plain.state.server.xbar) < 1e-12
    assert len(history) == 9


def test_weights_from_the_nodes_samples(tmp_path: Path) -> None:
    problem = classes()
    grid = populated(FakeGrid(), app_for(problem, METHOD, LOCAL), range(4), tmp_path)
    deploy(grid, federation_of(problem), METHOD, tmp_path, rounds=1, precision="float64")
    assert flower.read_run(tmp_path / "server" / "feddr").weights == problem.client_weights.tolist()
    assert [event["samples"] for event in events(tmp_path, "node")] == problem.data.train.sizes.tolist()


def test_nodes_keep_their_numbers_of_samples_to_themselves_unless_asked(tmp_path: Path) -> None:
    run(tmp_path, FakeGrid(), rounds=1)
    assert all("samples" not in event for event in events(tmp_path, "node"))


def test_a_run_waits_for_samples_no_longer_than_its_patience(tmp_path: Path) -> None:
    federation = flower.Federation(np.zeros(6), 3, feddr.prox.L1(0.3), "samples")
    grid = FakeGrid()
    grid.add(1, app_for(lasso(), METHOD, LOCAL), tmp_path)
    with pytest.raises(flower.Abandoned, match=r"clients \[0, 2\] were not heard from"):
        deploy(grid, federation, METHOD, tmp_path, patience=60.0)


@pytest.mark.parametrize("where", ["server", "nodes"])
def test_metrics_of_server_and_nodes_are_those_of_the_simulator(tmp_path: Path, where: str) -> None:
    problem = classes()
    evaluation: Any = problem if where == "server" else "nodes"
    federation = flower.Federation(problem.init, 4, None, "samples", evaluation)
    grid = populated(FakeGrid(), app_for(problem, METHOD, LOCAL), range(4), tmp_path)
    history = deploy(grid, federation, METHOD, tmp_path, rounds=4, precision="float64", evaluate_every=2)
    xbar = xbar_of(tmp_path)
    template = tree.cast(problem.init, np.float64)
    model = tensors.restore(template, {key.removeprefix("xbar."): array for key, array in xbar.items()})
    expected = Evaluator(problem, np.float64).at(model)
    for name in ("F", "f", "train_loss", "train_accuracy", "test_accuracy", "sparsity"):
        assert getattr(history.last, name) == pytest.approx(expected[name], rel=1e-9), name
    assert np.isnan(history.last.gradient_mapping) == (where == "nodes")
    assert feddr.History.from_csv(tmp_path / "server" / "feddr" / "history.csv").last.F == history.last.F


def test_a_row_stays_open_where_a_node_does_not_report(tmp_path: Path) -> None:
    federation = flower.Federation(np.zeros(6), 3, feddr.prox.L1(0.3), evaluation="nodes")

    def silent(node: FakeNode, message: Message) -> Fate:
        return Fate(error=2 if node.client == 1 and message.metadata.message_type == "evaluate" else 0)

    history = run(tmp_path, FakeGrid(fate=silent), federation=federation)
    assert all(np.isnan(row.F) for row in history.rows)
    assert not any(np.isnan(row.g) for row in history.rows)


def test_bytes_are_those_of_the_messages(tmp_path: Path) -> None:
    grid = FakeGrid()
    history = run(tmp_path, grid)
    tasks = [message for message in grid.sent if message.metadata.message_type == "train"]
    assert history.last.bytes_down == sum(wire.size(message.content) for message in tasks)
    assert len(tasks) == 9
    assert 9 * (6 * 8) < history.last.bytes_up < 9 * 1000


def test_a_sparse_xbar_travels_sparse(tmp_path: Path) -> None:
    """g = ||x|| with a large strength keeps xbar at zero: a broadcast of six zeros takes no byte for them."""
    federation = flower.Federation(np.zeros(6), 3, feddr.prox.L1(1e3))
    run(tmp_path, FakeGrid(), federation=federation)
    run(tmp_path / "dense", FakeGrid(), federation=federation, broadcast="dense")
    assert {event["form"] for event in events(tmp_path, "sent")} == {"sparse"}
    assert {event["form"] for event in events(tmp_path / "dense", "sent")} == {"dense"}
    saved = events(tmp_path / "dense", "sent")[0]["bytes"] - events(tmp_path, "sent")[0]["bytes"]
    assert saved == 128 + 6 * 8  # no header, no numbers, no indices


def test_a_client_that_fails_for_days_has_the_longest_pause() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    for _ in range(2000):
        pauses.failed(1)
    assert pauses.until[1] == clock.now() + LONGEST_PAUSE


@pytest.mark.parametrize("download", [Rounded("float16"), Quantised(8), Nonzero(Rounded("bfloat16"))], ids=str)
def test_rounded_broadcasts_are_those_of_the_simulation(tmp_path: Path, download: Any) -> None:
    """To the last bit, with uploads of 4 bits; the books are exact, and bytes those of the messages."""
    method = dataclasses.replace(METHOD, upload=Quantised(4), download=download)
    grid = populated(FakeGrid(), app_for(lasso(), method, LOCAL), range(3), tmp_path)
    deploy(grid, federation_of(lasso()), method, tmp_path, TWO, rounds=5, seed=3, precision="float64")
    assert flower.audit(tmp_path / "server" / "feddr", method, federation_of(lasso())) <= 1e-15
    result = feddr.simulate(lasso(), method, local=LOCAL, sampling=TWO, rounds=5, seed=3, precision="float64")
    assert distance(xbar_of(tmp_path), result.state.server.xbar) == 0
    sent = events(tmp_path, "sent")
    assert {event["form"] for event in sent} == {repr(download)}
    tasks = [message.content for message in grid.sent if message.metadata.message_type == "train"]
    coded = sum(len(array.data) for task in tasks for array in task.array_records["arrays"].values())
    assert coded == result.history.last.bytes_down
    assert [event["bytes"] for event in sent] == list(map(wire.size, tasks))


def test_the_folder_of_a_run_is_like_that_of_a_simulated_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    federation = federation_of(lasso(), evaluation=lasso())
    run(tmp_path, FakeGrid(), federation=federation, rounds=1)
    place = tmp_path / "server" / "feddr"
    assert {"history.csv", "model.safetensors", "settings.json", "curves.png", "log.jsonl"} <= {
        path.name for path in place.iterdir()
    }
    model = load_file(place / "model.safetensors")["x"]
    np.testing.assert_array_equal(model, xbar_of(tmp_path)["xbar"])
    history = feddr.History.from_csv(place / "history.csv")
    assert lasso().F(model) == pytest.approx(history.last.F, rel=1e-9)
    assert plots.curves({"deployed": history}) is not None
    assert json.loads((place / "settings.json").read_text())["engine"] == "flower"


def test_a_run_of_which_nothing_is_measured_ends_well_without_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do private and secure runs, whose nodes tell no metrics; the log ends when all files are there."""
    written: list[set[str]] = []
    log = Journal.write

    def write(journal: Journal, event: str, **more: Any) -> None:
        if event == "end":
            written.append({path.name for path in journal.path.parent.iterdir()})
        log(journal, event, **more)

    monkeypatch.undo()
    monkeypatch.setattr(Journal, "write", write)
    problem = dataclasses.replace(lasso(), g=None)
    grid = populated(FakeGrid(), app_for(problem, METHOD, LOCAL), range(3), tmp_path)
    history = deploy(grid, federation_of(problem), METHOD, tmp_path, rounds=1)
    assert (history.last.round, math.isnan(history.last.F)) == (1, True)
    (names,) = written
    assert {"history.csv", "model.safetensors", "settings.json"} <= names
    assert "curves.png" not in names


def test_local_differential_privacy_fits_in_and_the_books_balance(tmp_path: Path) -> None:
    """The mod clips and adds noise to what leaves; the server counts exactly what arrives."""
    mod = LocalDpMod(clipping_norm=5.0, sensitivity=0.1, epsilon=10.0, delta=0.1)
    for form, accepted in (("dense", 9), ("auto", 0)):
        folder = tmp_path / form
        grid = populated(FakeGrid(), app_for(lasso(), METHOD, LOCAL, mods=[mod]), range(3), folder)
        arguments: dict[str, Any] = {"rounds": 3, "precision": "float64", "broadcast": form, "patience": 30.0}
        if form == "dense":
            deploy(grid, federation_of(lasso()), METHOD, folder, **arguments)
            assert flower.audit(folder / "server" / "feddr", METHOD, federation_of(lasso())) <= 1e-12
            quiet = feddr.reference(lasso(), METHOD, local=LOCAL, rounds=3, precision="float64")
            assert 0 < distance(xbar_of(folder), quiet.state.server.xbar) < 1.0
        else:
            with pytest.raises(flower.Abandoned):
                deploy(grid, federation_of(lasso()), METHOD, folder, **arguments)
        assert len(events(folder, "accepted")) == accepted


def test_nodes_that_do_not_belong_are_left_out(tmp_path: Path) -> None:
    grid = FakeGrid()
    app = app_for(lasso(), METHOD, LOCAL)
    grid.add(7, app, tmp_path / "stranger")
    populated(grid, app, range(3), tmp_path)
    grid.add(1, app, tmp_path / "twin")
    run(tmp_path, grid)
    refused = events(tmp_path, "node_refused")
    assert {event["reason"] for event in refused} == {"unknown"}
    assert "clients are 0 to 2, got partition-id=7" in refused[0]["detail"]
    assert [event["client"] for event in events(tmp_path, "spare")].count(1) >= 1
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {0: 3, 1: 3, 2: 3}


def test_a_node_with_another_algorithm_or_start_is_told_so(tmp_path: Path) -> None:
    grid = populated(FakeGrid(), app_for(lasso(), feddr.FedDR(eta=0.7), LOCAL), range(3), tmp_path)
    with pytest.raises(
        flower.Abandoned, match=r"Every client has failed 5 times.*the same algorithm and the same start"
    ):
        deploy(grid, federation_of(lasso()), METHOD, tmp_path)
    other = feddr.Problem(lasso().loss, lasso().data, np.ones(6))
    grid = populated(FakeGrid(), app_for(other, METHOD, LOCAL), range(3), tmp_path)
    with pytest.raises(flower.Abandoned, match="the same start"):
        deploy(grid, federation_of(lasso()), METHOD, tmp_path)


def test_a_run_ends_when_its_patience_is_over(tmp_path: Path) -> None:
    with pytest.raises(flower.Abandoned, match=r"No update was accepted for 50 s, waiting for clients \[0, 1, 2\]"):
        deploy(FakeGrid(), federation_of(lasso()), METHOD, tmp_path, patience=50.0)


def test_the_apps_in_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower would call, with values that depend on the run config; $FEDDR_HOME says where files lie."""
    grid = FakeGrid(config={"eta": 0.5, "feddr.rounds": 2, "feddr.name": "ten-lines"})
    monkeypatch.setenv("FEDDR_HOME", str(tmp_path))
    monkeypatch.setattr(running, "Monotonic", lambda: grid.clock)

    def method(context: Context) -> feddr.FedDR:
        return feddr.FedDR(eta=float(context.run_config["eta"]))

    server = flower.server_app(lambda _: federation_of(lasso()), method, sampling=lambda _: TWO)
    populated(grid, app_for(lasso(), method, lambda _: LOCAL), range(3), tmp_path)  # type: ignore[arg-type]
    server(grid, Context(1, 1, {}, RecordDict(), grid.config))
    assert flower.read_run(tmp_path / "server" / "ten-lines").version == 2


def test_the_log_tells_the_story(tmp_path: Path) -> None:
    run(tmp_path, FakeGrid(), rounds=1)
    story = [event["event"] for event in events(tmp_path)]
    assert story[:2] == ["start", "audit"]
    assert story[-2:] == ["audit", "end"]
    assert {"node", "sent", "accepted", "step", "row"} <= set(story)
    assert all(event["time"].endswith("Z") for event in events(tmp_path))


def test_update_numbers_follow_each_client(tmp_path: Path) -> None:
    grid = FakeGrid()
    run(tmp_path, grid, sampling=TWO, rounds=6)
    for client in range(3):
        tasks = [fields(one) for one in grid.sent if one.metadata.message_type == "train"]
        told = [task["accepted"] for task in tasks if task["client"] == client]
        assert told == list(range(len(told)))
