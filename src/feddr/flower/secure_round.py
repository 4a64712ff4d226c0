"""A secure round on the server: five questions to the active sites, and the sum of their changes at the end.

Each stage ends when all who were asked have answered, or at the deadline if enough have; the last one as soon as enough
have. Who fails is asked again until then, and who has not answered by then is left out for the rest of the round. With
too few the round is given up: nothing was counted, every site is where it was, and the same round begins again with new
keys.
"""

import json
import time
from typing import Any

from feddr.algorithms import Algorithm, Asynchronous, FedDR
from feddr.algorithms.fedavg import FedAvg
from feddr.flower import private, secure_messages
from feddr.flower.deployment import Deployment
from feddr.flower.federation import Federation
from feddr.flower.mailbox import Reply
from feddr.flower.refused import Refused
from feddr.flower.secure_ledger import SecureLedger
from feddr.flower.secure_messages import SecureAnswer, SecureTask
from feddr.flower.settings import Settings
from feddr.sampling import Full, Sampling, Uniform
from feddr.secure import ProtocolError, SecureAggregation, ServerSession, encoding
from feddr.secure.keys import SIGNATURE, RoundName
from feddr.secure.notes import Advertisement, Dealt, Revealed
from feddr.secure.server import STAGES


def check(
    secure: SecureAggregation, federation: Federation, algorithm: Algorithm, sampling: Sampling, settings: Settings
) -> None:
    """Refuse what cannot be done without a site's own upload; ValueError."""
    check_algorithm(algorithm)
    if settings.late != "drop":
        raise ValueError(f'Secure rounds count nobody late, got late="{settings.late}"; leave it out.')
    if not isinstance(sampling, Full | Uniform):
        raise ValueError(f"Secure rounds have a fixed number of sites, got {sampling}; use Full or Uniform.")
    if federation.evaluation == "nodes":
        raise ValueError(
            "Secure rounds tell the server nothing of a single site, which evaluation='nodes' does; give the "
            "federation a Problem with data of the server's own, or evaluation=None."
        )
    for name in ("max_distance", "min_replies"):
        if getattr(settings, name) is not None:
            remedy = "the threshold says how many must stay" if name == "min_replies" else "nobody sees one upload"
            raise ValueError(f"Secure rounds have no {name}, got {getattr(settings, name)}; leave it out: {remedy}.")
    sizes = {sampling.m if isinstance(sampling, Uniform) else federation.clients}
    if algorithm.full_start:
        sizes.add(federation.clients)
    for size in sizes:
        try:
            secure.check_group(size)
        except ProtocolError as error:
            raise ValueError(f"{secure} does not fit rounds of {size} sites: {error.detail}.") from None


def check_algorithm(algorithm: Any) -> None:
    """Refuse methods whose server needs more than the sum of what its sites send; ValueError.

    Examples
    --------
    >>> import feddr
    >>> check_algorithm(feddr.FedDR())
    >>> check_algorithm(feddr.AsyncFedDR(eta=1.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: Secure rounds need a method whose server adds up uploads, in rounds, got AsyncFedDR; use FedDR, ...
    """
    name = type(algorithm).__name__
    if not isinstance(algorithm, FedDR | FedAvg) or isinstance(algorithm, Asynchronous):
        raise ValueError(
            f"Secure rounds need a method whose server adds up uploads, in rounds, got {name}; use FedDR, or FedAvg "
            "and its kind."
        )
    if algorithm.upload is not None:
        raise ValueError(
            f"Secure rounds have their own fixed point, got {name} with upload={algorithm.upload!r}; leave it out."
        )


