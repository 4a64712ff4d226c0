"""The preparation that all sites agree on from their statistics, without sharing rows: that of the pooled rows.

The same functions prepare a table that is in one place, as if it were a single site, so both give the same numbers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from feddr.preparation import columns as cols
from feddr.preparation.columns import CategoricalColumn, Category, NumericColumn
from feddr.preparation.preparation import Preparation, as_column, place_of
from feddr.preparation.statistics import Moments, SiteStatistics


def common_preparation(
    sites: Sequence[SiteStatistics],
    *,
    standardise: bool = False,
    medians: Mapping[str, float] | None = None,
    reference: Literal["first", "none"] | Mapping[str, Category] = "none",
    unknown: Literal["refuse", "zeros"] = "refuse",
    label: str = "",
) -> Preparation:
    """Return the preparation of all sites together: that of the pooled rows, from their statistics alone.

    Parameters
    ----------
    sites
        The statistics of each site, with the same columns.
    standardise
        Whether to subtract the mean of each feature over all sites' training rows and divide by its deviation.
    medians
        What replaces missing numbers, as ``common_medians`` finds it; None to refuse missing values.
    reference
        ``"first"``: the first category of each column has no feature; or the category for some columns by name.
    unknown
        As in ``Preparation``.
    label
        Name of the column to predict.

    Raises
    ------
    ValueError
        Where sites have different columns, or a value is missing and there are no medians.

    Examples
    --------
    >>> from feddr.preparation import site_statistics
    >>> sites = [site_statistics({"age": [40.0]}, ["age"]), site_statistics({"age": [50.0, 60.0]}, ["age"])]
    >>> common_preparation(sites, standardise=True).mean
    (50.0,)
    """
    if not sites:
        raise ValueError("A common preparation needs the statistics of a site, got none.")
    kinds = [(tuple(site.numeric), tuple(site.categorical)) for site in sites]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ValueError(f"Sites need the same columns in one order, site {i} has {kind}, site 0 has {kinds[0]}.")
    if isinstance(reference, Mapping):
        strange = [name for name in reference if name not in sites[0].categorical]
        if strange:
            raise ValueError(f"reference must name categorical columns, got {strange[0]}; name it as categorical.")
    elif reference not in ("first", "none"):
        raise ValueError(f'reference must be "first", "none" or a category for each column, got {reference!r}.')
    columns: list[NumericColumn | CategoricalColumn] = []
    mean: list[float] = []
    variance: list[float] = []
    for name in sites[0].numeric:
        total = sum((site.numeric[name] for site in sites), Moments(0, 0, 0.0, 0.0))
        if medians is None and total.missing:
            raise ValueError(f'Column {name} misses {total.missing} values; fill them in, or use missing="median".')
        column = NumericColumn(name)
        if medians is not None:
            column = NumericColumn(name, medians[name], indicator=total.missing > 0)
        filled = total.filled(column.median or 0.0)
        mean.append(filled.mean)
        variance.append(filled.squares / max(filled.known, 1))
        if column.indicator:
            share = total.missing / filled.known
            mean.append(share)
            variance.append(share * (1 - share))
        columns.append(column)
    for name in sites[0].categorical:
        counts = _pooled([site.categorical[name] for site in sites])
        chosen = reference.get(name) if isinstance(reference, Mapping) else None
        if reference == "first":
            chosen = next((c for c in counts if c is not None), None)
        if None in counts and medians is None:
            raise ValueError(f'Column {name} misses values; fill them in, or use missing="median".')
        coded = CategoricalColumn(name, tuple(counts), chosen)
        rows = max(sum(counts.values()), 1)
        mean += [counts[level] / rows for level in coded.levels]
        variance += [counts[level] / rows * (1 - counts[level] / rows) for level in coded.levels]
        columns.append(coded)
    classes = _ordered([c for site in sites for c in site.classes])
    if not standardise:
        mean = variance = []
    scale = [_deviation(m, v) for m, v in zip(mean, variance, strict=True)]
    return Preparation(
        tuple(columns), tuple(mean), tuple(scale), label, tuple(c for c in classes if c is not None), unknown
    )


def count_at_most(
    table: Any, thresholds: Mapping[str, Sequence[float]], rows: NDArray[np.int64] | None = None
) -> dict[str, list[int]]:
    """Return how many known numbers of each column of a site are at most each of its thresholds.

    Examples
    --------
    >>> count_at_most({"age": [40.0, None, 60.0]}, {"age": [50.0, 70.0]})
    {'age': [1, 2]}
    """
    locate, counts = place_of(table), {}
    for name, levels in thresholds.items():
        values = cols.numbers(name, as_column(table[name]), locate, missing=True)
        values = np.sort(values if rows is None else values[rows])  # NaN last
        known = values[: len(values) - int(np.sum(np.isnan(values)))]
        counts[name] = np.searchsorted(known, levels, side="right").tolist()
    return counts


def array_scaling(x: NDArray[Any], rows: NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of each column of an array over some rows."""
    chosen = x[rows]
    mean, variance = chosen.mean(axis=0, dtype=np.float64), chosen.var(axis=0, dtype=np.float64)
    return tuple(mean.tolist()), tuple(_deviation(m, v) for m, v in zip(mean.tolist(), variance.tolist(), strict=True))


