"""The preparation of a table: from raw columns to the matrix x and the labels y, and to a JSON file and back."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.preparation import columns as cols
from feddr.preparation.columns import CategoricalColumn, Category, NumericColumn

PLACE = "place"
"""The name of an index of a table whose entries say where each row was read, such as ``a.csv, line 3``."""


@dataclass(frozen=True)
class Preparation:
    """How the raw columns of a table become features and labels, fixed once, so that new rows are treated alike.

    A row becomes the features of its columns, in their order: of a number itself (and whether it was missing), of a
    category a 0 or 1 for each level; then ``(feature - mean) / scale``.

    Parameters
    ----------
    columns
        The raw columns, in the order in which an array must have them.
    mean, scale
        One number for each feature; empty where features are left as they are.
    label
        Name of the column to predict, empty if it has none.
    classes
        Label of each class, as it stands in the table; empty where the label is a number to predict.
    unknown
        What a category that is not known becomes: ``"refuse"`` raises, ``"zeros"`` sets all features of its column to
        0, which is what the reference category looks like where there is one.

    Raises
    ------
    ValueError
        Where two columns or features have one name, or mean and scale do not fit.

    Examples
    --------
    >>> ages = Preparation((NumericColumn("age"), CategoricalColumn("sex", ("f", "m"), "f")), (50.0, 0.0), (10.0, 1.0))
    >>> ages.features
    ('age', 'sex=m')
    >>> ages.transform({"age": [60, 45], "sex": ["m", "f"]}).tolist()
    [[1.0, 1.0], [-0.5, 0.0]]
    >>> Preparation.from_dict(ages.to_dict()) == ages
    True
    """

    columns: tuple[NumericColumn | CategoricalColumn, ...]
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    label: str = ""
    classes: tuple[Category, ...] = ()
    unknown: Literal["refuse", "zeros"] = "refuse"

    def __post_init__(self) -> None:
        for what, names in (("Columns", self.names), ("Features", self.features)):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"{what} need different names, got {twice[0]} twice.")
        for what, values in (("mean", self.mean), ("scale", self.scale)):
            plain = tuple(float(value) for value in values)
            object.__setattr__(self, what, plain)
            if plain and len(plain) != len(self.features):
                raise ValueError(f"{what} needs a number for each of {len(self.features)} features, got {len(plain)}.")
            if not np.all(np.isfinite(plain)) or (what == "scale" and min(plain, default=1.0) <= 0):
                raise ValueError(f"mean must be finite and scale positive, got {what} {min(plain)} to {max(plain)}.")
        if len({cols.key(c) for c in self.classes}) != len(self.classes):
            raise ValueError(
                f"Classes must differ, also when they are read as numbers, got {cols.listed(self.classes)}."
            )
        if self.unknown not in ("refuse", "zeros"):
            raise ValueError(f'unknown must be "refuse" or "zeros", got {self.unknown!r}.')

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the raw columns."""
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, the columns of x."""
        return tuple(feature for column in self.columns for feature in column.features)

    def transform(self, table: Any) -> NDArray[np.float32]:
        """Return the features of rows, float32 of shape (rows, features).

        Parameters
        ----------
        table
            A pandas DataFrame or a mapping from names to columns, with the raw columns and perhaps others; or an array
            of shape (rows, columns) with the raw columns in the order of ``names``.

        Raises
        ------
        ValueError
            With the column that is not there, or the row whose value is missing, not a number or not a known category.
        """
        table, locate = self._table(table)
        rows = len(next(iter(table.values()), ()))
        x = np.empty((rows, len(self.features)), np.float32)
        j = 0
        for column in self.columns:
            if isinstance(column, NumericColumn):
                features = column.transform(table[column.name], locate)
            else:
                features = column.transform(table[column.name], locate, self.unknown == "refuse")
            for feature in features:
                if self.mean:
                    feature -= self.mean[j]
                if self.scale:
                    feature /= self.scale[j]
                x[:, j] = feature
                j += 1
        return x

    def labels(self, column: ArrayLike) -> NDArray[Any]:
        """Return labels as a run wants them: the number of the class, int32, or the number to predict, float32.

        Parameters
        ----------
        column
            One label a row, as they stand in a table.

        Raises
        ------
        ValueError
            With the row whose label is missing, not a class or not a number.
        """
        values, locate = as_column(column), place_of(column)
        name = self.label or "y"
        if not self.classes:
            return cols.numbers(name, values, locate).astype(np.float32)
        codes = cols.codes(values, self.classes)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise ValueError(
                f"{locate(row)}: column {name} must be one of the classes {cols.listed(self.classes)}, got "
                f"{str(values[row])[:40]!r}; correct it, or leave the row out."
            )
        return codes.astype(np.int32)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON has: tables, lists, texts, numbers, truth values and null."""
        return {
            "columns": [
                {"name": c.name, "kind": "numeric", "median": c.median, "indicator": c.indicator}
                if isinstance(c, NumericColumn)
                else {"name": c.name, "kind": "categorical", "categories": list(c.categories), "reference": c.reference}
                for c in self.columns
            ],
            "mean": list(self.mean),
            "scale": list(self.scale),
            "label": self.label,
            "classes": list(self.classes),
            "unknown": self.unknown,
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "Preparation":
        """Return what ``to_dict`` has described.

        Raises
        ------
        ValueError
            Where a part is missing or of another type; the file may come from anywhere.
        """
        try:
            return cls(
                columns=tuple(map(_column, d["columns"])),
                mean=tuple(_typed(v, float, int) for v in d["mean"]),
                scale=tuple(_typed(v, float, int) for v in d["scale"]),
                label=_typed(d["label"], str),
                classes=tuple(_typed(v, str, float, int) for v in d["classes"]),
                unknown=d["unknown"],
            )
        except KeyError as error:
            raise ValueError(
                f"A preparation needs {error.args[0]}, it has none; it was not written by to_dict."
            ) from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"A preparation must be as to_dict writes it, got {error}.") from None

    def _table(self, table: Any) -> tuple[dict[str, NDArray[Any]], cols.Place]:
        """Return the raw columns by name, and words for where a row is."""
        if isinstance(table, Mapping) or hasattr(table, "columns"):
            absent = [name for name in self.names if name not in table]
            if absent:
                there = list(getattr(table, "columns", table))
                raise ValueError(f"The table has no column {absent[0]}; it has {', '.join(map(str, there))}.")
            columns = {name: as_column(table[name]) for name in self.names}
            lengths = {name: len(values) for name, values in columns.items()}
            if len(set(lengths.values())) != 1:
                raise ValueError(f"Columns need one length, got {lengths}.")
            return columns, place_of(table)
        array = np.asarray(table)
        if array.ndim != 2 or array.shape[1] != len(self.names):
            raise ValueError(
                f"An array needs shape (rows, {len(self.names)}), a column for each of {cols.listed(self.names)}, got "
                f"shape {array.shape}; a single row is array[None]."
            )
        return dict(zip(self.names, array.T, strict=True)), place_of(table)


