"""Secure rounds whose messages are altered, repeated or forged: what must not count does not, the next one does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message

import feddr
from feddr import flower
from feddr.flower.secure_messages import checksum
from feddr.storage import atomic, tensors
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate, wire_copy
from tests.flower.federations import events
from tests.flower.secure_federations import METHOD, SITES, is_balanced, run, server_state, site_folder, stage_of


def first(stage: str, client: int, change: Callable[[Message], Message]) -> Callable[[FakeNode, Message], Fate]:
    """Return a fate in which the first answer of a client at a stage is changed."""
    done: list[int] = []

    def decide(node: FakeNode, message: Message) -> Fate:
        if stage_of(message) != stage or node.client != client or done:
            return Fate()
        done.append(client)
        return Fate(change=change)

    return decide


def fields(**values: Any) -> Callable[[Message], Message]:
    def apply(message: Message) -> Message:
        record: Any = message.content["feddr"]
        record.update(values)
        return message

    return apply


def text(change: Callable[[Any], Any]) -> Callable[[Message], Message]:
    def apply(message: Message) -> Message:
        record: Any = message.content["feddr"]
        record["text"] = json.dumps(change(json.loads(record["text"])))
        return message

    return apply


def array(change: Callable[[Array], Array]) -> Callable[[Message], Message]:
    def apply(message: Message) -> Message:
        record = message.content.array_records["arrays"]
        message.content["arrays"] = ArrayRecord({name: change(one) for name, one in record.items()})
        return message

    return apply


def with_data(data: bytes, one: Array) -> Array:
    return Array(one.dtype, one.shape, one.stype, data)


def vector_of(message: Message) -> bytes:
    (one,) = message.content.array_records["arrays"].values()
    return one.data


def flipped(which: str) -> Callable[[Any], Any]:
    """Change the last digit of the share of client 3."""

    def apply(value: Any) -> Any:
        share = value[which]["3"]
        value[which]["3"] = share[:-1] + ("0" if share[-1] != "0" else "1")
        return value

    return apply


ALTERED: dict[str, tuple[str, str, Callable[[Message], Message]]] = {
    "another client's answer": ("keys", "foreign", fields(client=1)),
    "another run's answer": ("shares", "foreign", fields(uid="another")),
    "an old ticket": ("unmask", "repeated", fields(ticket="0" * 16)),
    "an old round's answer": ("masked", "repeated", fields(serial=5)),
    "another stage's answer": ("masked", "repeated", fields(stage="keys")),
    "no JSON": ("keys", "malformed", fields(text="{")),
    "a text without end": ("shares", "oversized", fields(text=" " * (2**24 + 1))),
    "other keys than were signed": ("keys", "changed-key", text(lambda own: {**own, "mask": own["cipher"]})),
    "shares for nobody": ("shares", "malformed", text(lambda dealt: {**dealt, "sealed": {}})),
    "a share that was not dealt": ("unmask", "wrong-share", text(flipped("seeds"))),
    "a damaged vector": (
        "masked",
        "malformed",
        array(lambda one: with_data(bytes([one.data[0] ^ 1]) + one.data[1:], one)),
    ),
    "a shorter vector": ("masked", "misshapen", array(lambda one: with_data(one.data[:-4], one))),
    "a longer vector": ("masked", "oversized", array(lambda one: with_data(one.data + bytes(4), one))),
    "nobody's signature under the partners": (
        "masked",
        "changed-key",
        text(lambda one: {**one, "signature": "00" * 64}),
    ),
    "nobody's signature under the sum": ("agree", "changed-key", text(lambda _: {"signature": "00" * 64})),
    "a vector in the clear": ("masked", "wrong-type", array(lambda _: Array(np.zeros(6)))),
}


@pytest.mark.parametrize("what", ALTERED)
def test_an_answer_that_must_not_count_does_not_and_the_next_one_does(tmp_path: Path, what: str) -> None:
    stage, reason, change = ALTERED[what]
    run(FakeGrid(fate=first(stage, 2, change)), tmp_path, rounds=1)
    assert [event["reason"] for event in events(tmp_path, "refused")] == [reason]
    assert [event["clients"] for event in events(tmp_path, "counted")] == [[*range(SITES)]]
    is_balanced(tmp_path)


def test_a_wrong_share_of_a_lost_site_s_key_is_refused(tmp_path: Path) -> None:
    change = first("unmask", 2, text(flipped("secrets")))

    def fate(node: FakeNode, message: Message) -> Fate:
        return Fate(lost="task") if (stage_of(message), node.client) == ("masked", 3) else change(node, message)

    run(FakeGrid(fate=fate), tmp_path, rounds=1, deadline=20.0)
    assert [event["reason"] for event in events(tmp_path, "refused")] == ["wrong-share"]
    assert [event["clients"] for event in events(tmp_path, "counted")] == [[0, 1, 2, 4]]
    is_balanced(tmp_path)


def test_a_vector_that_no_honest_site_makes_is_not_counted(tmp_path: Path) -> None:
    """Its checksum is right, so only the sum shows it; the round is given up and begins again."""

    def spoil(message: Message) -> Message:
        (one,) = message.content.array_records["arrays"].values()
        data = bytes(len(one.data))
        told = json.loads(str(message.content["feddr"]["text"]))
        return fields(text=json.dumps({**told, "sha256": checksum(data)}))(
            array(lambda old: with_data(data, old))(message)
        )

    run(FakeGrid(fate=first("masked", 2, spoil)), tmp_path, rounds=1)
    (given_up,) = events(tmp_path, "given_up")
    assert "a site has masked something else" in given_up["detail"]
    is_balanced(tmp_path)


def test_a_site_that_changes_its_key_is_refused_by_the_server(tmp_path: Path) -> None:
    run(FakeGrid(), tmp_path, rounds=1)
    (tmp_path / "disk-1" / "node" / "identity-1").unlink()
    run(FakeGrid(), tmp_path, rounds=2, deadline=20.0)
    assert {(event["client"], event["reason"]) for event in events(tmp_path, "refused")} == {(1, "changed-key")}
    assert events(tmp_path, "counted")[-1]["clients"] == [0, 2, 3, 4]
    is_balanced(tmp_path)


def test_a_site_that_changes_its_key_is_refused_by_the_sites_though_the_server_takes_it(tmp_path: Path) -> None:
    run(FakeGrid(), tmp_path, rounds=1)
    (tmp_path / "disk-1" / "node" / "identity-1").unlink()
    states = tensors.Generations(tmp_path / "server" / "feddr" / "state")
    for number in states.numbers():  # the server forgets whom it knew
        record = tensors.read(states.path(number))
        secure = {**record.header["secure"], "identities": {}}
        atomic.write(states.path(number), tensors.pack({**record.header, "secure": secure}, record.arrays))
    with pytest.raises(flower.Abandoned):
        run(FakeGrid(), tmp_path, rounds=2, deadline=20.0, patience=40.0)
    errors = [event for event in events(tmp_path, "error") if "changed-key: client 1 has another" in event["reason"]]
    assert {event["client"] for event in errors} == {*range(SITES)}  # its own list says so, too
    assert len(events(tmp_path, "counted")) == 1
    assert server_state(tmp_path).header["version"] == 1


def test_a_server_that_replays_its_questions_gets_the_same_answer_or_none(tmp_path: Path) -> None:
    """Another vector under the same masks, or shares for another sum, would tell what the first does not."""
    grid = FakeGrid()
    run(grid, tmp_path, rounds=2)
    node = next(node for node in grid.nodes.values() if node.client == 0)
    asked = [message for message in grid.sent if message.metadata.dst_node_id == node.number and stage_of(message)]
    assert len(asked) == 2 * 5
    before = {
        path: path.read_bytes()
        for path in site_folder(tmp_path, 0).rglob("*")
        if path.suffix != ".jsonl"
        if path.is_file()
    }

    def answered(message: Message) -> Message:
        return grid._run(node, message)

    for old in asked[:5]:
        assert "replayed" in str(answered(old).error.reason)
    _, _, masked, agree, unmask = asked[5:]
    first_vector, again = (vector_of(answered(wire_copy(masked))) for _ in range(2))
    assert first_vector == again
    question: Any = masked.content["secure"]
    question["text"] = json.dumps({**json.loads(question["text"]), "partners": [0, 1, 2]})
    assert "replayed" in str(answered(masked).error.reason)
    assert not answered(unmask).has_error()
    assert not answered(agree).has_error()
    other: Any = agree.content["secure"]
    signed = json.loads(other["text"])["signed"]
    other["text"] = json.dumps({"survivors": [0, 1, 2], "signed": {key: signed[key] for key in "012"}})
    assert "replayed: this site has agreed to another sum" in str(answered(agree).error.reason)
    assert {path: path.read_bytes() for path in before} == before


def test_a_site_s_own_log_says_what_it_revealed_and_what_was_counted(tmp_path: Path) -> None:
    lost = first("unmask", 4, lambda message: message)
    run(FakeGrid(fate=lost), tmp_path, rounds=2)
    lines = [json.loads(line) for line in (site_folder(tmp_path, 0) / "secure" / "log.jsonl").read_text().splitlines()]
    told = [(line["event"], line["serial"]) for line in lines]
    serials = [event["serial"] for event in events(tmp_path, "counted")]
    assert told == [("revealed", serials[0]), ("counted", serials[0]), ("revealed", serials[1])]
    assert lines[0]["survivors"] == [*range(SITES)]


def test_a_diverging_site_drops_out_before_anything_is_masked(tmp_path: Path) -> None:
    from tests.flower.federations import app_for, populated
    from tests.flower.secure_federations import SECURE, five

    wild = feddr.local.SGD(lr=1e200, epochs=2)
    grid = populated(FakeGrid(), app_for(five(), METHOD, wild, secure=SECURE), range(SITES), tmp_path)
    with pytest.raises(flower.Abandoned, match="A change must be finite to be masked"):
        run(grid, tmp_path, rounds=1)
    assert not events(tmp_path, "counted")
