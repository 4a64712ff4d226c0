"""Membership: which node is which client, as nodes join, fail and leave, and how long to wait before a retry.

A node's number may change when it restarts, a client's never does: it is the ``partition-id`` in the node's own config.
A client belongs to the first node that claims it, until that node is gone.
"""

import math
from typing import Any

from feddr.flower.journal import Journal
from feddr.flower.mailbox import Mailbox, Reply, TimeSource
from feddr.flower.messages import Hello, Presence
from feddr.flower.refused import Refused
from feddr.flower.validate import MOST

REFRESH = 3.0
"""Seconds between looks at who is there."""

SILENCE = 120.0
"""Seconds before a node that has not answered is greeted again."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds before a client or node that has failed is asked again; each failure doubles them."""

DOUBLINGS = 30
"""No pause doubles more often, so that a client that fails for days has a pause, and no number beyond all floats."""


class Pauses:
    """Failures of nodes or clients, and the time before which each is not asked again (retry with back-off)."""

    def __init__(self, clock: TimeSource) -> None:
        self.clock = clock
        self.failures: dict[int, int] = {}
        self.until: dict[int, float] = {}

    def over(self, one: int) -> bool:
        """Return whether the pause is over."""
        return self.clock.now() >= self.until.get(one, 0.0)

    def failed(self, one: int) -> None:
        """Count a failure; each pause is longer than the last."""
        count = self.failures.get(one, 0)
        pause = FIRST_PAUSE * 2.0 ** min(count, DOUBLINGS)
        self.until[one] = self.clock.now() + min(pause, LONGEST_PAUSE)
        self.failures[one] = count + 1

    def succeeded(self, one: int) -> None:
        """Forget its failures."""
        self.failures.pop(one, None)
        self.until.pop(one, None)


class Membership:
    """The nodes that are there, and their clients.

    Parameters
    ----------
    clients
        How many there are; others are refused.
    samples, work
        Whether nodes are asked how many samples they have, and how long their local work is.
    preparation
        What nodes need to know for that, where they have a shared table.

    Attributes
    ----------
    node_of
        The node of each client that has one.
    presences
        The first answer of each client to the question who is there.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        journal: Journal,
        clock: TimeSource,
        run: str,
        clients: int,
        samples: bool,
        work: bool,
        preparation: str = "",
    ) -> None:
        self.mailbox, self.journal, self.clock, self.run = mailbox, journal, clock, run
        self.clients, self.samples, self.work, self.preparation = clients, samples, work, preparation
        self.node_of: dict[int, int] = {}
        self.presences: dict[int, Presence] = {}
        self.pauses = Pauses(clock)
        self._claims: dict[int, int] = {}
        self._asked: dict[int, float] = {}
        self._patience: dict[int, float] = {}
        self._next = 0.0

    def refresh(self) -> None:
        """Update the list of nodes: greet new ones, remove those that are gone."""
        if self.clock.now() < self._next:
            return
        self._next = self.clock.now() + REFRESH
        there = self.mailbox.nodes()
        for node in sorted(self._claims.keys() - there):
            self._strike(node)
        self._asked = {node: until for node, until in self._asked.items() if node in there}
        for node in sorted(there - self._claims.keys()):
            if self.clock.now() >= self._asked.get(node, 0.0) and self.pauses.over(node):
                self._greet(node)
        for node, client in self._claims.items():
            self._assign(node, client)

    def take(self, answer: Reply) -> None:
        """Process a node's answer to a greeting."""
        node = answer.sent.node
        self._asked.pop(node, None)
        try:
            if answer.content is None:
                raise Refused("malformed", f"Flower's error {answer.code}: {answer.reason}")
            presence = Presence.read(answer.content)
            if not 0 <= presence.client < self.clients:
                raise Refused("unknown", f"clients are 0 to {self.clients - 1}, got partition-id={presence.client}")
            if presence.run != self.run or (self.samples and presence.samples < 1):
                raise Refused("malformed", "a greeting must be answered for this run, with a number of samples")
            # NaN is an answer: a solver that stops when it is accurate enough has no length of work.
            if self.work and not (1 / MOST <= presence.work <= MOST or math.isnan(presence.work)):
                raise Refused("malformed", f"the length of local work is positive and finite, got {presence.work}")
        except Refused as refused:
            self.pauses.failed(node)
            self.journal.write("node_refused", node=str(node), reason=refused.reason, detail=refused.detail)
            return
        self.pauses.succeeded(node)
        self._patience.pop(node, None)
        self._claims[node] = presence.client
        if self.samples or self.work:
            self.presences.setdefault(presence.client, presence)
        self._assign(node, presence.client)
        if self.node_of[presence.client] != node:
            self.journal.write(
                "spare", node=str(node), client=presence.client, instead=str(self.node_of[presence.client])
            )

    def failed(self, node: int) -> None:
        """Remove a node that Flower reports as gone; it is greeted again if it returns."""
        if node in self._claims:
            self._strike(node)

    def _greet(self, node: int) -> None:
        """Ask a node which client it is; retry with doubling pauses if it does not answer."""
        if self.mailbox.send("hello", node, self._hello().content()):
            self._patience[node] = 2 * self._patience.get(node, SILENCE / 2)
            self._asked[node] = self.clock.now() + self._patience[node]

    def _hello(self) -> Hello:
        return Hello(self.run, self.samples, self.work, self.preparation if self.samples or self.work else "")

    def _assign(self, node: int, client: int) -> None:
        if client not in self.node_of:
            self.node_of[client] = node
            # Whatever an earlier node of this client had to do was lost with it, or is done again by this one.
            self.mailbox.forget(lambda sent: sent.client == client)
            self.journal.write("node", node=str(node), client=client, **self._known(client))

    def _known(self, client: int) -> dict[str, Any]:
        one = self.presences.get(client)
        if one is None:
            return {}
        samples: dict[str, Any] = {"samples": one.samples} if one.samples > 0 else {}
        return {**samples, "work": one.work} if one.work > 0 else samples

    def _strike(self, node: int) -> None:
        client = self._claims.pop(node)
        if self.node_of.get(client) == node:
            del self.node_of[client]
            self.journal.write("gone", node=str(node), client=client)
