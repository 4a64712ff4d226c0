"""A deployed run in progress: tasks are sent, uploads are received, validated, and accepted into the ledger."""

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from flwr.app import RecordDict

from feddr.algorithms import Asynchronous, Deployable
from feddr.flower import identity, steps, validate, wire
from feddr.flower.checkup import Checkups
from feddr.flower.federation import Federation
from feddr.flower.journal import Journal, plain
from feddr.flower.leaving import departures
from feddr.flower.ledger import Ledger
from feddr.flower.mailbox import GONE, Mailbox, Reply, TimeSource
from feddr.flower.membership import Membership, Pauses
from feddr.flower.messages import Metrics, TaskHeader
from feddr.flower.metrics import MetricsWriter
from feddr.flower.private import PrivacyWatch
from feddr.flower.progress import ClientStatus, ProgressTable
from feddr.flower.refused import Refused
from feddr.flower.settings import Settings
from feddr.flower.stopping import EarlyEnd
from feddr.flower.wire import Broadcast
from feddr.history import Row
from feddr.sampling import Sampling

FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0
"""Seconds between looks for replies: the first while something happens, growing to the second while nothing does."""

GROWTH = 1.05
"""Each wait is so much longer than the last; after t seconds of silence it is about 0.1 + 0.05 t."""

HOPELESS = 5
"""Failures in a row of every client that is there, and never a success, after which the run ends."""


class Abandoned(TimeoutError):  # noqa: N818  it says what became of the run
    """Nothing was accepted for longer than ``patience``, or every client fails from the start.

    Examples
    --------
    >>> raise Abandoned("Nothing was accepted for 600 s.")
    Traceback (most recent call last):
    feddr.flower.deployment.Abandoned: Nothing was accepted for 600 s.
    """


class Services(NamedTuple):
    """What a server works with: clock, mailbox, membership, log and terminal output."""

    clock: TimeSource
    mailbox: Mailbox
    membership: Membership
    journal: Journal
    progress: ProgressTable


