"""Columns of a table: numbers and categories as people write them, and the features that they become."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Category = str | int | float | bool
"""A value of a categorical column, or the label of a class, as it stands in the table."""

Place = Callable[[int], str]
"""From the number of a row to words that say where it is, for messages."""

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "."})
"""What stands in a text where a number is missing, in small letters."""


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers: one feature, and one more that says where a number was missing.

    Parameters
    ----------
    name
        Of the column.
    median
        What replaces a missing number; None where a missing number is refused.
    indicator
        Whether there is a feature ``name=missing``, 1 where the number was missing and 0 elsewhere.

    Examples
    --------
    >>> NumericColumn("age", median=61.0, indicator=True).features
    ('age', 'age=missing')
    """

    name: str
    median: float | None = None
    indicator: bool = False

    def __post_init__(self) -> None:
        if self.median is not None and not math.isfinite(self.median):
            raise ValueError(f"The median of column {self.name} must be finite, got {self.median}.")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of this column."""
        return (self.name, f"{self.name}=missing") if self.indicator else (self.name,)

    def transform(self, values: NDArray[Any], locate: Place) -> list[NDArray[np.float64]]:
        """Return the features of this column, each with one number a row."""
        feature = numbers(self.name, values, locate, missing=self.median is not None)
        empty = np.isnan(feature)
        if self.median is not None:
            feature[empty] = self.median
        return [feature, empty.astype(np.float64)] if self.indicator else [feature]


@dataclass(frozen=True)
class CategoricalColumn:
    """A column with one of a few values: each is a feature that is 0 or 1, except the reference.

    Parameters
    ----------
    name
        Of the column.
    categories
        The values that are known, in order; None among them stands for a missing one.
    reference
        The category that has no feature of its own, so that the coefficients of a linear model with an intercept are
        unique: they are differences from this category. None if each has one.

    Examples
    --------
    >>> CategoricalColumn("ward", ("north", "south", None), reference="north").features
    ('ward=south', 'ward=missing')
    """

    name: str
    categories: tuple[Category | None, ...]
    reference: Category | None = None

    def __post_init__(self) -> None:
        keys = [key(category) for category in self.categories]
        twice = [c for i, c in enumerate(self.categories) if keys[i] in keys[:i]]
        if twice:
            raise ValueError(
                f"Categories must differ also when they are read as numbers, column {self.name} has {twice[0]!r} "
                "twice; write them alike."
            )
        if self.reference is not None and key(self.reference) not in keys:
            raise ValueError(
                f"The reference of column {self.name} must be one of its categories, {listed(self.categories)}, got "
                f"{self.reference!r}."
            )

    @property
    def _known(self) -> str:
        """The categories for a message: a missing one is an empty cell."""
        known = listed(tuple(c for c in self.categories if c is not None))
        return f"{known} or empty" if None in self.categories else known

    @property
    def levels(self) -> tuple[Category | None, ...]:
        """The categories that have a feature."""
        return tuple(c for c in self.categories if self.reference is None or key(c) != key(self.reference))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of this column."""
        return tuple(f"{self.name}={'missing' if level is None else level}" for level in self.levels)

    def transform(self, values: NDArray[Any], locate: Place, refuse: bool = True) -> list[NDArray[np.float64]]:
        """Return the features of this column; an unknown category is refused, or has zeros in all of them."""
        coded = codes(values, self.categories)
        if refuse and (coded < 0).any():
            row = int(np.argmax(coded < 0))
            if key(values[row]) is None:
                raise ValueError(f"{locate(row)}: column {self.name} is empty; {FILL}.")
            raise ValueError(
                f"{locate(row)}: column {self.name} must be one of {self._known}, got "
                f'{str(values[row])[:40]!r}; correct it, or prepare the data with unknown="zeros".'
            )
        return [(coded == self.categories.index(level)).astype(np.float64) for level in self.levels]


FILL = 'fill it in, leave the row or the column out, or use missing="median"'


def numbers(name: str, values: NDArray[Any], locate: Place, *, missing: bool = False) -> NDArray[np.float64]:
    """Return a column as finite numbers, with NaN where one is missing if that is allowed."""
    if values.dtype.kind in "biuf":
        column = values.astype(np.float64)
        absent = np.isnan(column)
    else:
        column = np.array([_number(value) for value in values], np.float64)
        absent = np.array([_is_missing(value) for value in values], bool)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(column.astype(np.float32)) & ~(absent if missing else np.zeros(len(column), bool))
    if wrong.any():
        row = int(np.argmax(wrong))
        if key(values[row]) is None:
            raise ValueError(f"{locate(row)}: column {name} is empty; {FILL}.")
        if absent[row]:
            raise ValueError(f"{locate(row)}: column {name} is missing, it holds {values[row]!r}; {FILL}.")
        raise ValueError(
            f"{locate(row)}: column {name} must hold finite numbers, got {str(values[row])[:40]!r}; correct it, leave "
            "the column out, or name it as categorical."
        )
    return column


def codes(values: NDArray[Any], categories: tuple[Category | None, ...]) -> NDArray[np.int64]:
    """Return the place of each value among the categories, -1 where it is none of them."""
    places = {key(category): i for i, category in enumerate(categories)}
    kinds, inverse = distinct(values)
    return np.array([places.get(kind, -1) for kind in kinds], np.int64)[inverse]


def distinct(values: NDArray[Any]) -> tuple[list[str | float | None], NDArray[np.int64]]:
    """Return the different values of a column by their keys, in the order of appearance, and which each row has."""
    places: dict[str | float | None, int] = {}
    inverse = np.fromiter((places.setdefault(key(v), len(places)) for v in values.tolist()), np.int64, len(values))
    return list(places), inverse


def levels(values: NDArray[Any]) -> list[Category | None]:
    """Return the different values of a column as they stand there, numbers in order, then words; None for missing."""
    first: dict[str | float | None, Any] = {}
    for value in values.tolist():
        first.setdefault(key(value), value)
    ordered = sorted(first, key=lambda k: (k is None, isinstance(k, str), k or 0))
    return [None if k is None else plain(first[k]) for k in ordered]


def key(value: Any) -> str | float | None:
    """Return what makes two values one category: 7, 7.0 and "7" are one, a missing value is None."""
    if isinstance(value, str):
        text = value.strip()
        number = _number(text)
        return (text or None) if math.isnan(number) else number
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Real):
        return None if math.isnan(value) else float(value)
    return None if _is_missing(value) else str(value)


def plain(value: Any) -> Category:
    """Return a value as Python's own text, truth value or number."""
    unboxed = value.item() if isinstance(value, np.generic) else value
    if isinstance(unboxed, str):
        return unboxed.strip()
    return unboxed if isinstance(unboxed, bool | int | float) else str(unboxed)


def listed(values: tuple[Any, ...], most: int = 8) -> str:
    """Return some values for a message."""
    shown = ", ".join(repr(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown}, ... ({len(values)} in all)"


def _number(value: Any) -> float:
    try:
        return math.nan if isinstance(value, complex) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_missing(value: Any) -> bool:
    """Return whether nothing stands here: None, NaN, pandas' NA or NaT, or one of the words for it."""
    if isinstance(value, str):
        return value.strip().lower() in MISSING_WORDS
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
