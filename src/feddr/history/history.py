"""The record of a run: one row for each evaluation, always at xbar."""

import contextlib
import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddr.display import Card, as_html, as_text, megabytes, number, percent
from feddr.history.clients import ClientHistory
from feddr.storage import untrusted

if TYPE_CHECKING:
    import pandas as pd

NAN = math.nan


@dataclass(frozen=True)
class Row:
    """The state of a run at an evaluation; counters count from the start, NaN stands for "not measured".

    Parameters
    ----------
    round
        Rounds completed, or updates of the server where clients do not wait for each other.
    time
        Virtual time, where the engine has a clock.
    wall_time
        Seconds since the start, compilation and evaluations included.
    bytes_up, bytes_down
        Sent by all clients to the server, and by the server to all clients.
    F, f, g
        F(xbar) = f(xbar) + g(xbar), with f = sum_i w_i f_i.
    train_loss, train_accuracy, test_accuracy
        Means over all samples of all clients at xbar.
    gradient_mapping
        Norm of G_1(xbar), which is the gradient of f where g = 0, for every algorithm alike.
    sparsity
        Share of exact zeros among the entries of xbar that g acts on, so without those that its mask leaves alone; of
        all entries where there is no g.
    local_steps
        Gradients computed by the local solvers.
    prox_error
        The largest certified distance to an exact prox since the last row; NaN where the solver certifies none. Where
        the curvature is an estimate it is a bound for convex losses, and an estimate for others.
    personal_train_loss, personal_train_accuracy, personal_test_accuracy
        The same means with each client's own model on its own samples, over the clients that have taken part. They
        belong to another question than those at xbar and must not be compared with them.
    staleness_mean, staleness_max
        Of the updates since the last row, where the engine has a clock and clients do not wait for each other: how
        often xbar had changed between an update's start and its arrival.
    skipped
        Updates that were left out because they held a NaN or an infinity, where the run was asked to skip those.
    metrics
        Further metrics at xbar by name, those that the run was asked for: ``test_f1``, ``worst_client_test_accuracy``;
        and ``epsilon`` and ``delta``, what has been spent, where the method is private.

    Examples
    --------
    >>> row = Row(round=10, F=0.5, bytes_up=800, metrics={"test_f1": 0.75})
    >>> row.F, row.test_accuracy, row.value("f1")
    (0.5, nan, 0.75)
    """

    round: int
    time: float = NAN
    wall_time: float = NAN
    bytes_up: int = 0
    bytes_down: int = 0
    F: float = NAN
    f: float = NAN
    g: float = NAN
    train_loss: float = NAN
    train_accuracy: float = NAN
    test_accuracy: float = NAN
    gradient_mapping: float = NAN
    sparsity: float = NAN
    local_steps: int = 0
    prox_error: float = NAN
    personal_train_loss: float = NAN
    personal_train_accuracy: float = NAN
    personal_test_accuracy: float = NAN
    staleness_mean: float = NAN
    staleness_max: float = NAN
    skipped: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, float]:
        """Return everything in the row by name, the further metrics last."""
        return {name: getattr(self, name) for name in COLUMNS} | dict(self.metrics)

    def value(self, name: str) -> float:
        """Return a column or a metric; ``"f1"`` is that on the test part, or on the training part without one.

        Raises
        ------
        ValueError
            Where the row has none of this name.
        """
        if name in COLUMNS:
            return float(getattr(self, name))
        for full in (name, f"test_{name}", f"train_{name}"):
            if full in self.metrics:
                return float(self.metrics[full])
        raise ValueError(f"A row has {', '.join(self.to_dict())}, got {name!r}; ask the run for it with metrics=[...].")


COLUMNS = tuple(column.name for column in fields(Row) if column.name != "metrics")
MEASURES = (
    ("F", "F", number),
    ("train_loss", "training loss", number),
    ("train_accuracy", "training accuracy", percent),
    ("test_accuracy", "test accuracy", percent),
    ("sparsity", "zeros where g acts", percent),
)
"""Columns that a description has, from the first evaluation to the last."""
COUNTERS = {"round", "bytes_up", "bytes_down", "local_steps", "skipped"}