class Deployment:
    """A run in progress: sends tasks, receives replies, and commits each accepted upload to the ledger.

    Parameters
    ----------
    ledger
        What the server counts for each client, on disk.
    metrics
        The history, on disk.
    """

    def __init__(
        self,
        federation: Federation,
        algorithm: Deployable,
        sampling: Sampling,
        settings: Settings,
        ledger: Ledger,
        metrics: MetricsWriter,
        services: Services,
    ) -> None:
        self.federation, self.algorithm, self.sampling, self.settings = federation, algorithm, sampling, settings
        self.ledger, self.metrics = ledger, metrics
        clock, mailbox, membership, journal, self.progress = services
        self.clock, self.mailbox, self.membership, self.journal = clock, mailbox, membership, journal
        self.rules = identity.rules(algorithm, settings.precision, federation.init, settings.secure)
        self.asynchronous = isinstance(algorithm, Asynchronous)
        self.probabilities = sampling.probabilities(federation.clients)
        self.sites = 0  # uploads of which the next step is made, at least; the schedule sets it
        self.statuses = {i: ClientStatus(number=ledger.number(i)) for i in range(federation.clients)}
        self.pauses = Pauses(clock)
        self.checkups = Checkups(mailbox, membership, journal, clock, settings.name)
        self.process_start = clock.now()
        self.run_start = self.process_start - ledger.counters.wall_time
        self.last_answer: float | None = None
        self._complaint = ""
        self._interval = FIRST_WAIT
        self._broadcast: tuple[int, Broadcast] | None = None
        self.watch = PrivacyWatch(getattr(algorithm, "privacy", None))
        self.takers: dict[str, Callable[[Reply], None]] = {}  # who takes the replies that are no plain uploads
        self.end = EarlyEnd(settings.stopping, metrics.history, ledger, journal)

    def message(self) -> Broadcast:
        """Return the newest broadcast, encoded once, so that no client gets parts of two versions."""
        version = self.ledger.version
        if self._broadcast is None or self._broadcast[0] != version:
            content, download = self.algorithm.broadcast(self.ledger.server), getattr(self.algorithm, "download", None)
            self._broadcast = version, wire.broadcast(content, self.settings.dtype, self.settings.broadcast, download)
        return self._broadcast[1]

    def send(self, clients: Sequence[int]) -> list[int]:
        """Send the newest broadcast to those of the clients that can work now, and return them."""
        here = self.membership.node_of.keys() - self.mailbox.busy("train") - self.ledger.left
        ready = [i for i in clients if i in here and self.pauses.over(i)]
        return [i for i in ready if self._task("train", i, self.message())]

    def let_go(self) -> None:
        """Let clients leave that were asked to: nothing is awaited from them, and the broadcast is another one."""
        gone = set(departures(self.ledger, self.journal))
        if gone:
            self.mailbox.forget(lambda sent: sent.client in gone)
            self.metrics.save_model(self.ledger.server.xbar)
            self._broadcast = None

    def arrivals(self, buffer: int | None = None) -> Iterator[int]:
        """Process new replies, and yield the client of every upload that was accepted and committed to the ledger.

        With ``buffer``, the server computes whenever so many have been accepted.
        """
        self.membership.refresh()
        self.checkups.ask()
        for answer in self.mailbox.answers():
            self._interval = FIRST_WAIT
            sent, content = answer.sent, answer.content
            if content is not None:
                self.ledger.counters.bytes_up += wire.size(content)
            try:
                if sent.kind == "hello":
                    self.membership.take(answer)
                elif sent.kind == "checkup":
                    self.checkups.take(answer)
                elif content is None:
                    self._failed(answer)
                elif sent.kind == "evaluate":
                    self._measured(answer)
                elif sent.kind in self.takers:
                    self.takers[sent.kind](answer)
                else:
                    accepted = self._accept(answer)
                    replies = len(self.ledger.pending)
                    full = buffer is not None and replies >= buffer
                    if full:
                        self.ledger.step()
                    else:
                        self.ledger.commit()
                    self.journal.write("accepted", **accepted)  # only now: a line of the journal is never taken back
                    if full:
                        self.stepped(replies)
                    yield sent.client
            except Refused as refused:
                self._refused(answer, refused)

    def wait(self, missing: Sequence[int] = ()) -> None:
        """Wait a moment; Abandoned where nothing has been accepted for too long, or nothing ever can be."""
        self._show()
        here = self.membership.node_of
        if self.last_answer is None and here and all(self.pauses.failures.get(i, 0) >= HOPELESS for i in here):
            raise Abandoned(
                f"Every client has failed {HOPELESS} times and none has succeeded; the last one said: {self._complaint}"
            )
        patience = self.settings.patience
        if patience is not None and self.clock.now() - (self.last_answer or self.process_start) > patience:
            who = f"clients {list(missing)[:10]}" if missing else "anybody"
            raise Abandoned(
                f"No update was accepted for {patience:g} s, waiting for {who}; look at {self.journal.path}, start the "
                "nodes, and submit the run again under the same name."
            )
        self.clock.sleep(self._interval)
        self._interval = min(GROWTH * self._interval, LONGEST_WAIT)

    def step(self, order: Sequence[int] | None = None) -> None:
        """Aggregate, go to the next version, and add a row to the history if it is to have one."""
        replies = len(self.ledger.pending)
        self.ledger.step(order)
        self.stepped(replies)

    def stepped(self, replies: int) -> None:
        """Write down that the server has aggregated so many uploads, and report."""
        self.journal.write("step", version=self.ledger.version, replies=replies)
        self.end.look()
        self.report()

    def report(self) -> None:
        """Add a row to the history, if this version is to have one and has none yet."""
        version, last = self.ledger.version, self.ledger.version >= self.settings.rounds or bool(self.end.reason)
        if version <= self.metrics.newest or not (version % self.settings.evaluate_every == 0 or last):
            return
        spent = self.watch.columns(self.ledger.spent(range(self.federation.clients)))
        row = self.metrics.add(version, self.ledger.server.xbar, self.ledger.counters, self.asynchronous, spent)
        self.ledger.counters.begin_row()
        self._tell(row)
        if self.federation.evaluation == "nodes":
            xbar = wire.broadcast(self.ledger.server.xbar, self.settings.dtype, self.settings.broadcast)
            for i in sorted(self.membership.node_of.keys() - self.ledger.left):
                self._task("evaluate", i, xbar)

    def finish(self) -> None:
        """Wait for the last metrics of the nodes, as long as a task may take or a quarter of an hour."""
        self.mailbox.forget(lambda sent: sent.kind != "evaluate")
        end = self.clock.now() + min(self.settings.ttl, 900.0)
        while self.mailbox.awaited and self.clock.now() < end:
            for _ in self.arrivals():
                raise AssertionError("no task is awaited any more")
            self._show()
            self.clock.sleep(LONGEST_WAIT)
        self.ledger.commit()
        self.journal.write("audit", error=self.ledger.audit())
        self._show(final=True)

    def _task(self, kind: str, i: int, broadcast: Broadcast) -> bool:
        """Send a client a task, to train or to evaluate, and return whether Flower has accepted it."""
        task = self.header(i, self.metrics.asked if kind == "evaluate" else "")
        return self.deliver(kind, i, task.content(broadcast.record), task.ticket, broadcast.message, broadcast.form)

    def header(self, i: int, metrics: str = "") -> TaskHeader:
        """Return what any task tells a client, with a new ticket; ``metrics`` are those that it is to evaluate."""
        return TaskHeader(
            run=self.settings.name,
            uid=self.ledger.uid,
            ticket=secrets.token_hex(8),
            rules=self.rules,
            client=i,
            version=self.ledger.version,
            accepted=self.ledger.number(i),
            counted=identity.digest(self.ledger.value(i)) if self.ledger.compresses else "",
            seed=self.settings.seed,
            round=self.ledger.version + 1,
            probability=float(self.probabilities[i]),
            precision=self.settings.precision,
            preparation=self.federation.preparation_text,
            metrics=metrics,
            sites=self.sites,
            **steps.own_numbers(self.ledger.roles, i),
        )

    def deliver(self, kind: str, i: int, content: RecordDict, ticket: str, message: Any, form: str = "") -> bool:
        """Send a client a message with its header, and return whether Flower has accepted it."""
        node, version = self.membership.node_of[i], self.ledger.version
        details = {"client": i, "ticket": ticket, "version": version, "message": message}
        if not self.mailbox.send(kind, node, content, **details):
            self.pauses.failed(i)
            return False
        size = wire.size(content)
        self.ledger.counters.bytes_down += size
        event = {"train": "sent", "evaluate": "evaluating"}.get(kind, f"asked_{kind}")
        self.journal.write(event, client=i, node=str(node), version=version, bytes=size, form=form)
        return True

    def _accept(self, answer: Reply) -> dict[str, Any]:
        """Put an upload into the ledger, where it counts once committed, and return what the journal will say of it."""
        sent, ledger = answer.sent, self.ledger
        upload, value = validate.read(answer.content, sent, ledger, self.settings)
        staleness = ledger.version - sent.version
        factor = self.algorithm.factor(staleness) if isinstance(self.algorithm, Asynchronous) else 1.0
        ledger.accept(sent.client, upload.number, value, sent.message, factor, upload.spent)
        ledger.counters.add(upload.steps, upload.error, staleness)
        ledger.counters.wall_time = self.clock.now() - self.run_start
        limit = getattr(self.algorithm, "tau", None)
        if limit is not None and staleness > limit:
            self.journal.write("too_stale", client=sent.client, staleness=staleness, tau=limit)
        self.pauses.succeeded(sent.client)
        self.last_answer = now = self.clock.now()
        standing = self.statuses[sent.client]
        standing.last, standing.staleness, standing.number = now, staleness, upload.number
        return {
            "client": sent.client,
            "node": str(sent.node),
            "number": upload.number,
            "version": sent.version,
            "staleness": staleness,
            "rejoined": upload.rejoined,
            "seconds": round(now - sent.time, 3),
        }

    def _measured(self, answer: Reply) -> None:
        sent = answer.sent
        assert answer.content is not None
        metrics = Metrics.read(answer.content)
        if (metrics.uid, metrics.ticket, metrics.client) != (self.ledger.uid, sent.ticket, sent.client):
            raise Refused("foreign", "these metrics answer another question")
        withheld = metrics.samples == 0 and math.isnan(metrics.loss)
        if (metrics.samples < 1 and not withheld) or metrics.test_samples < 0:
            raise Refused("malformed", f"numbers of samples are positive, got {metrics.samples}")
        row = self.metrics.report(sent.version, metrics)
        if row is not None:
            self._tell(row)

    def _refused(self, answer: Reply, refused: Refused) -> None:
        sent = answer.sent
        self.pauses.failed(sent.client)
        details = {"client": sent.client, "node": str(sent.node)}
        self.journal.write("refused", reason=refused.reason, detail=refused.detail, **details)
        self._complain(f"refused from client {sent.client}: {refused}")

    def _failed(self, answer: Reply) -> None:
        sent = answer.sent
        self.pauses.failed(sent.client)
        if answer.code == GONE:
            self.membership.failed(sent.node)
        self.journal.write("error", client=sent.client, node=str(sent.node), code=answer.code, reason=answer.reason)
        self._complain(f"client {sent.client} has failed, Flower's error {answer.code}: {answer.reason}")

    def _complain(self, complaint: str) -> None:
        self._complaint = plain(complaint)
        self.progress.say(self._complaint)

    def _tell(self, row: Row) -> None:
        self.progress.row = row
        self.end.look()
        known = {name: value for name, value in row.to_dict().items() if value == value}
        self.journal.write("row", **known)

    def _show(self, final: bool = False) -> None:
        busy = self.mailbox.busy("train", "masked")
        for i, standing in self.statuses.items():
            standing.here, standing.working = i in self.membership.node_of, i in busy
        self.progress.show(self.ledger.version, self.statuses, self.clock.now(), final)
