"""Sites that are lost in secure rounds as a schedule says, and a server that does not wait for them in vain.

The run config has the schedule: ``losses="2/keys/1+4 3/masked/0"`` says that in round 2 sites 1 and 4 answer nothing
from the stage of keys on, and in round 3 site 0 from its masked vector on. It is about the first attempt at a round.
A site that is lost at a stage fails before it does anything if its number is even, and after everything is on its disk
if it is odd. With ``/held`` behind it, it stops there instead, until it is killed.

A stage ends at the deadline, which would take minutes in every round. So the server's clock goes to the deadline at
once where nobody else is awaited.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

STAGES = ("keys", "shares", "masked", "agree", "unmask")


class Loss(NamedTuple):
    """Sites that are lost at a stage of a round."""

    round: int
    stage: str
    clients: frozenset[int]
    held: bool


class Question(NamedTuple):
    """What a message of a secure round asks."""

    round: int
    serial: int
    stage: str
    client: int


def losses(context: Context) -> list[Loss]:
    """Return the schedule of a run."""
    words = [one.split("/") for one in str(context.run_config["losses"]).split()]
    return [Loss(int(k), stage, frozenset(map(int, who.split("+"))), "held" in more) for k, stage, who, *more in words]


def question(message: Message) -> Question | None:
    """Return what a message asks, None where it is of no secure round."""
    asked = message.content.get("secure") if message.has_content() else None
    if not isinstance(asked, ConfigRecord):
        return None
    task: Any = message.content["feddr"]
    secure: Any = asked
    return Question(task["round"], secure["serial"], secure["stage"], task["client"])


class SilentClient(ClientApp):
    """A client app that answers nothing more in a round from the stage on at which its site is lost."""

    def __init__(self, app: ClientApp) -> None:
        super().__init__()
        self.app = app

    def __call__(self, message: Message, context: Context) -> Message:
        asked = question(message)
        own = [] if asked is None else [one for one in losses(context) if asked.client in one.clients]
        loss = next((one for one in own if asked is not None and one.round == asked.round), None)
        folder = Path(str(context.node_config["feddr-folder"]))
        if asked is None or loss is None or not first(asked, context, folder):
            return self.app(message, context)
        late = STAGES.index(asked.stage) - STAGES.index(loss.stage)
        if late > 0 or (late == 0 and not loss.held and asked.client % 2 == 0):
            raise RuntimeError("This site is lost.")
        reply = self.app(message, context)
        if late == 0 and loss.held:
            (folder / "held").write_text(str(os.getpid()))
            while True:
                time.sleep(1.0)
        if late == 0:
            raise RuntimeError("This site is lost, and has done its work.")
        return reply


def first(asked: Question, context: Context, folder: Path) -> bool:
    """Return whether a question belongs to the first attempt at its round."""
    path = folder / "attempts" / f"{context.run_id}-{asked.round}"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text(str(asked.serial))
    return int(path.read_text()) == asked.serial


@dataclass
class Impatient:
    """Flower's grid and a clock, which goes to the deadline where all have answered who will.

    Parameters
    ----------
    clients
        How many take part in each round.
    """

    grid: Grid
    losses: list[Loss]
    clients: int
    deadline: float

    def __post_init__(self) -> None:
        self.ahead = 0.0
        self.asked: dict[str, Question] = {}
        self.answered: dict[Question, set[int]] = {}
        self.over: set[Question] = set()

    def now(self) -> float:
        """Return the seconds of this clock."""
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are there."""
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages, and remember what they ask."""
        sent = list(messages)
        numbers = list(self.grid.push_messages(sent))
        for number, message in zip(numbers, sent, strict=True):
            asked = question(message)
            if asked is not None:
                self.asked[number] = asked
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return replies; where nobody else will answer this stage, its deadline has come."""
        replies = list(self.grid.pull_messages(message_ids))
        for reply in replies:
            asked = self.asked.get(reply.metadata.reply_to_message_id)
            if asked is not None and reply.has_content():
                self._answered(asked)
        return replies

    def _answered(self, asked: Question) -> None:
        stage = asked._replace(client=-1)
        answered = self.answered.setdefault(stage, set())
        answered.add(asked.client)
        first = min(one.serial for one in self.answered if one.round == asked.round)
        lost = {one.stage: one.clients for one in self.losses if one.round == asked.round and asked.serial == first}
        gone = {i for one in STAGES[: STAGES.index(asked.stage) + 1] for i in lost.get(one, ())}
        if asked.stage in lost and stage not in self.over and answered >= set(range(self.clients)) - gone:
            self.over.add(stage)
            self.ahead += self.deadline
