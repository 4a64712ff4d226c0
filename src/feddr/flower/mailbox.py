"""Messages to nodes and their replies over Flower's grid, without blocking: each reply is returned at most once.

Flower delivers a message at most once, and ends with a reply or an error: the app failed (code 2 or 8), the time to
live is over (3), the node is gone (5). A message is remembered until then, and given up when its time to live is over.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from feddr.flower.journal import Journal

TYPES = {
    "hello": MessageType.QUERY,
    "checkup": f"{MessageType.QUERY}.checkup",
    "table": f"{MessageType.QUERY}.table",
    "train": MessageType.TRAIN,
    "evaluate": MessageType.EVALUATE,
    "keys": f"{MessageType.QUERY}.secure",
    "shares": f"{MessageType.QUERY}.secure",
    "masked": f"{MessageType.TRAIN}.secure",
    "agree": f"{MessageType.QUERY}.secure",
    "unmask": f"{MessageType.QUERY}.secure",
}
"""What Flower calls our kinds of messages."""

WORK = ("train", "keys", "shares", "masked", "agree", "unmask")
"""The kinds that a client answers once it has done something, and without which a round does not go on."""

GRACE = 60.0
"""Seconds beyond its time to live after which a message is given up, whatever Flower says."""

EXPIRED = 3
"""Flower's code for a message that has come to the end of its time to live."""

GONE = 5
"""Flower's code for a node that is not there any more."""


class TimeSource(Protocol):
    """Seconds that only grow, and a way to let them pass; tests have one of their own."""

    def now(self) -> float:
        """Return the time."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Monotonic:
    """The computer's clock."""

    def now(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Sent:
    """A message on its way.

    Parameters
    ----------
    kind
        One of ``TYPES``.
    client
        Whom it is for, -1 where that is what it asks.
    ticket
        What its answer must repeat.
    version, message
        The server's version, and the broadcast as the client reads it.
    """

    kind: str
    node: int
    client: int
    ticket: str
    version: int
    message: Any
    time: float


class Reply(NamedTuple):
    """The outcome of a message: a reply, or Flower's error."""

    sent: Sent
    content: RecordDict | None
    code: int = 0
    reason: str = ""


class Mailbox:
    """Sends messages, and returns the answers.

    Parameters
    ----------
    ttl
        Seconds that a message and its reply may take.
    journal
        Gets an entry for each reply that is not awaited: to a message answered before, or given up.
    """

    def __init__(self, grid: Grid, clock: TimeSource, ttl: float, journal: Journal) -> None:
        self.grid, self.clock, self.ttl, self.journal = grid, clock, ttl, journal
        self.awaited: dict[str, Sent] = {}

    def nodes(self) -> set[int]:
        """Return the nodes that are there."""
        return set(self.grid.get_node_ids())

    def send(
        self,
        kind: str,
        node: int,
        content: RecordDict,
        *,
        client: int = -1,
        ticket: str = "",
        version: int = 0,
        message: Any = None,
    ) -> bool:
        """Send a message, and return whether Flower has taken it."""
        parcel = Message(content, node, TYPES[kind], ttl=self.ttl, group_id=str(version))
        number = next(iter(self.grid.push_messages([parcel])), None)
        if number:
            self.awaited[number] = Sent(kind, node, client, ticket, version, message, self.clock.now())
        return bool(number)

    def answers(self) -> Iterable[Reply]:
        """Yield the replies and errors since the last call."""
        if not self.awaited:
            return
        for reply in self.grid.pull_messages(list(self.awaited)):
            sent = self.awaited.pop(reply.metadata.reply_to_message_id, None)
            if sent is None:
                detail = "the message that it answers is not awaited"
                node = str(reply.metadata.src_node_id)
                self.journal.write("refused", node=node, reason="repeated", detail=detail)
            elif reply.has_error():
                yield Reply(sent, None, int(reply.error.code), str(reply.error.reason))
            else:
                yield Reply(sent, reply.content)
        now = self.clock.now()
        for number in [key for key, sent in self.awaited.items() if now > sent.time + self.ttl + GRACE]:
            yield Reply(self.awaited.pop(number), None, EXPIRED, "no answer within its time to live")

    def busy(self, *kinds: str) -> set[int]:
        """Return the clients to whom a message of one of these kinds is on its way."""
        return {sent.client for sent in self.awaited.values() if sent.kind in kinds}

    def forget(self, unwanted: Callable[[Sent], bool]) -> None:
        """Drop messages; late replies to them are ignored."""
        self.awaited = {number: sent for number, sent in self.awaited.items() if not unwanted(sent)}
