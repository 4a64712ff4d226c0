"""A Flower grid in one process and in virtual time, with nodes that lose, repeat, delay and fail as they are told.

Messages go through Flower's own serialisation in both directions, so what works here works on its wire.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 0

RAISED, EXPIRED, GONE = 2, 3, 5


@dataclass
class Fate:
    """What happens to a message.

    Parameters
    ----------
    delay
        Seconds until the reply is there.
    lost
        ``"task"``: the node never sees it. ``"reply"``: the node does its work, and nobody hears of it.
    error
        Flower's error instead of a reply, after the work was done.
    repeat
        How often the reply is delivered again.
    change
        Applied to the reply.
    """

    delay: float = 1.0
    lost: str = ""
    error: int = 0
    repeat: int = 0
    change: Callable[[Message], Message] = lambda message: message


@dataclass
class FakeNode:
    """A node: its number, its client, the app that it runs, its disk, and further settings."""

    number: int
    client: int
    app: ClientApp
    disk: Path
    alive: bool = True
    config: dict[str, Any] = field(default_factory=dict)


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Crash(BaseException):
    """The server's process ends, as with kill -9."""


@dataclass
class FakeGrid(Grid):
    """Nodes, and the messages between them and the server.

    ``fate`` decides what happens to each message. ``sent`` has the messages of the server, ``worked`` what nodes did.
    """

    clock: Clock = field(default_factory=Clock)
    fate: Callable[[FakeNode, Message], Fate] = lambda *_: Fate()
    nodes: dict[int, FakeNode] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = itertools.count(1)
        self.inbox: dict[str, tuple[float, FakeNode, Message, Fate]] = {}
        self.ready: dict[str, tuple[float, Message]] = {}
        self.again: list[Message] = []
        self.worked: list[tuple[float, int, str]] = []
        self.sent: list[Message] = []

    def add(self, client: int, app: ClientApp, disk: Path, number: int | None = None) -> FakeNode:
        node = FakeNode(next(self.numbers) * 1000 + client if number is None else number, client, app, disk)
        self.nodes[node.number] = node
        return node

    def crash_at(self, pull: int) -> None:
        """Kill the server when it asks for answers for the so manieth time."""
        pulls, ordinary = itertools.count(1), self.pull_messages

        def pull_messages(ids: Iterable[str]) -> Iterable[Message]:
            if next(pulls) == pull:
                raise Crash
            return ordinary(ids)

        self.pull_messages = pull_messages  # type: ignore[assignment, method-assign]

    def restart_server(self) -> None:
        """Forget all messages, as a new Flower run does."""
        self.inbox.clear()
        self.ready.clear()
        self.again.clear()

    def get_node_ids(self) -> Iterable[int]:
        return [number for number, node in self.nodes.items() if node.alive]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            number = f"message-{next(self.numbers)}"
            message.metadata.__dict__["_message_id"] = number
            message.metadata.created_at = self.clock.now()
            copy = wire_copy(message)
            copy.metadata.__dict__["_message_id"] = number
            node = self.nodes[message.metadata.dst_node_id]
            self.inbox[number] = (self.clock.now(), node, copy, self.fate(node, copy))
            self.sent.append(copy)
            ids.append(number)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        self._work()
        now = self.clock.now()
        due = sorted((at, number) for number, (at, _) in self.ready.items() if number in wanted and at <= now)
        replies, self.again = self.again, []
        for _, number in due:
            reply, fate = self.ready.pop(number)[1], self.inbox.pop(number)[3]
            replies.append(reply)
            self.again += [reply] * fate.repeat
        return replies

    def _work(self) -> None:
        """Let nodes do what is due by now, the earliest first."""
        now = self.clock.now()
        due = [(begin + fate.delay, number) for number, (begin, _, _, fate) in self.inbox.items()]
        for at, number in sorted(due):
            begin, node, message, fate = self.inbox[number]
            if number in self.ready:
                continue
            if not node.alive:
                self._answer(number, now, message, Error(GONE, "the node is not there"))
            elif at <= now and fate.lost != "task":
                reply = self._run(node, message)
                if fate.lost == "reply":
                    self.inbox[number] = (begin, node, message, Fate(lost="task"))
                elif fate.error:
                    self._answer(number, at, message, Error(fate.error, "as it was told"))
                elif reply.has_error():
                    self._answer(number, at, message, reply.error)
                else:
                    self.ready[number] = (at, fate.change(reply))
            elif now > begin + message.metadata.ttl:
                self._answer(number, now, message, Error(EXPIRED, "its time to live is over"))

    def _answer(self, number: str, at: float, message: Message, error: Error) -> None:
        self.ready[number] = (at, Message(error, reply_to=message))

    def _run(self, node: FakeNode, message: Message) -> Message:
        self.worked.append((self.clock.now(), node.client, message.metadata.message_type))
        config: dict[str, Any] = {"partition-id": node.client, "feddr-folder": str(node.disk), **node.config}
        context = Context(1, node.number, config, RecordDict(), self.config)
        try:
            return wire_copy(node.app(message, context))
        except Exception as error:
            return Message(Error(RAISED, f"{type(error)}:<'{error}'>"), reply_to=message)

    # The rest of Flower's interface, which a deployment must not use: whatever calls it fails.

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *arguments: Any, **more: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise NotImplementedError


def wire_copy(message: Message) -> Message:
    """Return the message after a way over Flower's wire."""
    contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
    copy = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(copy, Message)
    return copy


def fields(message: Message) -> ConfigRecord:
    """Return the fields of a message of ours."""
    record = message.content["feddr"]
    assert isinstance(record, ConfigRecord)
    return record
