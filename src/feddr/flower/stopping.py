"""Ends a deployed run early, by the rule of ``feddr.StopWhen``: what the server knows, and what is measured.

Time and bytes are looked at after every step of the server, metrics as they come in. Those of nodes come a little
after the version that they are about, so a run may be some rounds further by then.
"""

import math

from feddr.early_stopping import StopWhen
from feddr.flower.federation import Federation
from feddr.flower.journal import Journal
from feddr.flower.ledger import Ledger
from feddr.history import COLUMNS, History, Row
from feddr.metrics import choose
from feddr.metrics.sums import SUMS
from feddr.problem import Problem

KNOWN = ("g", "sparsity")
"""What the server measures without any data."""

REPORTED = (*KNOWN, "F", "f", "train_loss", "train_accuracy", "test_accuracy")
"""What it knows where nodes evaluate."""


def check(rule: StopWhen | None, federation: Federation) -> None:
    """Refuse a rule by a metric that nobody measures in this deployment."""
    if rule is None or rule.metric is None:
        return
    own = isinstance(federation.evaluation, Problem)
    measured = COLUMNS if own else REPORTED if federation.evaluation == "nodes" else KNOWN
    names = {
        f"{metric.part or part}_{metric.name}" for metric in choose(federation.metrics) for part in ("test", "train")
    }
    if rule.metric not in measured and rule.metric not in names | {name.partition("_")[2] for name in names}:
        remedy = "add it to the metrics of the Federation" if own else 'use evaluation="nodes", or a Problem of its own'
        if federation.evaluation == "nodes":
            remedy = f"nodes report {', '.join(REPORTED[2:])}, and {', '.join(SUMS)} with metrics=[...]"
        raise ValueError(f"stop_when needs {rule.metric}, which is not measured in this deployment; {remedy}.")


class EarlyEnd:
    """Says when a run is to end before its last round, and why; both follow from what is on the disk.

    Parameters
    ----------
    history, ledger
        Of the run, updated while it runs.
    journal
        Notified of the reason once.
    """

    def __init__(self, rule: StopWhen | None, history: History, ledger: Ledger, journal: Journal) -> None:
        self.rule, self.history, self.ledger, self.journal = rule, history, ledger, journal
        self.reason = ""
        self.look()

    def now(self, reason: str) -> None:
        """End the run for another reason, where there is one: an empty text is none."""
        if reason and not self.reason:
            self.reason = reason
            self.journal.write("stopping", version=self.ledger.version, reason=reason)

    def look(self) -> None:
        """Look whether the run is to end, and remember the reason."""
        if self.reason or self.rule is None:
            return
        counters, metric = self.ledger.counters, self.rule.metric
        self.reason = self.rule.spent(counters.wall_time, counters.bytes_up + counters.bytes_down)
        if not self.reason and metric is not None:
            # Rows that nodes have not filled in yet say nothing.
            known = History([row for row in self.history.rows if _has(row, metric)])
            self.reason = self.rule.reached(known) if known.rows else ""
        if self.reason:
            self.journal.write("stopping", version=self.ledger.version, reason=self.reason)


def _has(row: Row, metric: str) -> bool:
    values = row.to_dict()
    return any(values.get(name, math.nan) == values.get(name) for name in (metric, f"test_{metric}", f"train_{metric}"))
