"""A network that loses, repeats, delays and alters: after each fault the run is the one without it.

Where a fault costs a client its state the run is another one, and ends at the same solution.
"""

import dataclasses
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

import feddr
from feddr import flower
from feddr.compress import Quantised
from feddr.storage import atomic, lock
from tests.flower.fake_grid import Crash, FakeGrid, FakeNode, Fate
from tests.flower.federations import (
    app_for,
    deploy,
    distance,
    events,
    federation_of,
    lasso,
    lasso_solution,
    populated,
    xbar_of,
)

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
COMPRESSED = dataclasses.replace(METHOD, upload=Quantised(4))
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)  # each update has randomness of its own
EXACT = feddr.local.Accelerated(tol=1e-9)
ROUNDS = 4
ARGUMENTS: dict[str, Any] = {"rounds": ROUNDS, "seed": 3, "precision": "float64"}
TWO = feddr.sampling.Uniform(2)


@pytest.fixture(params=[METHOD, COMPRESSED], ids=["every bit", "4 bits"])
def method(request: pytest.FixtureRequest) -> feddr.FedDR:
    chosen: feddr.FedDR = request.param
    return chosen


@cache
def undisturbed(method: feddr.FedDR) -> Any:
    """Return xbar after the same rounds in the plain loop."""
    return feddr.reference(lasso(), method, local=LOCAL, sampling=TWO, **ARGUMENTS).state.server.xbar


def is_the_undisturbed_run(folder: Path, method: feddr.FedDR = METHOD) -> None:
    place = folder / "server" / "feddr"
    assert distance(xbar_of(folder), undisturbed(method)) < 1e-12
    assert flower.audit(place, method, federation_of(lasso())) <= 1e-12
    taken = events(folder, "accepted")
    numbers = [(event["client"], event["number"]) for event in taken]
    assert len(numbers) == len(set(numbers))  # nothing is counted twice
    assert len(taken) == 2 * ROUNDS
    assert sum(flower.read_run(place).numbers.values()) == 2 * ROUNDS


def nth_train(n: int, fate: Callable[[], Fate]) -> Callable[[FakeNode, Message], Fate]:
    """Return a fate for the n-th task of the run, and none for the others."""
    seen = [0]

    def decide(node: FakeNode, message: Message) -> Fate:
        del node
        seen[0] += message.metadata.message_type == "train"
        return fate() if seen[0] == n and message.metadata.message_type == "train" else Fate()

    return decide


def run(grid: FakeGrid, folder: Path, method: feddr.FedDR = METHOD, **more: Any) -> None:
    populated(grid, app_for(lasso(), method, LOCAL), range(3), folder)
    deploy(grid, federation_of(lasso()), method, folder, TWO, **(ARGUMENTS | more))


FATES: dict[str, Callable[[], Fate]] = {
    "the task is lost": lambda: Fate(lost="task"),
    "the reply is lost": lambda: Fate(lost="reply"),
    "the app fails after its work": lambda: Fate(error=2),
    "the app crashes": lambda: Fate(error=8, lost="task", delay=0.5),
    "the time to live is over": lambda: Fate(error=3),
    "the reply comes twice": lambda: Fate(repeat=1),
    "the reply is slow": lambda: Fate(delay=500.0),
}


@pytest.mark.parametrize("n", [1, 4, 7])
@pytest.mark.parametrize("what", FATES)
def test_a_fault_leaves_no_trace_in_the_result(tmp_path: Path, method: feddr.FedDR, what: str, n: int) -> None:
    run(FakeGrid(fate=nth_train(n, FATES[what])), tmp_path, method, ttl=1000.0)
    is_the_undisturbed_run(tmp_path, method)


def test_a_reply_that_comes_twice_is_refused_the_second_time(tmp_path: Path, method: feddr.FedDR) -> None:
    run(FakeGrid(fate=nth_train(3, lambda: Fate(repeat=2))), tmp_path, method)
    assert [event["reason"] for event in events(tmp_path, "refused")] == ["repeated", "repeated"]


def test_a_lost_task_is_found_long_before_its_time_to_live(tmp_path: Path) -> None:
    """A node that was restarted under its old number: Flower says nothing until the time to live is over."""
    grid = FakeGrid(fate=nth_train(2, lambda: Fate(lost="task")))
    run(grid, tmp_path)
    assert grid.clock.now() < 300
    assert len(events(tmp_path, "lost")) == 1


