"""Asynchronous runs on the fake grid: a step for each arrival, the newest xbar back at once, the pooled solution."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

import feddr
from feddr import flower
from feddr.engines.shared.aggregation import WeightedUpload, weighted_sum
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.randomness import client_rng
from feddr.flower import wire
from feddr.flower.ledger import Ledger
from feddr.prox.compiled import compiled_prox
from tests.flower.fake_grid import Crash, FakeGrid, FakeNode, Fate, fields
from tests.flower.federations import (
    app_for,
    deploy,
    distance,
    events,
    federation_of,
    lasso,
    lasso_solution,
    parts,
    populated,
    xbar_of,
)

EXACT = feddr.local.Accelerated(tol=1e-9)
SPEEDS = (1.0, 2.3, 5.1)


def paced(node: FakeNode, message: Message) -> Fate:
    del message
    return Fate(delay=SPEEDS[node.client])


def run(folder: Path, algorithm: Any, grid: FakeGrid | None = None, **more: Any) -> FakeGrid:
    grid = FakeGrid(fate=paced) if grid is None else grid
    populated(grid, app_for(lasso(), algorithm, EXACT), range(3), folder)
    arguments: dict[str, Any] = {"rounds": 150, "seed": 0, "precision": "float64", "evaluate_every": 50}
    deploy(grid, federation_of(lasso()), algorithm, folder, **(arguments | more))
    return grid


@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(feddr.AsyncFedDR(eta=1.0, alpha=0.9), marks=pytest.mark.slow, id="one by one"),
        pytest.param(feddr.AsyncFedDR(eta=1.0, alpha=0.9, init="full", buffer=2), id="two at a time"),
    ],
)
def test_clients_of_different_speeds_reach_the_pooled_solution(tmp_path: Path, algorithm: feddr.AsyncFedDR) -> None:
    run(tmp_path, algorithm)
    books = flower.read_run(tmp_path / "server" / "feddr")
    assert distance(xbar_of(tmp_path), lasso_solution()) < 1e-4  # it began 0.7 away
    assert flower.audit(tmp_path / "server" / "feddr", algorithm, federation_of(lasso())) <= 1e-12
    start_up = 3 if algorithm.full_start else 0
    assert sum(books.numbers.values()) == 150 * algorithm.buffer + start_up
    assert books.version == 150
    assert books.numbers[0] > books.numbers[1] > books.numbers[2] > 10


def test_each_arrival_is_a_step_and_its_client_gets_the_new_xbar_at_once(tmp_path: Path) -> None:
    algorithm = feddr.AsyncFedDR(eta=1.0, alpha=0.9)
    grid = run(tmp_path, algorithm, rounds=20)
    log = [event for event in events(tmp_path) if event["event"] in ("accepted", "step", "sent")]
    arrivals = [k for k, event in enumerate(log) if event["event"] == "accepted"]
    for k in arrivals[:-1]:
        accepted, step, sent = log[k : k + 3]
        assert (step["event"], sent["event"]) == ("step", "sent")
        assert (sent["client"], sent["version"]) == (accepted["client"], step["version"])
        assert accepted["staleness"] == step["version"] - 1 - accepted["version"]
    assert len([event for event in log if event["event"] == "step"]) == 20
    tasks = [fields(message) for message in grid.sent if message.metadata.message_type == "train"]
    assert [task["accepted"] for task in tasks if task["client"] == 2] == list(
        range(len([0 for t in tasks if t["client"] == 2]))
    )


def test_readers_get_whole_versions(tmp_path: Path) -> None:
    """All tasks of a version carry the same bytes: those of the xbar that the version's step made."""
    algorithm = feddr.AsyncFedDR(eta=1.0, alpha=0.9)
    grid = run(tmp_path, algorithm, rounds=12, evaluate_every=1)
    seen: dict[Any, bytes] = {}
    for message in grid.sent:
        if message.metadata.message_type == "train":
            record: Any = message.content["arrays"]
            x = wire.decode(record, np.zeros(6), np.dtype(np.float64), sent_by_server=True).tobytes()
            assert seen.setdefault(fields(message)["version"], x) == x
    assert len(seen) > 10
    assert len(set(seen.values())) == len(seen)


def test_staleness_is_in_the_history(tmp_path: Path) -> None:
    run(tmp_path, feddr.AsyncFedDR(eta=1.0, alpha=0.9), rounds=40, evaluate_every=10)
    history = feddr.History.from_csv(tmp_path / "server" / "feddr" / "history.csv")
    stale = [event["staleness"] for event in events(tmp_path, "accepted")]
    assert [row.round for row in history.rows] == [0, 10, 20, 30, 40]
    for k, row in enumerate(history.rows[1:]):
        part = stale[10 * k : 10 * k + 10]
        assert row.staleness_mean == pytest.approx(np.mean(part))
        assert row.staleness_max == max(part)
    assert max(stale) >= 4