class SecureRound:
    """One round, through as many attempts as it takes.

    Parameters
    ----------
    active
        The clients that take part.
    """

    def __init__(self, run: Deployment, active: list[int]) -> None:
        assert isinstance(run.ledger, SecureLedger)
        assert run.settings.secure is not None
        self.run, self.ledger, self.active = run, run.ledger, active
        self.deadline = run.settings.deadline if run.ledger.version >= 0 else None
        run.sites = run.settings.secure.fewest
        self.session: ServerSession
        self.opened: float | None = None
        self.lost: list[int] = []
        for stage in STAGES:
            run.takers[stage] = self.take
        self._begin()

    @property
    def missing(self) -> list[int]:
        """The clients that have not answered at this stage."""
        asked = self.active if self.session.stage == "keys" else self.session.asked
        return [i for i in asked if i not in self.session.answered]

    def look(self) -> bool:
        """Send questions, process replies, and return whether the round has been counted."""
        run, session = self.run, self.session
        for _ in run.arrivals():
            raise AssertionError("a secure round has no plain uploads")
        if self.lost:
            self._enrol()
            return False
        missing = self.missing
        late = self.deadline is not None and self.opened is not None and run.clock.now() - self.opened >= self.deadline
        over = not missing or late or (session.stage == "unmask" and session.enough())
        if not over:
            sent = [i for i in self._ready(missing) if self._ask(i)]
            if sent and self.opened is None:
                self.opened = run.clock.now()
            return False
        run.mailbox.forget(lambda sent: sent.kind in STAGES)
        last, self.opened = session.stage == "unmask", run.clock.now()
        try:
            session.close()
            if last:
                self._count()
                return True
        except ProtocolError as error:
            self._give_up(error)
        return False

    def take(self, answer: Reply) -> None:
        """Process an answer; Refused where it does not belong to what was asked."""
        assert answer.content is not None
        sent, session = answer.sent, self.session
        own = SecureAnswer.read(answer.content)
        if (own.run, own.uid, own.client) != (session.name.run, session.name.uid, sent.client):
            raise Refused("foreign", f"client {sent.client} was asked, client {own.client} has answered")
        if (own.ticket, own.serial, own.stage) != (sent.ticket, session.name.serial, sent.kind):
            raise Refused("repeated", "it answers another question than the one that was sent")
        try:
            if own.stage == "keys":
                session.advertise(sent.client, Advertisement.read(secure_messages.loads(own.text)))
                self.lost += [sent.client] * own.lost
            elif own.stage == "shares":
                session.deal(sent.client, Dealt.read(secure_messages.loads(own.text)))
            elif own.stage == "masked":
                length = len(self.ledger.total)
                fields = encoding.record(secure_messages.loads(own.text), "sha256", "signature", "spent")
                private.check_number(fields["spent"], getattr(self.run.algorithm, "privacy", None))
                masked = secure_messages.decode(answer.content, session.ring, length, fields["sha256"])
                session.upload(sent.client, masked, encoding.blob(fields["signature"], SIGNATURE))
                self.ledger.spending[sent.client] = float(fields["spent"])
                self.run.pauses.succeeded(sent.client)
            elif own.stage == "agree":
                fields = encoding.record(secure_messages.loads(own.text), "signature")
                session.agree(sent.client, encoding.blob(fields["signature"], SIGNATURE))
            else:
                session.reveal(sent.client, Revealed.read(secure_messages.loads(own.text)))
        except ProtocolError as error:
            raise secure_messages.refused(error) from None

    def _begin(self) -> None:
        """Begin an attempt, with a serial that is larger than that of any other."""
        newest = self.session.name.serial if hasattr(self, "session") else self.ledger.last_serial
        serial = max(newest + 1, time.time_ns() // 10**6)  # grows also where an older copy of the ledger was put back
        name = RoundName(self.run.settings.name, self.ledger.uid, self.ledger.version + 1, serial)
        self.session = ServerSession(name, self.ledger.secure, self.ledger.identities)
        self.opened, self.lost = None, []

    def _ready(self, clients: list[int]) -> list[int]:
        busy = self.run.mailbox.busy(self.session.stage)
        here = self.run.membership.node_of
        return [i for i in clients if i in here and i not in busy and self.run.pauses.over(i)]

    def _ask(self, i: int) -> bool:
        """Send a client the question of this stage, and return whether Flower has taken it."""
        run, session, ledger = self.run, self.session, self.ledger
        header = run.header(i)
        question = SecureTask(
            stage=session.stage,
            serial=session.name.serial,
            settings=repr(ledger.secure),
            weight=ledger.weight(i),
            enrolment=ledger.enrolment,
            member=i in ledger.members,
            counted=ledger.members.get(i, 0),
            text=json.dumps(self._text(i)),
        )
        broadcast = run.message() if session.stage == "masked" else None
        content = question.with_task(header, None if broadcast is None else broadcast.record)
        return run.deliver(session.stage, i, content, header.ticket, None if broadcast is None else broadcast.message)

    def _text(self, i: int) -> dict[str, Any]:
        session = self.session
        if session.stage == "shares":
            return {"roster": [one.to_dict() for one in session.roster]}
        if session.stage == "masked":
            sealed = {str(j): letter.hex() for j, letter in session.letters(i).items()}
            return {"partners": list(session.partners), "sealed": sealed}
        if session.stage == "agree":
            return {"survivors": list(session.survivors), "signed": encoding.plain(session.signed)}
        return {"signed": encoding.plain(session.agreed)} if session.stage == "unmask" else {}

    def _count(self) -> None:
        """Take the sum into the ledger, where it counts from now on."""
        session, ledger, run = self.session, self.ledger, self.run
        levels, survivors = session.total(), session.survivors
        ledger.identities = session.pins
        now = run.clock.now()
        ledger.counters.wall_time = now - run.run_start
        ledger.count(session.name.serial, survivors, levels, run.message().message)
        left_out = sorted(set(self.active) - set(survivors))
        run.journal.write("counted", serial=session.name.serial, clients=list(survivors), left_out=left_out)
        run.last_answer = now
        for i in survivors:
            run.statuses[i].last, run.statuses[i].number = now, ledger.number(i)
        run.stepped(len(survivors))

    def _give_up(self, error: ProtocolError) -> None:
        """Begin the round again, with new keys; nothing has been counted."""
        answered = sorted(self.session.answered)
        self.run.journal.write(
            "given_up", serial=self.session.name.serial, stage=self.session.stage, answered=answered, detail=str(error)
        )
        self.run.progress.say(f"round {self.session.name.round} is given up and begins again: {error.detail}")
        self._begin()

    def _enrol(self) -> None:
        """Count all sites anew, since some have lost what is counted for them."""
        self.run.journal.write("enrolled", enrolment=self.ledger.enrolment + 1, lost=sorted(self.lost))
        self.run.mailbox.forget(lambda sent: sent.kind in STAGES)
        self.ledger.enrol()
        self._begin()