def pooled_medians(table: Any, names: Sequence[str], rows: NDArray[np.int64]) -> dict[str, float]:
    """Return the median of the known numbers of each column of a table that is in one place."""
    locate, medians = place_of(table), {}
    for name in names:
        values = cols.numbers(name, as_column(table[name]), locate, missing=True)[rows]
        _check_known(name, int(np.sum(~np.isnan(values))))
        medians[name] = float(np.nanmedian(values))
    return medians


def common_medians(
    known: Mapping[str, int], ask: Callable[[Mapping[str, Sequence[float]]], Mapping[str, Sequence[int]]]
) -> dict[str, float]:
    """Return the exact median of each column over all sites, by repeated division of an interval, from counts alone.

    Parameters
    ----------
    known
        Number of known values of each column, over all sites.
    ask
        From thresholds for each column to how many values of all sites are at most each: the sum of the sites'
        ``count_at_most``. It is asked 16 times, for 30 thresholds of a column, since a question to a machine far away
        takes seconds however long it is.

    Notes
    -----
    A site tells nothing but counts, but many of them: together they give the median itself, which may be a value of one
    person, as the median of the pooled rows may be.

    Raises
    ------
    ValueError
        With a column of which no site has a value.

    Examples
    --------
    >>> sites = [{"age": [40.0, 50.0]}, {"age": [80.0]}]
    >>> def ask(thresholds):
    ...     return {"age": np.sum([count_at_most(site, thresholds)["age"] for site in sites], axis=0)}
    >>> common_medians({"age": 3}, ask)
    {'age': 50.0}
    """
    for name, count in known.items():
        _check_known(name, count)
    middle = _order_statistics({name: ((count + 1) // 2, count // 2 + 1) for name, count in known.items()}, ask)
    return {name: 0.5 * lower + 0.5 * upper for name, (lower, upper) in middle.items()}


def _check_known(name: str, count: int) -> None:
    if count == 0:
        raise ValueError(f"Column {name} needs a value in at least one training row, it has none; leave it out.")


SECTIONS = 16
"""Parts into which a question divides the interval that a value must be in; a power of two."""


def _order_statistics(
    ranks: Mapping[str, tuple[int, ...]],
    ask: Callable[[Mapping[str, Sequence[float]]], Mapping[str, Sequence[int]]],
) -> dict[str, list[float]]:
    """Return the values of these ranks in each column: the least number that so many values are at most equal to."""
    # Over the numbers of 64 bits in their order, so that 16 questions end at the value itself.
    searches = [(name, rank) for name in ranks for rank in ranks[name]]
    low = [_position(-math.inf)] * len(searches)
    high = [_position(math.inf)] * len(searches)
    for _ in range(64 // int(math.log2(SECTIONS))):
        cuts = [[a + (b - a) * j // SECTIONS for j in range(1, SECTIONS)] for a, b in zip(low, high, strict=True)]
        asked: dict[str, list[float]] = {name: [] for name in ranks}
        for (name, _rank), positions in zip(searches, cuts, strict=True):
            asked[name] += map(_float, positions)
        counts = {name: list(below) for name, below in ask(asked).items()}
        for k, ((name, rank), positions) in enumerate(zip(searches, cuts, strict=True)):
            below, counts[name] = counts[name][: SECTIONS - 1], counts[name][SECTIONS - 1 :]
            enough = sum(count < rank for count in below)  # counts grow with the threshold
            low[k] = positions[enough - 1] if enough > 0 else low[k]
            high[k] = positions[enough] if enough < len(positions) else high[k]
    return {name: [_float(high[k]) for k, (one, _) in enumerate(searches) if one == name] for name in ranks}


def _position(value: float) -> int:
    """Return the place of a number among all numbers of 64 bits."""
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def _float(position: int) -> float:
    bits = np.int64(abs(position)).view(np.float64)
    return float(bits if position >= 0 else -bits)


def _deviation(mean: float, variance: float) -> float:
    """Return the square root of the variance, or 1 for a feature that is the same in all rows up to rounding."""
    deviation = math.sqrt(max(variance, 0.0))
    return deviation if deviation > 1e-12 * abs(mean) else 1.0


def _pooled(sites: Sequence[Sequence[tuple[Category | None, int]]]) -> dict[Category | None, int]:
    order = _ordered([category for counts in sites for category, _ in counts])
    total = dict.fromkeys(map(cols.key, order), 0)
    for counts in sites:
        for category, count in counts:
            total[cols.key(category)] += count
    return {category: total[cols.key(category)] for category in order}


def _ordered(categories: Sequence[Category | None]) -> list[Category | None]:
    return cols.levels(np.array([*categories, None], object)[:-1])
