"""Tables: a CSV file with a row for each sample and a column that says whose it is."""

import math
from collections.abc import Sequence
from csv import Error as CsvError
from csv import reader as csv_reader
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feddr.data import FederatedData
from feddr.datasets import files
from feddr.datasets.federate import Array, federate
from feddr.datasets.partition import by_column

MOST_CATEGORIES = 1000


def csv(
    path: str,
    client: str,
    label: str,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    regression: bool = False,
    standardise: bool = False,
    delimiter: str = ",",
    test_share: float = 0.1,
    seed: int = 0,
) -> FederatedData:
    r"""Return the rows of a CSV file as a federation: each value of the client column is a client.

    Parameters
    ----------
    path
        The file, in UTF-8, perhaps ``.gz``; its first line names the columns.
    client, label
        Names of the column that says whose a row is, and of the one to predict.
    numeric
        Columns with numbers; all that are not named otherwise by default.
    categorical
        Columns with one of a few words: each word of the file becomes a feature that is 0 or 1, named ``column=word``.
    regression
        Whether the label is a number to predict; otherwise its different values, sorted, are the classes 0, 1, ...
    standardise
        Whether to centre and scale each feature by the training rows of all clients together.
    delimiter
        What separates the columns.
    test_share
        Of each client's rows; 0 for no test part.
    seed
        Draws which rows are for testing.

    Returns
    -------
    FederatedData
        ``x``: float32, (rows, features), in the order numeric, categorical; ``y``: int32, or float32 for a regression.
        ``data.features``, ``data.classes`` and ``data.clients`` have the names.

    Raises
    ------
    ValueError
        With the line that has a missing or wrong value, or the column that is not there.

    Notes
    -----
    A missing number is refused: how to fill it in is a decision about your data, best made where they are kept.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "rows.csv")
    ...     _ = file.write_text("who,age,ill\nann,30,0\nann,40,1\nbob,50,1\n")
    ...     data = csv(str(file), client="who", label="ill", test_share=0)
    >>> data.clients, data.features, data.train.sizes.tolist()
    (('ann', 'bob'), ('age',), [2, 1])
    """
    source = _read(Path(path).expanduser(), delimiter)
    if numeric is None:
        numeric = [name for name in source.names if name not in (client, label, *categorical)]
    used = [client, label, *numeric, *categorical]
    _check_columns(source, used)
    words = {name: source.words(name, MOST_CATEGORIES) for name in categorical}
    width = len(numeric) + sum(len(found) for found, _ in words.values())
    if 4 * width * len(source.rows) > files.LIMIT:
        raise ValueError(
            f"{path}: {len(source.rows):,} rows of {width:,} features need {4 * width * len(source.rows):,} bytes, at "
            f"most {files.LIMIT:,} are given; choose columns or rows first."
        )
    x = np.zeros((len(source.rows), width), np.float32)
    features = list(numeric)
    for i, name in enumerate(numeric):
        x[:, i] = source.numbers(name)
    for name, (found, codes) in words.items():
        x[np.arange(len(codes)), len(features) + codes] = 1.0
        features += [f"{name}={word}" for word in found]
    y: Array
    classes: list[str] = []
    if regression:
        y = source.numbers(label)
    else:
        classes, y = source.words(label, MOST_CATEGORIES)
    owners, codes = source.words(client, len(source.rows))
    return federate(
        x,
        y,
        by_column(codes),
        test_share=test_share,
        seed=seed,
        standardise=standardise,
        features=features,
        classes=classes,
        names=owners,
    )


@dataclass(frozen=True)
class Table:
    """The rows of a file, the lines where they end, and the names of its columns."""

    path: Path
    names: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> list[str]:
        """Return the values of a column, none of which is empty."""
        place = self.names.index(name)
        values = [row[place].strip() for row in self.rows]
        if "" in values:
            raise ValueError(
                f"{self.path}, line {self.lines[values.index('')]}: column {name} is empty; fill it in, or leave the "
                "row or the column out."
            )
        return values

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return a column of finite numbers."""
        values = self.column(name)
        found = np.array([_number(value) for value in values])
        with np.errstate(over="ignore"):
            numbers = found.astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if len(wrong):
            raise ValueError(
                f"{self.path}, line {self.lines[wrong[0]]}: column {name} must hold finite numbers, got "
                f"{values[wrong[0]][:40]!r}; correct it, leave the column out, or name it as categorical."
            )
        return numbers

    def words(self, name: str, most: int) -> tuple[list[str], NDArray[np.int64]]:
        """Return the different values of a column, sorted, as numbers if they are, and the place of each row's."""
        values = self.column(name)
        words = sorted(set(values))
        if len(words) > most:
            raise ValueError(
                f"{self.path}: column {name} has {len(words)} different values, at most {most} are categories; if it "
                "holds numbers, name it as numeric, or use regression for a label."
            )
        if all(math.isfinite(_number(word)) for word in words):
            words.sort(key=float)
        place = {word: i for i, word in enumerate(words)}
        return words, np.array([place[value] for value in values])


def _read(path: Path, delimiter: str) -> Table:
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, got {delimiter!r}.")
    reader = csv_reader(files.lines(path), delimiter=delimiter, strict=True)
    try:
        table = Table(path, [name.strip() for name in next(reader, [])], [], [])
        for row in reader:
            if row and len(row) != len(table.names):
                raise ValueError(
                    f"{path}, line {reader.line_num}: needs {len(table.names)} values, one for each column, it has "
                    f"{len(row)}."
                )
            if row:
                table.rows.append(row)
                table.lines.append(reader.line_num)
    except CsvError as error:
        raise ValueError(f"{path}, line {reader.line_num}: not a table ({error}).") from None
    if not table.rows:
        raise ValueError(f"{path}: needs a line with the names of the columns and a line for each sample, it has none.")
    return table


def _check_columns(table: Table, used: Sequence[str]) -> None:
    for name in used:
        if name not in table.names:
            raise ValueError(f"{table.path}: has no column {name}; it has {', '.join(table.names)}.")
        if table.names.count(name) > 1:
            raise ValueError(f"{table.path}: column {name} stands twice in line 1; columns need different names.")
        if used.count(name) > 1:
            raise ValueError(f"column {name} can be one of client, label, numeric and categorical, not two of them.")
    if len(used) == 2:
        raise ValueError(f"{table.path}: has nothing to predict {used[1]} from; name numeric or categorical columns.")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