@dataclass
class History:
    """The rows of a run, oldest first.

    Parameters
    ----------
    rows
        One for each evaluation.
    clients
        The metrics of each client at these evaluations, where the run was asked for them with ``per_client=True``.

    Examples
    --------
    >>> history = History([Row(round=0, F=2.0), Row(round=10, F=0.5)])
    >>> history.last.F, history.column("round")
    (0.5, [0, 10])
    >>> history.to_pandas()[["round", "F"]].shape
    (2, 2)
    """

    rows: list[Row] = field(default_factory=list)
    clients: ClientHistory = field(default_factory=ClientHistory)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last(self) -> Row:
        """The newest row."""
        return self.rows[-1]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The further metrics that were asked for, in the order in which they were measured.

        One that every history has, such as ``train_accuracy``, is not a further one.
        """
        return tuple(dict.fromkeys(name for row in self.rows for name in row.metrics if name not in COLUMNS))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, further metrics last."""
        return (*COLUMNS, *self.metrics)

    def _card(self) -> Card:
        if not self.rows:
            return Card("History", {"evaluations": "none"})
        first, last = self.rows[0], self.rows[-1]
        facts = {"evaluations": f"{len(self.rows)}, of rounds {first.round} to {last.round}"}
        for name, title, text in MEASURES:
            values = [value for value in self.column(name) if not math.isnan(value)]
            if values:
                facts[title] = f"{text(values[0])} to {text(values[-1])}" if len(values) > 1 else text(values[0])
        if last.bytes_up + last.bytes_down:
            facts["sent"] = megabytes(last.bytes_up + last.bytes_down)
        names = ("F", "test_accuracy")
        return Card("History", facts, {name.replace("_", " "): self.column(name) for name in names})

    __repr__, _repr_html_ = as_text, as_html

    def column(self, name: str) -> list[float]:
        """Return the values of one column; of a metric NaN where it was not measured."""
        if name in COLUMNS:
            return [getattr(row, name) for row in self.rows]
        if name not in self.metrics:
            raise ValueError(f"A history has the columns {', '.join(self.columns)}, got {name!r}.")
        return [row.metrics.get(name, NAN) for row in self.rows]

    def to_pandas(self) -> "pd.DataFrame":
        """Return a table with one row for each evaluation."""
        import pandas as pd

        return pd.DataFrame([row.to_dict() for row in self.rows], columns=list(self.columns))

    def to_csv(self, path: str | Path) -> None:
        """Write a CSV file from which ``from_csv`` reads the same numbers; ``clients`` has a file of its own."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, restval="nan")
            writer.writeheader()
            writer.writerows(row.to_dict() for row in self.rows)

    @classmethod
    def from_csv(cls, path: str | Path, older: bool = False) -> "History":
        """Read what ``to_csv`` wrote: the columns of every history, and after them metrics.

        Parameters
        ----------
        older
            Whether it may be from before a column was added, which is then as if not measured.

        Raises
        ------
        ValueError
            Where the file is no history; it names the line.
        """
        names, *lines = untrusted.read(Path(path)).decode().splitlines() or [""]
        columns = names.split(",")
        known = [name for name in columns if name in COLUMNS]
        metrics = columns[len(known) :]
        whole = tuple(known) == COLUMNS or (older and "round" in known)
        if columns[: len(known)] != known or not whole or not all(map(str.isidentifier, metrics)):
            raise ValueError(f"{path} is not a history: its first line must begin with {','.join(COLUMNS)}.")
        if len(set(columns)) < len(columns):
            raise ValueError(f"{path} is not a history: its first line has a column twice.")
        rows = []
        for line_number, line in enumerate(lines, start=2):
            try:
                texts = zip(columns, line.split(","), strict=True)
                values: dict[str, Any] = {k: int(v) if k in COUNTERS else float(v) for k, v in texts}
            except ValueError as error:
                raise ValueError(f"{path}, line {line_number} is not a row of a history: {error}.") from None
            rows.append(Row(**{name: values[name] for name in known}, metrics={name: values[name] for name in metrics}))
        return cls(rows)


def read_rows(path: Path) -> list[dict[str, float]]:
    r"""Return what can be read of a history of any version of feddr, also while it is being written.

    Columns that are not known, lines that are no rows, and the half of a line at the end are left out; ValueError
    where there is no column ``round``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "history.csv"
    ...     _ = file.write_text("round,F\n0,2.5\n10,0.5\n20,0.")
    ...     read_rows(file)
    [{'round': 0.0, 'F': 2.5}, {'round': 10.0, 'F': 0.5}]
    """
    text = untrusted.read(path).decode()
    names, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]
    columns = names.split(",")
    if "round" not in columns:
        raise ValueError("a history has a column round")
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError):  # half a line, from a disk that was full
            values = dict(zip(columns, line.split(","), strict=True))
            row = {name: float(value) for name, value in values.items() if name in COLUMNS}
            if math.isfinite(row["round"]):
                rows.append(row | _metrics(values))
    return rows


PARTS = ("test_", "validation_", "train_")
"""How the names of metrics of a part begin."""

SPENT = ("epsilon", "delta")
"""Columns of private methods."""


def _metrics(values: Mapping[str, str]) -> dict[str, float]:
    """Return those of the values that are metrics of a part, or of clients; other columns are another version's."""
    metrics = {}
    for name, value in values.items():
        if (
            name not in COLUMNS
            and name.isidentifier()
            and ("_client_" in name or name.startswith(PARTS) or name in SPENT)
        ):
            with contextlib.suppress(ValueError):
                metrics[name] = float(value)
    return metrics