def as_column(values: Any) -> NDArray[Any]:
    """Return a column as an array: numbers as numbers, all else as objects."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values, None if kind in "biuf" else object)
    if array.ndim != 1:
        raise ValueError(f"A column needs one value a row, got an array of shape {array.shape}; use column[:, 0].")
    return array if array.dtype.kind in "biuf" else array.astype(object)


def place_of(table: Any) -> cols.Place:
    """Return words for where a row of a table is: its line in a file, or its entry in the index."""
    index = getattr(table, "index", None)
    if index is None or callable(index):  # a list has a method of this name
        return lambda row: f"row {row}"
    return lambda row: str(index[row]) if index.name == PLACE else f"row {index[row]}"


def _column(d: Mapping[str, Any]) -> NumericColumn | CategoricalColumn:
    name = _typed(d["name"], str)
    if d["kind"] == "numeric":
        median = None if d["median"] is None else float(_typed(d["median"], float, int))
        return NumericColumn(name, median, _typed(d["indicator"], bool))
    if d["kind"] != "categorical":
        raise ValueError(f'The kind of a column must be "numeric" or "categorical", got {d["kind"]!r}.')
    categories = tuple(None if v is None else _typed(v, str, float, int) for v in d["categories"])
    reference = None if d["reference"] is None else _typed(d["reference"], str, float, int)
    return CategoricalColumn(name, categories, reference)


def _typed(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise TypeError(f"{type(value).__name__} in place of {kinds[0].__name__}")
    return value
