"""Clients that leave a deployed run for good, and one that comes back after days."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from safetensors.numpy import load_file
from typer.testing import CliRunner

import feddr
from feddr import flower
from feddr.commands.deploy import app
from feddr.flower import Refused, deployment, leaving
from feddr.flower.inspect import audit
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate, fields
from tests.flower.federations import app_for, deploy, events, federation_of, lasso, populated, xbar_of
from tests.flower.test_ledger import WEIGHTS, X0, opened, value

METHOD = feddr.FedDR(eta=0.5, alpha=1.2, init="joining", mean="all")
LAZY = feddr.FedDR(eta=0.5, alpha=1.0, init="lazy", mean="all")
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)
DAY = 86_400.0


def run(folder: Path, grid: FakeGrid, method: Any = METHOD, **more: Any) -> feddr.History:
    if not grid.nodes:
        populated(grid, app_for(lasso(), method, LOCAL), range(3), folder)
    settings: dict[str, Any] = {"rounds": 3, "precision": "float64"} | more
    return deploy(grid, federation_of(lasso()), method, folder, **settings)


@pytest.mark.parametrize("algorithm", [METHOD, LAZY, feddr.FedAvg()], ids=repr)
def test_the_books_without_a_client(tmp_path: Path, algorithm: Any) -> None:
    """(INV) holds over members, also after a restart, and nothing of the client counts any more."""
    ledger = opened(tmp_path, algorithm)
    for number in (1, 2):
        for client in range(3):
            ledger.accept(client, number, value(10 * number + client), X0)
        ledger.step()
    ledger.accept(1, 3, value(5), X0)
    ledger.accept(2, 3, value(6), X0)
    ledger.leave(1)
    for books in (ledger, opened(tmp_path, algorithm)):
        assert (books.left, set(books.entries), [one.client for one in books.pending]) == ({1}, {0, 2}, [2])
        assert books.audit() <= 1e-14
    ledger.step()
    assert ledger.audit() <= 1e-14
    if isinstance(algorithm, feddr.FedDR):
        counted = [value(20), value(6)]
        expected = (WEIGHTS[0] * counted[0]["w"] + WEIGHTS[2] * counted[1]["w"]) / (WEIGHTS[0] + WEIGHTS[2])
        np.testing.assert_allclose(ledger.server.xtilde["w"], expected, atol=1e-14)
    with pytest.raises(Refused, match="client 1 has left"):
        ledger.accept(1, 4, value(7), X0)
    with pytest.raises(ValueError, match="A client leaves once"):
        ledger.leave(1)
    ledger.leave(0)
    with pytest.raises(ValueError, match="Somebody must stay, client 2 is the last one"):
        ledger.leave(2)


def test_who_has_never_answered_may_leave_too(tmp_path: Path) -> None:
    for name, algorithm in (("lazy", LAZY), ("joining", METHOD)):
        ledger = opened(tmp_path / name, algorithm)
        ledger.accept(0, 1, value(0), X0)
        ledger.step()
        ledger.leave(1)
        assert ledger.audit() <= 1e-14
    with pytest.raises(ValueError, match="has client 0 alone"):
        ledger.leave(0)


def test_methods_without_the_rule_refuse(tmp_path: Path) -> None:
    ledger = opened(tmp_path, feddr.FedPD(eta=1.0))
    with pytest.raises(ValueError, match="FedPD has no rule by which a client leaves"):
        ledger.leave(0)


def test_a_run_goes_on_without_a_client_that_never_answers(tmp_path: Path) -> None:
    """The round waits for client 2 for ever, until somebody says that it has left; the others then reach the end."""
    asked = []

    def fate(node: FakeNode, message: Message) -> Fate:
        if node.client == 2 and message.metadata.message_type == "train":
            asked.append(message)
            if len(asked) == 2:  # it has taken part once
                leaving.leave(tmp_path / "server" / "feddr", 2)
            return Fate(lost="task" if len(asked) == 2 else "")
        return Fate()

    history = run(tmp_path, FakeGrid(fate=fate), rounds=5)
    assert history.last.round == 5
    books = flower.read_run(tmp_path / "server" / "feddr")
    assert (set(books.left), books.numbers) == ({2}, {0: 5, 1: 5})
    (line,) = events(tmp_path, "left")
    assert (line["client"], line["version"], len(asked)) == (2, 1, 2)
    assert audit(tmp_path / "server" / "feddr", METHOD, federation_of(lasso())) <= 1e-12
    assert not list((tmp_path / "server" / "feddr" / leaving.REQUESTS).iterdir())


def test_a_request_waits_for_the_next_start(tmp_path: Path) -> None:
    """The model at once is that of the others: the prox of the mean of their xhat_i."""
    run(tmp_path, FakeGrid(), rounds=2)
    folder = tmp_path / "server" / "feddr"
    before = [flower.read_run(folder).table(i)["x"] for i in range(2)]
    leaving.leave(folder, 2)
    run(tmp_path, FakeGrid(), rounds=2)
    mean = np.mean(before, axis=0)
    expected = np.sign(mean) * np.maximum(np.abs(mean) - 0.5 * 0.3, 0.0)
    np.testing.assert_allclose(xbar_of(tmp_path)["xbar"], expected, atol=1e-12)
    np.testing.assert_allclose(load_file(folder / "model.safetensors")["x"], expected, atol=1e-12)
    with pytest.raises(ValueError, match="client 2 has left this run"):
        leaving.leave(folder, 2)
    with pytest.raises(ValueError, match=r"are 0 to 2, got 3\.$"):
        leaving.leave(folder, 3)


def test_the_command_asks_for_it_and_refuses_what_is_no_run(tmp_path: Path) -> None:
    run(tmp_path, FakeGrid(), rounds=1)
    folder = tmp_path / "server" / "feddr"
    answer = CliRunner().invoke(app, ["leave", str(folder), "1"])
    assert (answer.exit_code, answer.output[:15]) == (0, "Client 1 leaves")
    assert [path.name for path in (folder / leaving.REQUESTS).iterdir()] == ["1"]
    missing = CliRunner().invoke(app, ["leave", str(tmp_path), "1"])
    assert isinstance(missing.exception, FileNotFoundError)


def test_the_last_one_is_kept_and_the_log_says_why(tmp_path: Path) -> None:
    run(tmp_path, FakeGrid(), rounds=1)
    for client in range(3):
        leaving.leave(tmp_path / "server" / "feddr", client)
    run(tmp_path, FakeGrid(), rounds=3)
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == {2: 3}
    assert [line["reason"].partition(",")[0] for line in events(tmp_path, "leave_refused")] == ["Somebody must stay"]


def test_a_site_that_comes_back_after_days_goes_on_from_its_own_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds go on without it for three days, and then with it; its updates count from the number that it had."""
    monkeypatch.setattr(deployment, "LONGEST_WAIT", 900.0)  # virtual days, and not 86,400 looks in each
    monkeypatch.setattr(deployment, "FIRST_WAIT", 60.0)
    grid = FakeGrid()

    def fate(node: FakeNode, message: Message) -> Fate:
        if message.metadata.message_type == "train" and node.client != 2:
            for other in grid.nodes.values():
                other.alive = other.client != 2 or not 2 <= int(str(fields(message)["version"])) < 5
        return Fate()

    grid.fate = fate
    history = run(tmp_path, grid, rounds=9, deadline=DAY, ttl=2 * DAY)
    assert history.last.round == 9
    assert 3 * DAY < grid.clock.now() < 4 * DAY
    accepted = [line for line in events(tmp_path, "accepted") if line["client"] == 2]
    assert {line["version"] for line in accepted} >= {0, 1, 6, 7, 8}
    assert not {2, 3, 4} & {line["version"] for line in accepted}
    assert [line["number"] for line in accepted] == list(range(1, len(accepted) + 1))
    assert not any(line["rejoined"] for line in accepted)
    assert audit(tmp_path / "server" / "feddr", METHOD, federation_of(lasso())) <= 1e-12
