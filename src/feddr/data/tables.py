"""From a table to a federation: the roles of columns, the client of each row, features, labels and weights."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from feddr.data.partition import Indices
from feddr.data.samples import Samples
from feddr.data.split import SplitRows, split
from feddr.preparation import Category, Preparation, columns
from feddr.preparation.common import common_preparation, pooled_medians
from feddr.preparation.preparation import as_column, place_of
from feddr.preparation.statistics import site_statistics
from feddr.storage import limits

WEIGHT = "sample_weight"
"""The array of a federation that weights its samples in the loss."""


class ColumnRoles(NamedTuple):
    """Which columns of a table hold what."""

    label: str
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    sample_weight: str | None = None


class TableSamples(NamedTuple):
    """The samples of all rows, the rows of each part, the classes, and how the raw columns became features."""

    samples: Samples
    rows: SplitRows
    classes: tuple[Category, ...]
    preparation: Preparation | None


def check_roles(
    table: Any,
    client: str,
    label: str,
    numeric: Sequence[str] | None,
    categorical: Sequence[str],
    sample_weight: str | None = None,
    ignore: Sequence[str] = (),
) -> ColumnRoles:
    """Return which column is what; refuse columns that are not there, and warn of those that are not used."""
    for name, listed in (("numeric", numeric), ("categorical", categorical), ("ignore", ignore)):
        if isinstance(listed, str):
            raise ValueError(f"{name} must be a list of columns, got the text {listed!r}; write [{listed!r}].")
    names = [*getattr(table, "columns", table)]
    source = getattr(table, "attrs", {}).get("source", "")
    where = f"{source}: " if source else ""
    special = [name for name in (client, label, sample_weight) if name is not None]
    if numeric is None:
        numeric = [name for name in names if name not in (*special, *categorical, *ignore)]
    used = [*special, *numeric, *categorical]
    for name in (*used, *ignore):
        if not isinstance(name, str):
            raise ValueError(f"{where}columns need texts as names, got {name!r}; use table.rename(columns=str).")
        if name not in names:
            raise ValueError(f"{where or 'The table '}has no column {name}; it has {', '.join(map(str, names))}.")
        if names.count(name) > 1:
            line = " in line 1" if source else ""
            raise ValueError(f"{where}column {name} stands twice{line}; columns need different names.")
        if [*used, *ignore].count(name) > 1:
            raise ValueError(
                f"column {name} can be one of client, label, numeric and categorical, sample_weight and ignore, not "
                "two of them."
            )
    if len(used) == len(special):
        raise ValueError(f"{where}has nothing to predict {label} from; name numeric or categorical columns.")
    unused = [str(name) for name in names if name not in used and name not in ignore]
    if unused:
        warnings.warn(
            f"{where}columns {', '.join(unused[:8])}{' and others' if len(unused) > 8 else ''} are not used; name them "
            "in ignore if that is meant, else as numeric, categorical or sample_weight.",
            stacklevel=3,
        )
    return ColumnRoles(label, tuple(numeric), tuple(categorical), sample_weight)


def by_client(table: Any, client: str) -> tuple[tuple[str, ...], list[Indices]]:
    """Return the names of the clients of a column, numbers in order before words, and the rows of each."""
    values = as_column(table[client])
    names = columns.levels(values)
    if None in names:
        row = next(i for i, value in enumerate(values) if columns.key(value) is None)
        raise ValueError(
            f"{place_of(table)(row)}: column {client} is empty; fill it in, or leave the row or the column out."
        )
    codes = columns.codes(values, tuple(names))
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return tuple(map(str, names)), np.split(order, np.cumsum(np.bincount(codes))[:-1])


def prepare(
    table: Any,
    clients: Sequence[Indices],
    roles: ColumnRoles,
    *,
    regression: bool,
    standardise: bool,
    missing: Literal["refuse", "median"],
    reference: Literal["first", "none"] | Mapping[str, Category] = "none",
    unknown: Literal["refuse", "zeros"] = "refuse",
    test_share: float,
    validation_share: float,
    stratify: bool,
    seed: int,
    preparation: Preparation | None = None,
    first_client: int = 0,
) -> TableSamples:
    """Return features, labels and weights of all rows, split within each client; statistics are of training rows.

    Without numeric and categorical columns (they are images), there are no features and no preparation.
    """
    labels, locate = as_column(table[roles.label]), place_of(table)
    if regression and stratify:
        raise ValueError("stratify needs classes, got a regression; leave one of them out.")
    strata = columns.distinct(labels)[1] if stratify else None
    rows = split(clients, test_share, seed, validation_share, strata, first_client)
    if preparation is None:
        training = np.concatenate(rows.train)
        statistics = site_statistics(
            table,
            roles.numeric,
            roles.categorical,
            roles.label,
            regression=regression,
            missing=missing,
            rows=training,
        )
        preparation = common_preparation(
            [statistics],
            standardise=standardise,
            medians=pooled_medians(table, roles.numeric, training) if missing == "median" else None,
            reference=reference,
            unknown=unknown,
            label=roles.label,
        )
    samples: Samples = {"y": preparation.labels(table[roles.label])}
    if preparation.columns:
        width = len(preparation.features)
        limits.check_memory(
            f"A table of {len(labels):,} rows of {width:,} features", 4 * width * len(labels), "choose columns or rows"
        )
        samples = {"x": preparation.transform(table), **samples}
    if roles.sample_weight is not None:
        weights = columns.numbers(roles.sample_weight, as_column(table[roles.sample_weight]), locate)
        if np.any(weights < 0):
            row = int(np.argmax(weights < 0))
            raise ValueError(f"{locate(row)}: column {roles.sample_weight} must not be negative, got {weights[row]:g}.")
        samples[WEIGHT] = weights.astype(np.float32)
    return TableSamples(samples, rows, preparation.classes, preparation if preparation.columns else None)