@pytest.mark.parametrize("pull", range(1, 30, 3))
def test_a_server_that_is_killed_goes_on_under_its_name(tmp_path: Path, method: feddr.FedDR, pull: int) -> None:
    grid = FakeGrid()
    grid.crash_at(pull)
    with pytest.raises(Crash):
        run(grid, tmp_path, method)
    grid.restart_server()
    deploy(grid, federation_of(lasso()), method, tmp_path, TWO, **ARGUMENTS)
    assert [event["event"] for event in events(tmp_path) if event["event"] in ("start", "resume")] == [
        "start",
        "resume",
    ]
    is_the_undisturbed_run(tmp_path, method)


def test_a_server_that_is_killed_while_it_writes(
    tmp_path: Path, method: feddr.FedDR, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write to the disk in turn is the last one, done by half."""
    whole, grid = atomic.write, FakeGrid()
    populated(grid, app_for(lasso(), method, LOCAL), range(3), tmp_path)
    for attempt in range(60):
        left = [2 + attempt % 5]

        def write(path: Path, data: bytes, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0 and "server" in path.parts:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
                raise Crash
            whole(path, data)

        monkeypatch.setattr(atomic, "write", write)
        try:
            deploy(grid, federation_of(lasso()), method, tmp_path, TWO, **ARGUMENTS)
        except Crash:
            grid.restart_server()
            monkeypatch.setattr(atomic, "write", whole)
            deploy(grid, federation_of(lasso()), method, tmp_path, TWO, **(ARGUMENTS | {"rounds": attempt // 15}))
        else:
            break
    monkeypatch.setattr(atomic, "write", whole)
    deploy(grid, federation_of(lasso()), method, tmp_path, TWO, **ARGUMENTS)
    assert len(events(tmp_path, "resume")) > 5
    assert distance(xbar_of(tmp_path), undisturbed(method)) < 1e-12
    accepted = [(event["client"], event["number"]) for event in events(tmp_path, "accepted")]
    assert len(accepted) == len(set(accepted)), "the journal says accepted only of what is on the disk"


def test_other_settings_under_the_same_name_are_refused(tmp_path: Path) -> None:
    run(FakeGrid(), tmp_path)
    with pytest.raises(ValueError, match="seed was 3"):
        run(FakeGrid(), tmp_path, seed=4)
    other = feddr.FedDR(eta=0.6, alpha=1.2)
    with pytest.raises(ValueError, match=r"algorithm was FedDR\(eta=0.5"):
        deploy(FakeGrid(), federation_of(lasso()), other, tmp_path, TWO, **ARGUMENTS)
    run(FakeGrid(), tmp_path, rounds=ROUNDS)  # and the same settings resume, here to nothing more
    is_the_undisturbed_run(tmp_path)


def test_a_run_may_be_continued_with_more_rounds(tmp_path: Path) -> None:
    run(FakeGrid(), tmp_path, rounds=2)
    grid = populated(FakeGrid(), app_for(lasso(), METHOD, LOCAL), range(3), tmp_path)
    history = deploy(grid, federation_of(lasso()), METHOD, tmp_path, TWO, **ARGUMENTS)
    assert [row.round for row in history.rows] == [0, 1, 2, 3, 4]
    is_the_undisturbed_run(tmp_path)


def test_two_servers_cannot_serve_one_run(tmp_path: Path) -> None:
    with lock.locked(tmp_path / "server" / "feddr"), pytest.raises(RuntimeError, match="another process"):
        run(FakeGrid(), tmp_path)


def replace_node(grid: FakeGrid, client: int, folder: Path, number: int | None = None) -> None:
    """Kill the node of a client, and start another one on a disk."""
    for node in grid.nodes.values():
        if node.client == client:
            node.alive = False
    old = next(node for node in grid.nodes.values() if node.client == client)
    grid.add(client, old.app, folder, number)


def at(time: float, action: Callable[[], None]) -> Callable[[FakeNode, Message], Fate]:
    done: list[bool] = []

    def decide(node: FakeNode, message: Message) -> Fate:
        del node
        if message.metadata.message_type == "train" and message.metadata.created_at >= time and not done:
            done.append(True)
            action()
        return Fate()

    return decide


@pytest.mark.parametrize("key", [False, True], ids=["new number", "same number"])
def test_a_node_that_dies_and_returns_with_its_disk(tmp_path: Path, method: feddr.FedDR, key: bool) -> None:
    grid = FakeGrid()
    grid.fate = at(4.0, lambda: replace_node(grid, 1, tmp_path / "disk-1"))
    if key:

        def restart() -> None:
            node = next(node for node in grid.nodes.values() if node.client == 1)
            replace_node(grid, 1, tmp_path / "disk-1", node.number)

        grid.fate = at(4.0, restart)
    run(grid, tmp_path, method)
    assert not any(event["rejoined"] for event in events(tmp_path, "accepted"))
    is_the_undisturbed_run(tmp_path, method)


def test_a_node_that_returns_without_its_disk_says_so_and_the_books_balance(
    tmp_path: Path, method: feddr.FedDR
) -> None:
    """Its client has been accepted before; it begins again at xbar, and the run converges to the same solution."""
    grid = FakeGrid()
    grid.fate = at(8.0, lambda: replace_node(grid, 1, tmp_path / "new-disk"))
    populated(grid, app_for(lasso(), method, EXACT), range(3), tmp_path)
    deploy(grid, federation_of(lasso()), method, tmp_path, **(ARGUMENTS | {"rounds": 40, "evaluate_every": 40}))
    rejoined = [event for event in events(tmp_path, "accepted") if event["rejoined"]]
    assert [event["client"] for event in rejoined] == [1]
    assert rejoined[0]["number"] > 1  # numbers continue, they never go back
    place = tmp_path / "server" / "feddr"
    assert flower.audit(place, method, federation_of(lasso())) <= 1e-12
    assert flower.read_run(place).numbers == {0: 40, 1: 40, 2: 40}
    assert distance(xbar_of(tmp_path), lasso_solution()) < 1e-5


def test_a_node_with_an_old_copy_of_its_disk_begins_again(tmp_path: Path, method: feddr.FedDR) -> None:
    run(FakeGrid(), tmp_path, method, rounds=3)
    shutil.copytree(tmp_path / "disk-1", tmp_path / "copy")
    run(FakeGrid(), tmp_path, method, rounds=8)
    shutil.rmtree(tmp_path / "disk-1")
    (tmp_path / "copy").rename(tmp_path / "disk-1")
    run(FakeGrid(), tmp_path, method, rounds=12)
    assert {event["client"] for event in events(tmp_path, "accepted") if event["rejoined"]} == {1}
    assert flower.audit(tmp_path / "server" / "feddr", method, federation_of(lasso())) <= 1e-12


def test_a_server_put_back_to_an_old_copy_goes_on_with_clients_that_are_ahead(
    tmp_path: Path, method: feddr.FedDR
) -> None:
    run(FakeGrid(), tmp_path, method, rounds=2)
    shutil.copytree(tmp_path / "server", tmp_path / "copy")
    copied = flower.read_run(tmp_path / "server" / "feddr").numbers
    run(FakeGrid(), tmp_path, method, rounds=9)
    ahead = flower.read_run(tmp_path / "server" / "feddr").numbers
    shutil.rmtree(tmp_path / "server")
    (tmp_path / "copy").rename(tmp_path / "server")
    run(FakeGrid(), tmp_path, method, rounds=12)
    numbers = flower.read_run(tmp_path / "server" / "feddr").numbers
    if method.upload is None:
        assert all(numbers[i] >= ahead[i] for i in numbers)
    else:  # what they are ahead of is no longer counted, so that they cannot send the way from it
        assert {event["client"] for event in events(tmp_path, "accepted") if event["rejoined"]} == set(copied)
    assert flower.audit(tmp_path / "server" / "feddr", method, federation_of(lasso())) <= 1e-12


def test_a_new_run_of_an_old_name_does_not_see_the_old_states(tmp_path: Path, method: feddr.FedDR) -> None:
    run(FakeGrid(), tmp_path, method)
    shutil.rmtree(tmp_path / "server")
    run(FakeGrid(), tmp_path, method)
    is_the_undisturbed_run(tmp_path, method)
