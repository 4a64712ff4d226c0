"""Heartbeat on demand: nodes that are silent for long are asked whether they still work, and lost tasks are sent again.

Flower reports a node that is gone. It does not when a node stops and is back, under the number that its key gives it,
before Flower has looked: the task that it had is lost, and nothing says so until the time to live is over.
"""

from feddr.flower.journal import Journal
from feddr.flower.mailbox import WORK, Mailbox, Reply, TimeSource
from feddr.flower.membership import Membership
from feddr.flower.messages import Checkup, Working
from feddr.flower.refused import Refused

AFTER = 120.0
"""Seconds of silence before a node is asked; it is asked again when the silence has doubled."""


class Checkups:
    """Finds tasks that no node works on, and drops them, so that they are sent again."""

    def __init__(self, mailbox: Mailbox, membership: Membership, journal: Journal, clock: TimeSource, run: str) -> None:
        self.mailbox, self.membership, self.journal, self.clock, self.run = mailbox, membership, journal, clock, run
        self._silence: dict[str, float] = {}

    def ask(self) -> None:
        """Ask nodes that have had a task for long and were not asked recently."""
        tasks = [sent for sent in self.mailbox.awaited.values() if sent.kind in WORK]
        self._silence = {sent.ticket: self._silence.get(sent.ticket, AFTER) for sent in tasks}
        for sent in tasks:
            here = self.membership.node_of.get(sent.client) == sent.node
            if here and self.clock.now() >= sent.time + self._silence[sent.ticket]:
                self.mailbox.send("checkup", sent.node, Checkup(self.run, sent.client).content(), client=sent.client)
                self._silence[sent.ticket] *= 2

    def take(self, answer: Reply) -> None:
        """Process a node's answer; errors are ignored, since the task itself will report one."""
        if answer.content is None:
            return
        asked, working = answer.sent, Working.read(answer.content)
        if (working.run, working.client) != (self.run, asked.client):
            raise Refused("foreign", "it answers for another client or run")
        if not working.working:
            self.mailbox.forget(
                lambda sent: sent.kind in WORK and sent.client == asked.client and sent.time < asked.time
            )
            self.journal.write("lost", client=asked.client, node=str(asked.node))
