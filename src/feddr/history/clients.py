"""The record of every client in a run: its metrics at xbar, at each evaluation that was asked for them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddr.storage import untrusted

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

CLIENT_METRICS = "client_metrics.csv"
"""The file of such a table in the folder of a run; clients.csv there is what data the clients have."""

KEYS = ("round", "client")


@dataclass
class ClientHistory:
    """A table of clients for each evaluation, oldest first; empty where it was not asked for.

    Parameters
    ----------
    tables
        For each round that was evaluated, its columns: ``client``, whole numbers, and metrics with one value a client,
        NaN where a client has no samples for it.

    Examples
    --------
    >>> history = ClientHistory()
    >>> history.add(10, {"client": [0, 1], "test_accuracy": [0.5, 0.75]})
    >>> history.columns, history.last["test_accuracy"].tolist()
    (('test_accuracy',), [0.5, 0.75])
    >>> history.to_pandas()["round"].tolist()
    [10, 10]
    """

    tables: "dict[int, dict[str, NDArray[Any]]]" = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def columns(self) -> tuple[str, ...]:
        """The metrics, in the order in which they were measured."""
        names = dict.fromkeys(name for table in self.tables.values() for name in table)
        return tuple(name for name in names if name != "client")

    @property
    def last(self) -> "Mapping[str, NDArray[Any]]":
        """The newest table."""
        return self.tables[max(self.tables)]

    def add(self, number: int, columns: "Mapping[str, ArrayLike]") -> None:
        """Add the table of a round by its number: ``client`` and metrics, with one value a client each."""
        import numpy as np  # the command line would wait for it

        kinds = {name: np.int64 if name == "client" else np.float64 for name in columns}
        self.tables[int(number)] = {name: np.asarray(columns[name], kind) for name, kind in kinds.items()}

    def to_pandas(self) -> "pd.DataFrame":
        """Return a table with one row for each client at each evaluation."""
        import pandas as pd

        tables = [pd.DataFrame({"round": number, **table}) for number, table in self.tables.items()]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(KEYS))

    def to_csv(self, path: str | Path) -> None:
        """Write a CSV file from which ``from_csv`` reads the same numbers."""
        names = ("client", *self.columns)
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("round", *names))
            for number, table in self.tables.items():
                missing = [float("nan")] * len(table["client"])
                columns = [table[name].tolist() if name in table else missing for name in names]
                writer.writerows((number, *values) for values in zip(*columns, strict=True))

    @classmethod
    def from_csv(cls, path: str | Path) -> "ClientHistory":
        """Read what ``to_csv`` wrote.

        Raises
        ------
        ValueError
            Where the file is no such table; it names the line.
        """
        names, *lines = untrusted.read(Path(path)).decode().splitlines() or [""]
        columns = names.split(",")
        if tuple(columns[:2]) != KEYS:
            raise ValueError(f"{path} is not a table of clients: its first line must begin with {','.join(KEYS)}.")
        tables: dict[int, list[list[float]]] = {}
        for number, line in enumerate(lines, start=2):
            try:
                first, client, *values = line.split(",")
                if len(values) != len(columns) - 2:
                    raise ValueError(f"it needs {len(columns)} values, it has {len(values) + 2}")
                tables.setdefault(int(first), []).append([int(client), *map(float, values)])
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is not a row of a table of clients: {error}.") from None
        history = cls()
        for number, rows in tables.items():
            history.add(number, dict(zip(columns[1:], zip(*rows, strict=True), strict=True)))
        return history
