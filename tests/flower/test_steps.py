"""Step sizes of the clients' own, and such as nobody has to choose: what server and nodes make of them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

import feddr
from feddr import flower
from feddr.algorithms import Algorithm
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.randomness import client_rng
from feddr.flower import run as running
from feddr.flower.settings import Settings
from feddr.local import Subproblem
from tests.flower.fake_grid import Crash, FakeGrid, FakeNode, Fate, fields
from tests.flower.federations import (
    QUIET,
    app_for,
    deploy,
    distance,
    events,
    federation_of,
    lasso,
    populated,
    squares,
    xbar_of,
)

ETAS = [0.3, 1.1, 0.6]
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)
TWO = feddr.sampling.Uniform(2)
SPEEDS = (1.0, 2.3, 5.1)
ARGUMENTS: dict[str, Any] = {"rounds": 4, "seed": 3, "precision": "float64", "evaluate_every": 2}
METHODS = [
    *[feddr.FedDR(eta=ETAS, alpha=1.3, init=init) for init in ("lazy", "full", "joining")],
    *[feddr.FedDR(init=init) for init in ("lazy", "full", "joining")],
    feddr.FedDR(eta=ETAS, start="own"),
    feddr.FedDR(eta=0.5),
]
LENGTHS = 0.05 * np.array([8, 6, 12])  # of the clients' work
AUTO = 20 * LENGTHS.mean() * (LENGTHS / LENGTHS.mean()) ** 0.75
STRENGTH = 0.01


@cache
def uneven() -> feddr.Problem:
    """Return the sparse regression with weights in proportion to the samples: w_i, v_i and T_i all differ."""
    return feddr.Problem(squares, lasso().data, np.zeros(6), feddr.prox.L1(STRENGTH), weights="samples")


def run(folder: Path, method: Algorithm, grid: FakeGrid | None = None, local: Any = LOCAL, **more: Any) -> FakeGrid:
    grid = populated(FakeGrid() if grid is None else grid, app_for(uneven(), method, local), range(3), folder)
    deploy(grid, federation_of(uneven()), method, folder, **(ARGUMENTS | more))
    return grid


def reference(method: Any, **more: Any) -> Any:
    xbar = feddr.reference(uneven(), method, local=LOCAL, **(ARGUMENTS | more)).state.server.xbar
    assert np.linalg.norm(xbar) > 0.1
    return xbar


def place(folder: Path) -> Path:
    return folder / "server" / "feddr"


def balanced(folder: Path, method: Any, etas: Any = ETAS) -> None:
    """The books balance: xtilde = sum_i v_i xhat_i over those heard from, worked out here from the files alone."""
    books = flower.read_run(place(folder))
    v = uneven().client_weights / np.array(etas)
    v /= v.sum()
    np.testing.assert_allclose(books.mean_weights, v, rtol=1e-14)
    members = sorted(books.numbers)
    total = sum(v[i] * books.table(i)["x"] for i in members)  # x^0 = 0 stands for the others where it counts
    counted = 1.0 if method.init == "lazy" else sum(v[i] for i in members)
    xtilde = books.server["xtilde"]
    assert np.linalg.norm(counted * xtilde - total) <= 1e-12 * max(1.0, float(np.linalg.norm(total)))
    assert flower.audit(place(folder), method, federation_of(uneven())) <= 1e-12


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_rounds_equal_the_reference(tmp_path: Path, method: feddr.FedDR) -> None:
    run(tmp_path, method, sampling=TWO)
    assert distance(xbar_of(tmp_path), reference(method, sampling=TWO)) < 1e-12
    assert flower.audit(place(tmp_path), method, federation_of(uneven())) <= 1e-12
    if method.eta != "auto" and not isinstance(method.eta, float):
        balanced(tmp_path, method)


def by_arrival(log: list[dict[str, Any]], etas: Any, alpha: float, decay: float, init: str) -> Any:
    """Return xbar of Algorithm 2, written out for this problem, with the arrivals that the log has."""
    solve = PlainClients(uneven(), LOCAL, np.dtype(np.float64))
    w, etas = uneven().client_weights, np.array(etas)
    v = w / etas
    x, y, xhat = ({i: np.zeros(6) for i in range(3)} for _ in range(3))
    heard: list[int] = []
    counts: set[int] = set(range(3)) if init == "lazy" else set()
    models = {-1: np.zeros(6), 0: np.zeros(6)}
    version = -1 if init == "full" else 0
    for event in log:
        if event["event"] == "accepted":
            i, xbar = event["client"], models[event["version"]]
            if i not in heard and init != "lazy":
                x[i] = y[i] = xbar
            relaxation = 1 + (alpha - 1) / (1 + heard.count(i) / decay) ** 2
            y[i] = y[i] + relaxation * (xbar - x[i])
            sub = Subproblem(start=xbar, center=y[i], eta=float(etas[i]), last=x[i])
            rng = client_rng(3, i, heard.count(i))
            x[i] = solve(i, sub, rng, event["version"] + 1, 1.0).x
            xhat[i] = 2 * x[i] - y[i]
            heard.append(i)
            counts.add(i)
        else:
            members = sorted(counts)
            weight = sum(v[i] for i in members)
            xtilde = sum(v[i] * xhat[i] for i in members) / weight
            threshold = STRENGTH * sum(w[i] for i in members) / weight
            version += 1
            models[version] = np.sign(xtilde) * np.maximum(np.abs(xtilde) - threshold, 0.0)
    return models[version]


@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("eta", [ETAS, "auto"], ids=["given", "auto"])
def test_an_asynchronous_run_is_algorithm_2_in_the_order_of_arrival(tmp_path: Path, eta: Any, init: str) -> None:
    method = feddr.AsyncFedDR(eta=eta, init=init)
    run(tmp_path, method, FakeGrid(fate=lambda node, _: Fate(delay=SPEEDS[node.client])), rounds=15)
    log = [event for event in events(tmp_path) if event["event"] in ("accepted", "step")]
    assert {event["client"] for event in log if event["event"] == "accepted"} == {0, 1, 2}
    etas = AUTO if eta == "auto" else eta
    assert distance(xbar_of(tmp_path), by_arrival(log, etas, 1.2, 20.0, init)) < 1e-12
    balanced(tmp_path, method, etas)


def test_the_books_say_which_step_sizes_a_run_has(tmp_path: Path) -> None:
    run(tmp_path, feddr.FedDR())
    books = flower.read_run(place(tmp_path))
    np.testing.assert_allclose(books.step_sizes["eta"], AUTO)
    assert (books.step_sizes["alpha"], books.step_sizes["alpha_decay"]) == (1.1, 20.0)
    assert books.weights == uneven().client_weights.tolist()
    words = json.loads((place(tmp_path) / "settings.json").read_text())["step_sizes"]
    assert words.startswith("alpha = 1.1, falling to 1 with alpha_decay = 20; eta_i = 20 T")
    assert "(T_i / T)^0.75, from 6.578 to 11.06" in words
    (event,) = events(tmp_path, "step_sizes")
    assert (event["words"], event["eta"], event["alpha"]) == (words, books.step_sizes["eta"], 1.1)
    assert [event["work"] for event in events(tmp_path, "node")] == pytest.approx(LENGTHS)


@pytest.mark.parametrize("pull", [4, 7, 11, 13])
@pytest.mark.parametrize("method", [feddr.FedDR(eta=ETAS, alpha=1.3, init="joining"), feddr.FedDR()], ids=repr)
def test_losses_and_restarts_leave_no_trace(tmp_path: Path, method: feddr.FedDR, pull: int) -> None:
    seen = [0]

    def unlucky(node: FakeNode, message: Message) -> Fate:
        del node
        seen[0] += message.metadata.message_type == "train"
        lost = "reply" if seen[0] == 3 and message.metadata.message_type == "train" else ""
        return Fate(lost=lost, repeat=seen[0] % 2)

    grid = FakeGrid(fate=unlucky)
    grid.crash_at(pull)
    with pytest.raises(Crash):
        run(tmp_path, method, grid, sampling=TWO)
    grid.restart_server()
    deploy(grid, federation_of(uneven()), method, tmp_path, TWO, **ARGUMENTS)
    assert distance(xbar_of(tmp_path), reference(method, sampling=TWO)) < 1e-12
    balanced(tmp_path, method, flower.read_run(place(tmp_path)).step_sizes["eta"])


@pytest.mark.parametrize("method", [feddr.FedDR(eta=ETAS, alpha=1.3), feddr.AsyncFedDR(eta=ETAS)], ids=repr)
def test_a_client_that_has_lost_its_state_is_counted_with_its_own_weight(tmp_path: Path, method: feddr.FedDR) -> None:
    run(tmp_path, method)
    for file in (tmp_path / "disk-1").rglob("*.safetensors"):
        file.unlink()
    run(tmp_path, method, rounds=12)
    assert {event["client"] for event in events(tmp_path, "accepted") if event["rejoined"]} == {1}
    balanced(tmp_path, method)


def test_a_resumed_run_has_the_numbers_that_it_began_with(tmp_path: Path) -> None:
    """Even if nobody greets again, and if nodes work ten times as long by now; they are not asked."""
    method = feddr.FedDR()
    run(tmp_path, method, rounds=2)
    before = flower.read_run(place(tmp_path)).step_sizes
    settings = Settings(folder=tmp_path, **(ARGUMENTS | {"rounds": 2}))
    scheme, grid = feddr.sampling.Full(), FakeGrid()
    opened = running.open_run(grid, federation_of(uneven()), method, scheme, settings, grid.clock, QUIET)
    assert list(opened.ledger.roles.algorithm.eta) == before["eta"]
    assert grid.clock.now() == 0
    grid = run(tmp_path, method, local=feddr.local.SGD(lr=0.5, epochs=2, batch_size=5), rounds=3)
    greetings = [fields(message) for message in grid.sent if message.metadata.message_type == "query"]
    assert [(one["samples"], one["work"]) for one in greetings] == [(False, False)] * 3
    tasks = [fields(message) for message in grid.sent if message.metadata.message_type == "train"]
    assert {task["client"]: (task["eta"], task["alpha"], task["alpha_decay"]) for task in tasks} == {
        i: (eta, 1.1, 20.0) for i, eta in enumerate(before["eta"])
    }
    assert flower.read_run(place(tmp_path)).step_sizes == before
    assert "step_sizes" in json.loads((place(tmp_path) / "settings.json").read_text())


def test_a_run_resumes_with_the_algorithm_that_it_began_with(tmp_path: Path) -> None:
    run(tmp_path, feddr.FedDR(), rounds=1)
    with pytest.raises(ValueError, match=r"algorithm was FedDR\(eta='auto'.* and is FedDR\(eta=\(0.3"):
        run(tmp_path, feddr.FedDR(eta=ETAS))
    with pytest.raises(ValueError, match=r"is one of FedDR\(eta='auto'"):
        flower.audit(place(tmp_path), feddr.FedDR(eta=ETAS), federation_of(uneven()))


def test_nothing_need_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The apps as a user writes them, with ``FedDR()`` in both."""
    grid = FakeGrid(config={"feddr.rounds": 6, "feddr.name": "untouched"})
    monkeypatch.setenv("FEDDR_HOME", str(tmp_path))
    monkeypatch.setattr(running, "Monotonic", lambda: grid.clock)
    problem = uneven()
    federation = flower.Federation(problem.init, clients=3, g=problem.g, weights="samples", evaluation=problem)
    server = flower.server_app(federation, feddr.FedDR())
    populated(grid, app_for(problem, feddr.FedDR(), feddr.local.SGD(lr=0.05, epochs=5)), range(3), tmp_path)
    server(grid, Context(1, 1, {}, RecordDict(), grid.config))
    history = feddr.History.from_csv(tmp_path / "server" / "untouched" / "history.csv")
    exact = feddr.simulate(problem, feddr.FedDR(eta=1.0, alpha=1.5), local=LOCAL, rounds=1, evaluate_every=1)
    assert history.last.F < exact.history.last.F < history.rows[0].F
