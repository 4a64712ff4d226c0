"""Statistics of a site's own rows: what it tells others so that all agree on one preparation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from feddr.preparation import columns as cols
from feddr.preparation.columns import FILL, Category
from feddr.preparation.preparation import as_column, place_of

MOST_CATEGORIES = 1000
"""Categories of a column, and classes of a label."""


@dataclass(frozen=True)
class Moments:
    """How many numbers of a column a site has, how many it misses, their mean and the spread around it.

    Count, mean and squares say the same as count, sum and sum of squares, but lose no digits when the mean is large.

    Parameters
    ----------
    known, missing
        Number of rows with and without a value.
    mean
        Of the known values; 0 where there are none.
    squares
        Sum of the squared distances of the known values to their mean.

    Examples
    --------
    >>> both = Moments(1, 0, 2.0, 0.0) + Moments(1, 0, 4.0, 0.0)
    >>> both.mean, both.squares
    (3.0, 2.0)
    """

    known: int
    missing: int
    mean: float
    squares: float

    def __add__(self, other: "Moments") -> "Moments":
        known = self.known + other.known
        share = other.known / known if known else 0.0
        apart = other.mean - self.mean
        return Moments(
            known,
            self.missing + other.missing,
            self.mean + share * apart,
            self.squares + other.squares + self.known * share * apart**2,
        )

    def filled(self, median: float) -> "Moments":
        """Return the moments after the missing values have been replaced by a number."""
        return Moments(self.known, 0, self.mean, self.squares) + Moments(self.missing, 0, median, 0.0)


@dataclass(frozen=True)
class SiteStatistics:
    """What a site tells about its rows: counts, means and squares of numbers, and how often each category occurs.

    Parameters
    ----------
    numeric
        The moments of each numeric column.
    categorical
        For each categorical column its values and how many training rows have each; None is a missing value.
    classes
        The different labels; empty where the label is a number to predict.

    Examples
    --------
    >>> site = site_statistics({"age": [40, 60], "ward": ["a", "a"], "ill": [0, 1]}, ["age"], ["ward"], "ill")
    >>> site.numeric["age"].mean, site.categorical["ward"], site.classes
    (50.0, (('a', 2),), (0, 1))
    >>> SiteStatistics.from_dict(site.to_dict()) == site
    True
    """

    numeric: Mapping[str, Moments]
    categorical: Mapping[str, tuple[tuple[Category | None, int], ...]]
    classes: tuple[Category, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON has, to be sent."""
        return {
            "numeric": {name: [m.known, m.missing, m.mean, m.squares] for name, m in self.numeric.items()},
            "categorical": {name: [[c, n] for c, n in counts] for name, counts in self.categorical.items()},
            "classes": list(self.classes),
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "SiteStatistics":
        """Return what ``to_dict`` has described; refuse anything else, since it comes from another machine."""
        try:
            numeric = {str(name): _moments(*values) for name, values in d["numeric"].items()}
            categorical = {
                str(name): tuple((_category(c), _count(n)) for c, n in counts)
                for name, counts in d["categorical"].items()
            }
            classes = tuple(_category(c) for c in d["classes"])
            if None in classes:
                raise TypeError("a missing class")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"Statistics of a site must be as to_dict writes them, got {error!r}.") from None
        return cls(numeric, categorical, tuple(c for c in classes if c is not None))


def site_statistics(
    table: Any,
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
    label: str = "",
    *,
    regression: bool = False,
    missing: Literal["refuse", "median"] = "refuse",
    rows: NDArray[np.int64] | None = None,
) -> SiteStatistics:
    """Return the statistics of the rows of one site.

    Parameters
    ----------
    table
        A DataFrame or a mapping from names to columns.
    numeric, categorical
        Names of the columns of each kind.
    label
        Name of the column to predict; its values are the classes unless it is a ``regression``.
    regression
        Whether the label is a number to predict.
    missing
        ``"refuse"`` missing values, or count them, since the ``"median"`` will replace them.
    rows
        The rows for training, all by default: means, squares and counts are theirs. Categories and classes are those
        of all rows.

    Raises
    ------
    ValueError
        With the row whose value is not a number, or the column with too many categories.

    Examples
    --------
    >>> site_statistics({"age": [40.0, None, 60.0]}, ["age"], missing="median").numeric["age"]
    Moments(known=2, missing=1, mean=50.0, squares=200.0)
    """
    if missing not in ("refuse", "median"):
        raise ValueError(f'missing must be "refuse" or "median", got {missing!r}.')
    locate = place_of(table)
    moments, counts = {}, {}
    for name in numeric:
        values = cols.numbers(name, as_column(table[name]), locate, missing=missing == "median")
        values = values if rows is None else values[rows]
        known = values[~np.isnan(values)]
        mean = float(known.mean()) if len(known) else 0.0
        squares = float(np.sum((known - mean) ** 2))
        moments[name] = Moments(len(known), len(values) - len(known), mean, squares)
    for name in categorical:
        values = as_column(table[name])
        categories = _levels(name, values)
        if None in categories and missing == "refuse":
            raise ValueError(f"{locate(_first_missing(values))}: column {name} is empty; {FILL}.")
        codes = cols.codes(values if rows is None else values[rows], tuple(categories))
        counts[name] = tuple(zip(categories, np.bincount(codes, minlength=len(categories)).tolist(), strict=True))
    classes: tuple[Category, ...] = ()
    if label and not regression:
        labels = as_column(table[label])
        categories = _levels(label, labels)
        if None in categories:
            raise ValueError(f"{locate(_first_missing(labels))}: column {label} is empty; leave the row out.")
        classes = tuple(c for c in categories if c is not None)
    return SiteStatistics(moments, counts, classes)


def _levels(name: str, values: NDArray[Any]) -> list[Category | None]:
    levels = cols.levels(values)
    if len(levels) > MOST_CATEGORIES:
        raise ValueError(
            f"column {name} has {len(levels)} different values, at most {MOST_CATEGORIES} are categories; if it holds "
            "numbers, name it as numeric, or use regression for a label."
        )
    return levels


def _first_missing(values: NDArray[Any]) -> int:
    return next(i for i, value in enumerate(values) if cols.key(value) is None)


def _moments(known: Any, missing: Any, mean: Any, squares: Any) -> Moments:
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in (mean, squares)) or squares < 0:
        raise TypeError(f"mean {mean!r} and squares {squares!r}")
    return Moments(_count(known), _count(missing), float(mean), float(squares))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"a count of {value!r}")
    return value


def _category(value: Any) -> Category | None:
    if value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"a category of type {type(value).__name__}")
    return value
