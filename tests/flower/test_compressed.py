"""Compressed uploads on the wire: encoded bytes travel, both sides count the same bits, and bad ones do not count."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict

import feddr
from feddr import flower, tree
from feddr.compress import Quantised, RandomK, TopK
from feddr.flower import compressed, wire
from feddr.storage import atomic, tensors
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate
from tests.flower.federations import app_for, classes, deploy, events, federation_of, lasso, populated
from tests.flower.test_faults import COMPRESSED, LOCAL, is_the_undisturbed_run, nth_train, run

FOUR = Quantised(4)


def counted_by_nodes(folder: Path, clients: int) -> dict[int, dict[str, bytes]]:
    """Return the xhat_i in the newest state of each node, by client and name."""
    found = {}
    for i in range(clients):
        _, record = next(
            tensors.Generations(folder / f"disk-{i}" / "node" / "feddr" / f"client-{i}" / "state").undamaged()
        )
        names = {name: array.tobytes() for name, array in record.arrays.items() if name.startswith("xhat")}
        found[i] = {name.removeprefix("xhat").removeprefix(".") or "x": value for name, value in names.items()}
    return found


def counted_by_the_server(folder: Path, clients: int) -> dict[int, dict[str, bytes]]:
    ledger = flower.read_run(folder / "server" / "feddr")
    return {i: {name: array.tobytes() for name, array in ledger.table(i).items()} for i in range(clients)}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("compressor", [FOUR, TopK(0.2, Quantised(6)), RandomK(0.4)], ids=str)
def test_a_deployment_is_the_simulation_to_the_last_bit(tmp_path: Path, compressor: Any, precision: str) -> None:
    """The server, and what both sides count for each client."""
    problem, method = classes(), feddr.FedDR(eta=0.8, alpha=1.2, upload=compressor)
    local = feddr.local.SGD(lr=0.05, epochs=1, batch_size=8)
    arguments: dict[str, Any] = {"rounds": 3, "seed": 2, "precision": precision}
    grid = populated(FakeGrid(), app_for(problem, method, local), range(4), tmp_path)
    deploy(grid, federation_of(problem), method, tmp_path, **arguments)
    simulated = feddr.simulate(problem, method, local=local, **arguments).state
    ledger = flower.read_run(tmp_path / "server" / "feddr")
    for name, leaf in tree.named(simulated.server._asdict()).items():
        assert ledger.server[name].tobytes() == np.asarray(leaf).tobytes(), name
    server, nodes = counted_by_the_server(tmp_path, 4), counted_by_nodes(tmp_path, 4)
    assert server == nodes
    for i, c in simulated.clients.items():
        assert server[i] == {name: np.asarray(leaf).tobytes() for name, leaf in tree.named(c.xhat).items()}


def test_the_encoded_bytes_are_what_travels_and_what_the_history_counts(tmp_path: Path) -> None:
    replies: list[Message] = []

    def keep(message: Message) -> Message:
        replies.append(message)
        return message

    problem, method = classes(), feddr.FedDR(eta=0.8, alpha=1.2, upload=FOUR)
    grid = FakeGrid(fate=lambda *_: Fate(change=keep))
    populated(grid, app_for(problem, method, LOCAL), range(4), tmp_path)
    history = deploy(grid, federation_of(problem), method, tmp_path, rounds=2, precision="float32")
    like = tree.cast(problem.init, np.float32)
    trained = [reply.content for reply in replies if "arrays" in reply.content]
    assert len(trained) == 2 * 4
    for content in trained:
        (array,) = content.array_records["arrays"].values()
        assert len(array.data) == FOUR.num_bytes(like)
        FOUR.decode(array.data, like)  # they are a message of the compressor
    assert history.last.bytes_up == sum(map(wire.size, trained))


def altered(change: Callable[[bytes], Array]) -> Callable[[Message], Message]:
    def apply(message: Message) -> Message:
        record = message.content["arrays"]
        assert isinstance(record, ArrayRecord)
        message.content["arrays"] = ArrayRecord({name: change(array.data) for name, array in record.items()})
        return message

    return apply


def coded(data: bytes) -> Array:
    return Array(compressed.TYPE, (len(data),), compressed.ENCODING, data)


def renumbered(change: int) -> Callable[[Message], Message]:
    def apply(message: Message) -> Message:
        record: Any = message.content["feddr"]
        record["number"] = record["number"] + change
        return message

    return apply


def without_arrays(message: Message) -> Message:
    message.content["arrays"] = ArrayRecord({})
    return message


def huge(_: bytes) -> Array:
    """Return a whole message whose numbers lead beyond what may be counted."""
    return coded(FOUR.encode(np.full(6, 1e200)))


ALTERED: dict[str, tuple[str, Callable[[Message], Message]]] = {
    "a damaged byte": ("malformed", altered(lambda data: coded(data[:-1] + bytes([data[-1] ^ 1])))),
    "a damaged header": ("malformed", altered(lambda data: coded(b"x" + data[1:]))),
    "the end is missing": ("malformed", altered(lambda data: coded(data[:-1]))),
    "nothing": ("malformed", altered(lambda _: coded(b""))),
    "more bytes": ("oversized", altered(lambda data: coded(data + b"\0"))),
    "10 GB announced": (
        "oversized",
        altered(lambda data: Array(compressed.TYPE, (10 * 2**30,), compressed.ENCODING, data)),
    ),
    "another compressor": ("malformed", altered(lambda data: coded(TopK(1 / 6).encode(np.ones(6))[: len(data)]))),
    "every bit": ("wrong-type", altered(lambda _: Array(np.zeros(6)))),
    "numbers for bytes": ("wrong-type", altered(lambda data: Array("float64", (len(data),), "feddr.compressed", data))),
    "no array": ("misshapen", without_arrays),
    "numbers beyond all bounds": ("not-finite", altered(huge)),
    "the way from an older update": ("stale", renumbered(-1)),
    "the way from an update that was never counted": ("stale", renumbered(1)),
}


@pytest.mark.parametrize("what", ALTERED)
def test_an_encoding_that_must_not_count_does_not(tmp_path: Path, what: str) -> None:
    reason, change = ALTERED[what]
    run(FakeGrid(fate=nth_train(4, lambda: Fate(change=change))), tmp_path, COMPRESSED)
    assert [event["reason"] for event in events(tmp_path, "refused")] == [reason]
    is_the_undisturbed_run(tmp_path, COMPRESSED)


def test_a_client_that_counts_something_else_than_the_server_begins_again(tmp_path: Path) -> None:
    """Its state has the right number and is another one: of a second node, or of a task that came late."""
    run(FakeGrid(), tmp_path, COMPRESSED, rounds=2)
    ledger = flower.read_run(tmp_path / "server" / "feddr")
    client, number = next(iter(ledger.numbers.items()))
    states = tensors.Generations(tmp_path / f"disk-{client}" / "node" / "feddr" / f"client-{client}" / "state")
    record = tensors.read(states.path(number))
    arrays = record.arrays | {"xhat": record.arrays["xhat"] + 2.0**-40}
    atomic.write(states.path(number), tensors.pack(record.header, arrays))
    run(FakeGrid(), tmp_path, COMPRESSED, rounds=6)
    assert [event["client"] for event in events(tmp_path, "accepted") if event["rejoined"]] == [client]
    assert flower.audit(tmp_path / "server" / "feddr", COMPRESSED, federation_of(lasso())) <= 1e-15
    server, nodes = counted_by_the_server(tmp_path, 3), counted_by_nodes(tmp_path, 3)
    assert server == nodes


def test_a_client_that_diverges_has_nothing_to_send(tmp_path: Path) -> None:
    local = feddr.local.SGD(lr=1e200, epochs=2)
    grid = populated(FakeGrid(), app_for(lasso(), COMPRESSED, local), range(3), tmp_path)
    with pytest.raises(flower.Abandoned, match="An upload must be finite to be encoded"):
        deploy(grid, federation_of(lasso()), COMPRESSED, tmp_path, rounds=1, precision="float64")
    assert not events(tmp_path, "accepted")


@pytest.mark.parametrize(
    ("method", "counted"),
    [
        (feddr.AsyncFedDR(eta=0.5, alpha=0.9, upload=Quantised(3)), "xhat"),
        (feddr.CA2FL(buffer=2, server_lr=0.3, upload=Quantised(3)), "change"),
    ],
    ids=repr,
)
def test_an_asynchronous_run_counts_the_same_on_both_sides(tmp_path: Path, method: Any, counted: str) -> None:
    """Replies that come late or not at all; updates that were lost are computed again."""
    problem = lasso() if method.composite else dataclasses.replace(lasso(), g=None)
    sent = [0]

    def fate(node: FakeNode, message: Message) -> Fate:
        sent[0] += message.metadata.message_type == "train"
        if message.metadata.message_type != "train":
            return Fate()
        return Fate(lost="reply") if sent[0] % 5 == 0 else Fate(delay=1.0 + 0.7 * node.client)

    grid = populated(FakeGrid(fate=fate), app_for(problem, method, LOCAL), range(3), tmp_path)
    deploy(grid, federation_of(problem), method, tmp_path, rounds=15, precision="float64", evaluate_every=15)
    assert flower.audit(tmp_path / "server" / "feddr", method, federation_of(problem)) <= 1e-15
    assert not any(event["rejoined"] for event in events(tmp_path, "accepted"))
    ledger, states = flower.read_run(tmp_path / "server" / "feddr"), {}
    for i in range(3):  # a node may be one update ahead
        folder = tmp_path / f"disk-{i}" / "node" / "feddr" / f"client-{i}" / "state"
        states[i] = tensors.read(folder / f"{ledger.numbers[i]}{tensors.SUFFIX}").arrays[counted].tobytes()
    assert states == {i: ledger.table(i)["x"].tobytes() for i in range(3)}


def test_a_recorded_message_stands_for_what_was_compressed() -> None:
    upload, messages = {"w": np.array([1.0, -0.3, 0.2]), "b": np.array(2.0)}, list[bytes]()
    found = compressed.recording(FOUR, messages).compress(upload, 3)
    (message,) = messages
    assert message == FOUR.encode(upload, 3)
    assert tree.norm(tree.sub(found, FOUR.compress(upload, 3))) == 0
    assert FOUR.compress(upload) is not None
    assert len(messages) == 1, "the compressor of others does not record"
    (read,) = compressed.decode(compressed.encode(messages), FOUR, [upload])
    assert tree.norm(tree.sub(read, found)) == 0
    assert wire.size(RecordDict({"arrays": compressed.encode(messages)})) == FOUR.num_bytes(upload) + 1
