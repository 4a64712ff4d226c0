"""The first step of a deployment with tables: all sites agree on one preparation, and no row leaves its site.

What travels are the statistics of ``preparation.statistics`` and, for medians, counts of values below thresholds. The
preparation that comes of them is that of the pooled rows. It is written to the run's folder before the first update,
so a run that resumes asks for nothing again, and cannot go on with another one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from flwr.serverapp import Grid

from feddr.flower.deployment import HOPELESS, LONGEST_WAIT, Abandoned
from feddr.flower.federation import Federation
from feddr.flower.journal import Journal, plain
from feddr.flower.mailbox import GONE, Mailbox, Reply, TimeSource
from feddr.flower.membership import Membership, Pauses
from feddr.flower.messages import TableAnswer, TableQuestion
from feddr.flower.progress import ProgressTable
from feddr.flower.refused import Refused
from feddr.flower.settings import Settings
from feddr.flower.shared_table import SharedTable
from feddr.preparation import Preparation, SiteStatistics, common_medians, common_preparation
from feddr.storage import atomic, untrusted

FILE = "preparation.json"
LARGEST = 2**24
"""Characters of an answer."""

T = TypeVar("T")


def agreed(
    grid: Grid, federation: Federation, settings: Settings, clock: TimeSource, progress: ProgressTable
) -> Federation:
    """Return the federation with the preparation and the start that its sites agree on, from the disk or from them.

    Raises
    ------
    Abandoned
        Where a site does not answer within the run's patience, or every site fails.
    ValueError
        Where the run began with another table.
    """
    table, path = federation.init, settings.run_folder / FILE
    if not isinstance(table, SharedTable):
        return federation
    if path.is_file():
        stored = untrusted.json(path)
        if stored["table"] != table.digest:
            raise ValueError(
                f"A run is resumed with the table that it began with, {path} has another one; give the new run another "
                "name."
            )
        return federation.prepared(Preparation.from_dict(stored["preparation"]))
    progress.say(f"waiting for the statistics of {federation.clients} clients, to prepare their tables alike")
    preparation = Sites(grid, federation.clients, table, settings, clock).preparation()
    text = json.dumps({"table": table.digest, "preparation": preparation.to_dict()}, indent=1, allow_nan=False)
    atomic.write(path, f"{text}\n".encode())
    return federation.prepared(preparation)


class Sites:
    """The nodes as sites of a table: asks each of them, until all have answered."""

    def __init__(self, grid: Grid, clients: int, table: SharedTable, settings: Settings, clock: TimeSource) -> None:
        self.clients, self.table, self.settings, self.clock = clients, table, settings, clock
        self.journal = Journal(settings.run_folder / "log.jsonl")
        self.mailbox = Mailbox(grid, clock, settings.ttl, self.journal)
        self.membership = Membership(self.mailbox, self.journal, clock, settings.name, clients, False, False)

    def preparation(self) -> Preparation:
        """Return the preparation of the pooled training rows."""
        table, sites = self.table, self._ask("", self._statistics)
        medians = None
        if table.missing == "median":
            known = {name: sum(site.numeric[name].known for site in sites) for name in table.numeric}
            medians = common_medians(known, self._counted)
        common = common_preparation(
            sites,
            standardise=table.standardise,
            medians=medians,
            reference=table.reference,
            unknown=table.unknown,
            label=table.label,
        )
        self.journal.write("prepared", features=len(common.features), classes=len(common.classes))
        return common

    def _counted(self, thresholds: Mapping[str, Sequence[float]]) -> dict[str, Sequence[int]]:
        """Return how many values of all sites are at most each threshold."""

        def read(answer: Any) -> dict[str, Any]:
            if not isinstance(answer, dict) or set(answer) != set(thresholds):
                raise Refused("malformed", f"counts are of the columns {list(thresholds)[:5]}")
            for name, counts in answer.items():
                whole = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
                if not whole or len(counts) != len(thresholds[name]):
                    raise Refused("malformed", f"{name} needs {len(thresholds[name])} counts")
            return answer

        answers = self._ask(json.dumps({name: list(levels) for name, levels in thresholds.items()}), read)
        return {name: np.sum([one[name] for one in answers], axis=0).tolist() for name in thresholds}

    def _statistics(self, answer: Any) -> SiteStatistics:
        try:
            site = SiteStatistics.from_dict(answer)
        except ValueError as error:
            raise Refused("malformed", str(error)) from None
        if (tuple(site.numeric), tuple(site.categorical)) != (self.table.numeric, self.table.categorical):
            raise Refused("malformed", "statistics are of the columns of the shared table, in their order")
        return site

    def _ask(self, thresholds: str, read: Callable[[Any], T]) -> list[T]:
        """Return the answers of all clients in their order; whoever fails is asked again after a pause."""
        answers: dict[int, T] = {}
        pauses, begin, complaint = Pauses(self.clock), self.clock.now(), ""
        question = TableQuestion(self.settings.name, self.table.digest, thresholds, self.clients)
        while True:
            self.membership.refresh()
            here, busy = self.membership.node_of, self.mailbox.busy("table")
            for i in sorted(here.keys() - answers.keys() - busy):
                if pauses.over(i) and not self.mailbox.send("table", here[i], question.content(), client=i):
                    pauses.failed(i)
            for reply in self.mailbox.answers():
                if reply.sent.kind == "hello":
                    self.membership.take(reply)
                    continue
                i = reply.sent.client
                try:
                    answers[i] = read(self._text(reply))
                except Refused as refused:
                    pauses.failed(i)
                    complaint = plain(f"client {i}: {refused}")
                    self.journal.write("table_refused", client=i, reason=refused.reason, detail=refused.detail)
            if len(answers) == self.clients:
                self.journal.write("answered", what="counts" if thresholds else "statistics")
                return [answers[i] for i in range(self.clients)]
            self._check(sorted(set(range(self.clients)) - answers.keys()), pauses, begin, complaint)
            self.clock.sleep(LONGEST_WAIT)

    def _text(self, reply: Reply) -> Any:
        """Return what a node has answered, read as JSON."""
        if reply.content is None:
            if reply.code == GONE:
                self.membership.failed(reply.sent.node)
            raise Refused("malformed", f"Flower's error {reply.code}: {reply.reason}")
        answer = TableAnswer.read(reply.content)
        if (answer.run, answer.client) != (self.settings.name, reply.sent.client) or len(answer.text) > LARGEST:
            raise Refused("foreign", "it answers another question, or at too great a length")
        try:
            return json.loads(answer.text)
        except (ValueError, RecursionError):
            raise Refused("malformed", "an answer must be JSON") from None

    def _check(self, missing: list[int], pauses: Pauses, begin: float, complaint: str) -> None:
        """Raise where waiting for these clients is of no use, or has taken too long."""
        if all(pauses.failures.get(i, 0) >= HOPELESS for i in missing):
            raise Abandoned(f"The tables cannot be prepared alike, clients {missing[:10]} fail; {complaint}")
        patience = self.settings.patience
        if patience is not None and self.clock.now() - begin > patience:
            raise Abandoned(
                f"A common preparation needs the statistics of every client, {missing[:10]} have not answered within "
                f"{patience:g} s; start their nodes, or look at {self.journal.path}. {complaint}".strip()
            )
