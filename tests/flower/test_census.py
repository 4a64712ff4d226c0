"""What nodes say with the greeting, and what they are told with a task: the numbers, and what is refused."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

import feddr
from feddr import flower
from feddr.flower import identity, wire
from feddr.flower.messages import TaskHeader
from feddr.flower.node import Node
from feddr.theory.fixed_work import StepSizeWarning
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate, fields
from tests.flower.federations import (
    QUIET,
    app_for,
    deploy,
    distance,
    events,
    federation_of,
    lasso,
    parts,
    populated,
    xbar_of,
)
from tests.flower.test_steps import ARGUMENTS, ETAS, LOCAL, reference, run, uneven


def test_nodes_say_what_is_asked_and_no_more(tmp_path: Path) -> None:
    grid = run(tmp_path / "given", feddr.FedDR(eta=ETAS, alpha=1.3), rounds=1)
    assert {fields(one)["work"] for one in grid.sent if one.metadata.message_type == "query"} == {False}
    assert all("work" not in event for event in events(tmp_path / "given", "node"))
    method = feddr.FedDR()
    grid = populated(FakeGrid(), app_for(lasso(), method, LOCAL), range(3), tmp_path)
    deploy(grid, federation_of(lasso()), method, tmp_path, **(ARGUMENTS | {"rounds": 1}))
    assert {fields(one)["samples"] for one in grid.sent if one.metadata.message_type == "query"} == {False}
    assert all("samples" not in event and event["work"] > 0 for event in events(tmp_path, "node"))


def says(client: int, times: int, work: Any) -> Callable[[FakeNode, Message], Fate]:
    """Return the fate of greetings that a client answers so many times with another length of work."""
    left = [times]

    def lie(message: Message) -> Message:
        left[0] -= 1
        fields(message)["work"] = work
        return message

    def decide(node: FakeNode, message: Message) -> Fate:
        greeted = node.client == client and message.metadata.message_type == "query" and left[0] > 0
        return Fate(change=lie) if greeted else Fate()

    return decide


@pytest.mark.parametrize("work", [0.0, -1.0, math.inf, -math.inf, 1e300, 1e-300, 3, "long"])
def test_a_node_that_lies_about_its_work_is_refused(tmp_path: Path, work: Any) -> None:
    method = feddr.FedDR()
    run(tmp_path, method, FakeGrid(fate=says(1, 2, work)))
    refused = events(tmp_path, "node_refused")
    assert [event["reason"] for event in refused] == ["malformed", "malformed"]
    assert "work" in refused[0]["detail"]
    assert distance(xbar_of(tmp_path), reference(method)) < 1e-12


@pytest.mark.parametrize(
    "method", [feddr.FedDR(), feddr.AsyncFedDR(eta=0.5), feddr.FedDR(eta=ETAS), feddr.FedDR(alpha=1.2)], ids=repr
)
def test_a_solver_without_a_length_of_work_needs_numbers(tmp_path: Path, method: feddr.FedDR) -> None:
    problem, local = lasso(), feddr.local.Accelerated()
    grid = populated(FakeGrid(), app_for(problem, method, local), range(3), tmp_path)
    requirement, value, remedy = "lr x steps, which must be fixed", "got .*FedDR.* from clients", "give eta and alpha"
    with pytest.raises(ValueError, match=f"{requirement}, {value}.*; use SGD or Optax there, .* {remedy} the numbers"):
        deploy(grid, federation_of(problem), method, tmp_path, **ARGUMENTS)


def test_step_sizes_of_their_own_need_no_length_of_work(tmp_path: Path) -> None:
    problem, local, method = lasso(), feddr.local.Accelerated(tol=1e-13), feddr.FedDR(eta=ETAS, alpha=1.3)
    grid = populated(FakeGrid(), app_for(problem, method, local), range(3), tmp_path)
    deploy(grid, federation_of(problem), method, tmp_path, **ARGUMENTS)
    plain = feddr.reference(problem, method, local=local, **ARGUMENTS)
    assert distance(xbar_of(tmp_path), plain.state.server.xbar) < 1e-12


def test_the_server_warns_of_an_alpha_that_amplifies(tmp_path: Path) -> None:
    with pytest.warns(StepSizeWarning, match=r"alpha should be at least 1.*Leave alpha out, which takes 1[.]1 here"):
        run(tmp_path, feddr.FedDR(alpha=0.9), rounds=1)


def test_a_run_waits_for_lengths_of_work_no_longer_than_its_patience(tmp_path: Path) -> None:
    grid = populated(FakeGrid(), app_for(lasso(), feddr.FedDR(), LOCAL), [1], tmp_path)
    with pytest.raises(flower.Abandoned, match=r"local work, clients \[0, 2\] were not heard from within 150 s.*num"):
        deploy(grid, federation_of(lasso()), feddr.FedDR(), tmp_path, patience=150.0)
    with pytest.raises(flower.Abandoned, match=r"number of samples and .* local work, clients \[0, 2\] were not"):
        deploy(grid, federation_of(uneven()), feddr.FedDR(), tmp_path, patience=10.0)


def test_a_run_says_whom_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(QUIET, "say", said.append)
    grid = populated(FakeGrid(), app_for(lasso(), feddr.FedDR(), LOCAL), [0, 2], tmp_path)
    with pytest.raises(flower.Abandoned):
        deploy(grid, federation_of(lasso()), feddr.FedDR(), tmp_path, patience=150.0)
    assert len(said) == 2
    assert "waiting for clients [1]; look at" in said[0]
    grid.add(1, app_for(lasso(), feddr.FedDR(), LOCAL), tmp_path / "disk-1")
    deploy(grid, federation_of(lasso()), feddr.FedDR(), tmp_path, rounds=1)
    assert said[-1].startswith("FedDR: alpha = 1.1, falling to 1 with alpha_decay = 20; eta_i = 20 T")


def asked(method: Any, **changes: Any) -> tuple[Node, TaskHeader]:
    """Return a node and a task for it."""
    context = Context(1, 2, {"partition-id": 1}, RecordDict(), {})
    task = TaskHeader(
        run="feddr",
        uid="u",
        ticket="t",
        rules=identity.rules(method, "float64", np.zeros(6)),
        client=1,
        version=0,
        accepted=0,
        counted="",
        seed=0,
        round=1,
        probability=1.0,
        precision="float64",
        eta=0.5,
        alpha=1.2,
        alpha_decay=math.nan,
    )
    return Node.open(lambda *_: parts(lasso())(1), method, LOCAL, None, context), dataclasses.replace(task, **changes)


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        *[(feddr.FedDR(), {"eta": eta}, "positive step size, got eta=") for eta in (math.nan, 0.0, -1.0, math.inf)],
        (feddr.FedDR(eta=ETAS), {"eta": math.nan}, "positive step size, got eta=nan"),
        *[(feddr.FedDR(), {"alpha": a}, r"in \(0, 2\], got alpha=") for a in (math.nan, 0.0, -1.0, 2.5, math.inf)],
        (feddr.FedDR(eta=0.5), {"alpha": math.nan}, r"in \(0, 2\], got alpha=nan"),
        *[(feddr.FedDR(), {"alpha_decay": a}, "positive alpha_decay, or NaN, got ") for a in (0.0, -1.0)],
        (feddr.FedDR(eta=0.5, alpha=1.2), {"rules": "other"}, "the same algorithm and the same start"),
    ],
)
def test_a_node_refuses_numbers_that_cannot_be(method: Any, changes: dict[str, Any], message: str) -> None:
    node, task = asked(method, **changes)
    arrays = wire.encode(np.zeros(6), np.dtype(np.float64))
    with pytest.raises(ValueError, match=message):
        node.train(task, arrays)
    with pytest.raises(ValueError, match=message):
        node.evaluate(task, arrays)


def test_a_node_with_numbers_of_its_own_keeps_them(tmp_path: Path) -> None:
    """Whatever a task says beside the digest, on which both sides agree."""
    method = feddr.FedDR(eta=0.5, alpha=1.2)
    found = []
    for k, changes in enumerate(({}, {"eta": 3.0, "alpha": 0.1}, {"eta": math.nan, "alpha": math.nan})):
        node, task = asked(method, **changes)
        object.__setattr__(node, "root", tmp_path / str(k))
        found.append(node.train(task, wire.encode(np.ones(6), np.dtype(np.float64)))[1]["x"].numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