def test_a_staleness_beyond_tau_is_in_the_log(tmp_path: Path) -> None:
    run(tmp_path, feddr.AsyncFedDR(eta=1.0, alpha=0.9, tau=1), rounds=20)
    late = [event for event in events(tmp_path, "accepted") if event["staleness"] > 1]
    assert [event["client"] for event in events(tmp_path, "too_stale")] == [event["client"] for event in late] != []


def test_an_asynchronous_run_is_the_rules_in_the_order_of_arrival(tmp_path: Path) -> None:
    """Algorithm 2 by hand, with the arrivals and the versions read that the log has, gives the same bits."""
    algorithm = feddr.AsyncFedDR(eta=1.0, alpha=0.9, init="lazy", mean="all")
    run(tmp_path, algorithm, rounds=30)
    order = [event["client"] for event in events(tmp_path, "accepted")]
    reads = [event["version"] for event in events(tmp_path, "accepted")]
    x0 = np.zeros(6)
    prox, server = compiled_prox(lasso().regulariser), algorithm.server(x0)
    solvers = []
    for i in range(3):
        problem = parts(lasso())(i)
        solvers.append(CompiledClients(problem, problem.data.train.samples, EXACT, np.dtype(np.float64), False))
    clients: dict[int, Any] = {}
    models = [server.xbar]
    for k, (i, read) in enumerate(zip(order, reads, strict=True)):
        solver = solvers[i]
        c = clients.get(i) or algorithm.client(x0, models[read])
        sub = algorithm.subproblem(c, models[read])
        solution = solver(0, sub, client_rng(0, i, order[:k].count(i)), read + 1, 1.0)
        clients[i], upload = algorithm.finish(c, models[read], sub, solution)
        server = algorithm.aggregate(server, weighted_sum([WeightedUpload(0, 1 / 3, 1 / 3, False, upload)]), prox)
        models.append(server.xbar)
    np.testing.assert_array_equal(xbar_of(tmp_path)["xbar"], server.xbar)


@pytest.mark.parametrize("algorithm", [feddr.FedAsync(alpha=0.5), feddr.FedBuff(buffer=3)], ids=repr)
def test_other_asynchronous_methods_run(tmp_path: Path, algorithm: Any) -> None:
    """They have no composite step, so g = 0; every upload is counted once, whatever is lost on the way."""
    problem = feddr.Problem(lasso().loss, lasso().data, np.zeros(6))
    federation = federation_of(problem, evaluation=problem)
    seen = [0]

    def unlucky(node: FakeNode, message: Message) -> Fate:
        seen[0] += message.metadata.message_type != "evaluate"
        return Fate(delay=SPEEDS[node.client], lost=("", "", "", "reply")[seen[0] % 4], repeat=seen[0] % 2)

    grid = populated(
        FakeGrid(fate=unlucky),
        app_for(problem, algorithm, feddr.local.SGD(lr=0.1, epochs=3, batch_size=None)),
        range(3),
        tmp_path,
    )
    history = deploy(grid, federation, algorithm, tmp_path, rounds=12, precision="float64")
    assert history.last.F < history.rows[0].F
    assert sum(flower.read_run(tmp_path / "server" / "feddr").numbers.values()) == 12 * algorithm.buffer


def test_a_buffer_survives_the_server(tmp_path: Path) -> None:
    """With a buffer of 3, a server that is stopped after every arrival ends where one that never stops does."""
    algorithm = feddr.AsyncFedDR(eta=1.0, alpha=0.9, buffer=3)
    run(tmp_path / "one", algorithm, rounds=4)

    grid = FakeGrid(fate=paced)
    populated(grid, app_for(lasso(), algorithm, EXACT), range(3), tmp_path / "two")
    commit, crashes = Ledger.commit, [0]

    def stop(ledger: Ledger) -> None:
        commit(ledger)
        if len(ledger.pending) == 2:
            crashes[0] += 1
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "commit", stop)
        for _ in range(4):
            with pytest.raises(Crash):
                deploy(grid, federation_of(lasso()), algorithm, tmp_path / "two", rounds=4, precision="float64")
            grid.restart_server()
    deploy(grid, federation_of(lasso()), algorithm, tmp_path / "two", rounds=4, precision="float64")
    books = flower.read_run(tmp_path / "two" / "server" / "feddr")
    assert (books.version, books.pending) == (4, 0)
    assert sum(books.numbers.values()) == 12
    assert flower.audit(tmp_path / "two" / "server" / "feddr", algorithm, federation_of(lasso())) <= 1e-12
    accepted = [(event["client"], event["number"]) for event in events(tmp_path / "two", "accepted")]
    assert len(accepted) == len(set(accepted)) == 12 - crashes[0], "each crash came before its line in the journal"
