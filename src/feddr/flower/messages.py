"""Message headers between server and nodes: their fields, and how they are checked.

A message holds one Flower ConfigRecord, whose fields are those of one of the classes below, and for tasks and uploads
one ArrayRecord. The same names of arrays travel in both directions, which is what Flower's privacy mods ask for.
"""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from feddr.flower.refused import Refused

FIELDS, ARRAYS = "feddr", "arrays"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of runs, which are names of folders, too."""


@dataclass(frozen=True)
class Note:
    """The fields of a message."""

    def content(self, arrays: ArrayRecord | None = None) -> RecordDict:
        """Return what travels."""
        values: dict[str, Any] = asdict(self)
        records: dict[str, Any] = {FIELDS: ConfigRecord(values)}
        return RecordDict(records if arrays is None else {**records, ARRAYS: arrays})

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """Return the fields of a message that has exactly them, each of its type; Refused otherwise."""
        record = content.get(FIELDS)
        if not isinstance(record, ConfigRecord):
            raise Refused("malformed", f"a message needs a record of fields called {FIELDS!r}")
        wanted: dict[str, Any] = {field.name: field.type for field in fields(cls)}
        if set(record) != set(wanted):
            raise Refused("malformed", f"a message needs the fields {sorted(wanted)}, got {sorted(record)[:20]}")
        for name, kind in wanted.items():
            if type(record[name]) is not kind:
                raise Refused("malformed", f"{name} must be {kind.__name__}, got {type(record[name]).__name__}")
        run = record.get("run", "run")
        if not isinstance(run, str) or not NAME.fullmatch(run):
            raise Refused("malformed", f"the name of a run must match {NAME.pattern}, got {str(run)[:80]!r}")
        values: dict[str, Any] = dict(record)
        return cls(**values)


@dataclass(frozen=True)
class Hello(Note):
    """The server's first message to a node, which asks whose it is.

    Parameters
    ----------
    samples, work
        Whether it asks for the number of samples, and for the length of the local work, too.
    preparation
        As in ``TaskHeader``; "" also where the sites have not agreed yet.
    """

    run: str
    samples: bool
    work: bool
    preparation: str = ""


@dataclass(frozen=True)
class Presence(Note):
    """A node's answer.

    Parameters
    ----------
    samples
        How many it has, -1 where the server has not asked.
    work
        The length T_i = lr x steps of an update's local work; NaN where the server has not asked, or where the solver
        stops when it is accurate enough.
    """

    run: str
    client: int
    samples: int
    work: float


@dataclass(frozen=True)
class TableQuestion(Note):
    """The server's question about the rows of a shared table.

    Parameters
    ----------
    table
        Digest of the table's settings, which server and node must agree on.
    thresholds
        JSON: numbers for each column, of which the node is to count the values that are at most as large; "" to ask
        for the statistics of the rows.
    sites
        How many sites the preparation will be made from.
    """

    run: str
    table: str
    thresholds: str
    sites: int = 0


@dataclass(frozen=True)
class TableAnswer(Note):
    """A node's answer, as JSON."""

    run: str
    client: int
    text: str


@dataclass(frozen=True)
class Checkup(Note):
    """The server's question to a node that is silent for long."""

    run: str
    client: int


@dataclass(frozen=True)
class Working(Note):
    """A node's answer: whether its client is at work, in whatever process."""

    run: str
    client: int
    working: bool


@dataclass(frozen=True)
class TaskHeader(Note):
    """What comes with a broadcast.

    Parameters
    ----------
    run, uid
        The run's name, and a number that distinguishes runs of the same name.
    ticket
        Names this task; the upload repeats it.
    rules
        Digest of the algorithm, the precision and the start, which server and node must agree on.
    version
        How often the server has aggregated.
    accepted
        The number of the last update that the server has accepted from this client, 0 for none.
    counted
        Digest of what the server counts for this client, where uploads are compressed; empty where they are absolute.
    seed, round, probability
        What the local solver may want to know.
    eta, alpha, alpha_decay
        The step size eta_i of this client, the relaxation, and how fast it falls to 1: they stand in for "auto" and
        for a list of step sizes, and are not used where the node's algorithm has a number. NaN where there is none.
    preparation
        How the sites of a shared table have agreed to make features of their rows, as JSON; "" without such a table.
    metrics
        Names of the metrics whose sums a task to evaluate asks for, with commas between them.
    sites
        The uploads, at least, of which the server will make its next step, for sites that have a rule about it.
    """

    run: str
    uid: str
    ticket: str
    rules: str
    client: int
    version: int
    accepted: int
    counted: str
    seed: int
    round: int
    probability: float
    precision: str
    eta: float
    alpha: float
    alpha_decay: float
    preparation: str = ""
    metrics: str = ""
    sites: int = 0


@dataclass(frozen=True)
class UploadHeader(Note):
    """What comes with the value that the server is to count for a client, or with the compressed way to it.

    Parameters
    ----------
    number
        Of this update among the client's own, from 1 on. A compressed upload is the way from the one before.
    version
        The server's version that it was computed from.
    rejoined
        Whether the client has lost its state and begun again from the broadcast.
    steps, error
        Gradients computed by the local solver, and its certified error or NaN.
    spent
        What the site has spent of its privacy, in all runs (``private.SiteAccount``); 0 without privacy.
    """

    run: str
    uid: str
    ticket: str
    client: int
    number: int
    version: int
    precision: str
    rejoined: bool
    steps: int
    error: float
    spent: float = 0.0


@dataclass(frozen=True)
class Metrics(Note):
    """A client's means at xbar over its own samples, and their numbers; NaN and 0 where none is there, or is told.

    Parameters
    ----------
    sums
        JSON: what the client tells of the metrics that the task asks for; "" where it asks for none.
    """

    uid: str
    ticket: str
    client: int
    loss: float
    accuracy: float
    samples: int
    test_accuracy: float
    test_samples: int
    sums: str = ""


def arrays(content: RecordDict) -> ArrayRecord:
    """Return the arrays of a message that has nothing else beside its fields."""
    record = content.get(ARRAYS)
    if not isinstance(record, ArrayRecord) or set(content) != {FIELDS, ARRAYS}:
        raise Refused("malformed", f"a message needs the records {FIELDS!r} and {ARRAYS!r}, got {sorted(content)[:20]}")
    return record
