"""What a run may be asked to do, what it may not, where files lie, and what a person sees."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from rich.console import Console

import feddr
from feddr import flower
from feddr.flower import identity
from feddr.flower.node import Node
from feddr.flower.progress import ClientStatus, ProgressTable
from feddr.flower.settings import Settings
from feddr.history import Row
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import deploy, federation_of, lasso

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)
TWO = feddr.sampling.Uniform(2)


def context(**node: Any) -> Context:
    return Context(1, 2, node, RecordDict(), {})


@pytest.mark.parametrize("config", [{}, {"partition-id": "1"}, {"partition-id": -1}, {"partition-id": True}])
def test_a_node_needs_a_client(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="partition-id"):
        Node.open(lambda *_: lasso(), METHOD, LOCAL, None, context(**config))


def test_a_node_holds_one_client_s_data() -> None:
    node = Node.open(lambda *_: lasso(), METHOD, LOCAL, None, context(**{"partition-id": 1}))
    with pytest.raises(ValueError, match="got 3 clients; build it with"):
        assert node.problem


@pytest.mark.parametrize("method", [feddr.MimeLite(), feddr.FedDyn(eta=1.0)], ids=repr)
def test_methods_without_rules_for_it_cannot_be_deployed(tmp_path: Path, method: Any) -> None:
    refused = f"can be absolute, {type(method).__name__} has no such rules; use FedDR or AsyncFedDR"
    with pytest.raises(ValueError, match=refused):
        deploy(FakeGrid(), federation_of(lasso()), method, tmp_path)
    with pytest.raises(ValueError, match=refused):
        Node.open(lambda *_: lasso(), method, LOCAL, None, context(**{"partition-id": 1}))


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (feddr.FedAvg(), {}, r"FedAvg has no composite step, got g=L1\(strength=0.3"),
    (feddr.FedDR(eta=[1.0, 2.0], alpha=1.2), {}, "one for each of the 3 clients, got 2 of them"),
    (feddr.AsyncFedDR(eta=1.0), {"deadline": 5.0}, "no rounds that could have a deadline"),
    (feddr.AsyncFedDR(eta=1.0), {"sampling": TWO}, "takes clients as they come"),
    (METHOD, {"min_replies": 2}, "without a deadline waits for everybody"),
    (METHOD, {"min_replies": 4, "deadline": 1.0}, "at most the number of clients, 3, got 4"),
    (METHOD, {"sampling": feddr.sampling.Uniform(4)}, "m=4"),
    (METHOD, {"name": "../x"}, "name must be"),
    (METHOD, {"name": ".hidden"}, "name must be"),
    (METHOD, {"deadline": -1.0}, "deadline must be positive, got -1.0"),
    (METHOD, {"ttl": 0.0}, "ttl must be positive"),
    (METHOD, {"min_replies": 0, "deadline": 1.0}, "min_replies must be at least 1"),
    (METHOD, {"broadcast": "zip"}, "broadcast must be one of auto, dense, got 'zip'"),
    (METHOD, {"broadcast": "float16"}, r"got 'float16'; FedDR\(download=feddr.compress.Rounded"),
    (METHOD, {"precision": "float16"}, "precision must be"),
    (METHOD, {"rounds": -1}, "rounds must be at least 0"),
]


@pytest.mark.parametrize(("method", "settings", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_does_not_go_together_is_refused(tmp_path: Path, method: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        deploy(FakeGrid(), federation_of(lasso()), method, tmp_path, **settings)


@pytest.mark.parametrize("more", [{"deadline": 5.0}, {"deadline": 5.0, "min_replies": 2}, {"sampling": TWO}])
def test_methods_that_need_everybody_have_no_deadline(tmp_path: Path, more: dict[str, Any]) -> None:
    problem = feddr.Problem(lasso().loss, lasso().data, np.zeros(6))
    with pytest.raises(ValueError, match="FedPD needs every client in every round"):
        deploy(FakeGrid(), federation_of(problem), feddr.FedPD(eta=1.0), tmp_path, **more)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "at least one client"),
        ({"clients": True}, "at least one client"),
        ({"weights": "equal"}, '"uniform", "samples" or one number'),
        ({"weights": [1.0, 2.0]}, "3 positive numbers"),
        ({"weights": [1.0, 2.0, -1.0]}, "3 positive numbers"),
        ({"init": np.array([np.nan])}, "must be finite"),
        ({"evaluation": "server"}, 'a Problem, "nodes" or None'),
    ],
)
def test_federations_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"init": np.zeros(2), "clients": 3}
    with pytest.raises(ValueError, match=message):
        flower.Federation(**(usual | arguments))


def test_given_weights_are_scaled() -> None:
    assert flower.Federation(np.zeros(1), 2, weights=[1.0, 3.0]).known_weights() == [0.25, 0.75]
    assert flower.Federation(np.zeros(1), 2, weights=[1e308, 1e308]).known_weights() == [0.5, 0.5]


def test_a_start_is_real_numbers() -> None:
    assert flower.Federation(np.zeros(1, int), 2).init.dtype == np.float64
    with pytest.raises(ValueError, match="The parameter x must be real or whole numbers, got complex128"):
        flower.Federation(np.array(1j), 2)


def test_the_run_config_overrides_settings() -> None:
    config = {
        "feddr.name": "trial",
        "feddr.rounds": 7,
        "feddr.evaluate-every": 3,
        "feddr.deadline": 30,
        "feddr.min-replies": 0,
        "feddr.max-distance": 0.0,
        "feddr.folder": "",
        "feddr.ttl": 60.5,
        "mode": "async",
    }
    found = Settings(min_replies=2, max_distance=3.0).overridden(config)
    assert found == Settings(name="trial", rounds=7, evaluate_every=3, deadline=30.0, ttl=60.5)
    assert type(found.deadline) is float


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"feddr.epochs": 3}, "may set feddr.name, feddr.rounds.*got feddr.epochs"),
        ({"feddr.rounds": "7"}, "feddr.rounds must be of type int, got '7'"),
        ({"feddr.rounds": 7.0}, "feddr.rounds must be of type int"),
        ({"feddr.name": 3}, "feddr.name must be of type str"),
        ({"feddr.ttl": 0}, "ttl must be positive"),
    ],
)
def test_a_wrong_run_config_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings().overridden(config)


def test_where_files_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDDR_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert identity.root(None, "") == tmp_path / "feddr"
    monkeypatch.setenv("FEDDR_HOME", str(tmp_path / "home"))
    assert identity.root() == tmp_path / "home"
    assert identity.root("", tmp_path / "chosen") == tmp_path / "chosen"


def shown(version: int, standings: dict[int, ClientStatus], terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200)
    with ProgressTable("hearts", "update", 200, console) as progress:
        progress.row = Row(round=1, F=0.25)
        progress.show(version, standings, 30.0, final=True)
    return out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_tells_how_far_who_is_there_and_how_stale(terminal: bool) -> None:
    standings = {
        0: ClientStatus(True, True, 28.0, 3, 17),
        1: ClientStatus(True),
        2: ClientStatus(False, False, 10.0, 0, 5),
    }
    text = shown(12, standings, terminal)
    for words in ("hearts", "update 12/200", "F 0.25", "2 of 3 nodes", "2 s ago", "20 s ago", "3"):
        assert words in text
    if not terminal:
        assert "0: 2 s ago, 3 stale; 1: not heard yet; 2: 20 s ago, no node" in text


def test_progress_of_many_shows_those_silent_for_longest() -> None:
    standings = {i: ClientStatus(True, True, float(i)) for i in range(100)}
    text = shown(1, standings)
    assert "11: " in text
    assert "12: " not in text
