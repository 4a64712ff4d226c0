"""Heart disease: patients of four hospitals, and whether a coronary artery is narrowed by more than half.

References
----------
R. Detrano, A. Janosi, W. Steinbrunn, M. Pfisterer, J. Schmid, S. Sandhu, K. Guppy, S. Lee, V. Froelicher (1989).
International application of a new probability algorithm for the diagnosis of coronary artery disease. American Journal
of Cardiology 64. The data: UCI Machine Learning Repository, set 45, CC BY 4.0.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from feddr.data import FederatedData
from feddr.data.split import Shares
from feddr.datasets import files
from feddr.datasets.download import Remote, folder, obtain
from feddr.datasets.federate import Array, gather

_MIRRORS = ("https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/",)
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
FILES = {
    "processed.cleveland.data": Remote(_MIRRORS, "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
    "processed.hungarian.data": Remote(_MIRRORS, "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
    "processed.switzerland.data": Remote(_MIRRORS, "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
    "processed.va.data": Remote(_MIRRORS, "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
}
"""What is downloaded when it is missing, from where, and with which checksum."""


@dataclass(frozen=True)
class Column:
    """A column of the files: a measurement, or one of a few values.

    Parameters
    ----------
    centre, scale
        A measurement v becomes (v - centre) / scale. They are round numbers near what is usual in adults, known before
        any patient is seen, so that scaling tells no hospital anything about another.
    values
        For one of a few values: the first is the reference, each of the others becomes a feature that is 0 or 1.
    zero_is_missing
        Whether 0 cannot be a measurement.
    """

    name: str
    centre: float = 0.0
    scale: float = 1.0
    values: tuple[int, ...] = ()
    zero_is_missing: bool = False


COLUMNS = (
    Column("age", centre=50, scale=10),
    Column("sex", values=(0, 1)),
    Column("cp", values=(1, 2, 3, 4)),
    Column("trestbps", centre=130, scale=20, zero_is_missing=True),
    Column("chol", centre=240, scale=50, zero_is_missing=True),
    Column("fbs", values=(0, 1)),
    Column("restecg", values=(0, 1, 2)),
    Column("thalach", centre=140, scale=25),
    Column("exang", values=(0, 1)),
    Column("oldpeak", centre=1, scale=1),
    Column("slope", values=(1, 2, 3)),
    Column("ca", centre=1, scale=1),
    Column("thal", values=(3, 6, 7)),
)
RARE = ("slope", "ca", "thal")
"""Missing for most patients outside Cleveland."""


def heart_disease(
    data_dir: str | None = None,
    features: Literal["common", "all"] = "common",
    missing: Literal["own", "drop"] = "own",
    test_share: float = 0.2,
    seed: int = 0,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    """Return the patients of four hospitals: Cleveland, Budapest, Zurich and Basel, and Long Beach.

    Parameters
    ----------
    data_dir
        A folder with ``processed.cleveland.data`` and its three siblings. By default they are looked for, and
        downloaded to, ``heart_disease`` in the folder for data (``docs/DATA.md``).
    features
        ``"common"``: the ten columns that all hospitals have, 13 features; ``"all"``: also slope, ca and thal, which
        are mostly missing outside Cleveland, 18 features.
    missing
        ``"own"``: a missing measurement is replaced by the median, a missing one of a few values by the most frequent
        value, of the same hospital's training patients; by the centre or the reference value if it has none. ``chol``
        and ``trestbps`` of 0 count as missing: all 123 Swiss patients have a cholesterol of 0. ``"drop"``: patients
        with a ``?`` in the chosen columns are left out, and a 0 stays (740 patients with the common columns).
    test_share, validation_share
        Of each hospital's patients; 0 for no such part.
    seed
        Draws who is for what.
    stratify
        Whether each part of a hospital has its labels in the same shares, up to rounding.

    Returns
    -------
    FederatedData
        ``x``: float32, (patients, 13 or 18); ``y``: int32, 1 for a narrowed artery. ``data.features`` has the names of
        the columns of x, ``data.clients`` those of the hospitals.

    Notes
    -----
    No hospital's numbers enter another's: the scales are constants, and what replaces a missing value comes from the
    training patients of the same hospital.

    Examples
    --------
    >>> data = heart_disease("~/data/heart_disease")  # doctest: +SKIP
    >>> data.features[:3]  # doctest: +SKIP
    ('age', 'sex=1', 'cp=2')
    """
    if features not in ("common", "all") or missing not in ("own", "drop"):
        raise ValueError(
            f'features must be "common" or "all" and missing "own" or "drop", got {features!r}, {missing!r}.'
        )
    source = folder("heart_disease", data_dir)
    used = [i for i, column in enumerate(COLUMNS) if features == "all" or column.name not in RARE]
    tables = []
    for path in obtain(source, dict.fromkeys(FILES, ()), FILES if data_dir is None else None):
        table = _read(path)
        tables.append(table[~np.isnan(table[:, used]).any(axis=1)] if missing == "drop" else table)
        if len(tables[-1]) == 0:
            raise ValueError(f'{path}: no patient has all of the chosen columns; use missing="own" or fewer features.')
    ends = np.cumsum([len(table) for table in tables])
    patients = np.concatenate(tables)
    if missing == "own":
        for i, column in enumerate(COLUMNS):
            if column.zero_is_missing:
                patients[patients[:, i] == 0, i] = np.nan
    y: Array = (patients[:, -1] > 0).astype(np.int32)
    hospitals = np.split(np.arange(len(patients)), ends[:-1])
    parts = Shares(test_share, validation_share, stratify, seed).split(hospitals, y)
    for i, rows in enumerate(hospitals):
        for j in used:
            _fill(patients[:, j], rows, parts.train[i], COLUMNS[j])
    x: Array = np.column_stack([_encode(patients[:, j], COLUMNS[j]) for j in used])
    names = [name for j in used for name in _names(COLUMNS[j])]
    train, validation, test = (None if part is None else gather(x, y, part) for part in parts)
    assert train is not None
    return FederatedData(
        train,
        test,
        features=tuple(names),
        classes=("healthy", "narrowed"),
        clients=HOSPITALS,
        validation=validation,
    )


def _read(path: Path) -> NDArray[np.float64]:
    """Return a row of 13 columns and the diagnosis for each patient, NaN where a value is missing."""
    rows = []
    for number, line in enumerate(files.lines(path), 1):
        entries = line.strip().split(",")
        where = f"{path}, line {number}"
        if entries == [""]:
            continue
        if len(entries) != len(COLUMNS) + 1:
            raise ValueError(f"{where}: needs {len(COLUMNS) + 1} values between commas, it has {len(entries)}.")
        try:
            row = [float("nan") if entry.strip() == "?" else float(entry) for entry in entries]
        except ValueError:
            raise ValueError(f"{where}: values must be numbers or ?, got {line.strip()[:80]}.") from None
        for column, value, entry in zip(COLUMNS, row, entries, strict=False):
            if entry.strip() != "?" and not (value in column.values if column.values else np.isfinite(value)):
                allowed = f"one of {column.values}" if column.values else "a finite number"
                raise ValueError(f"{where}: {column.name} must be {allowed}, got {entry}.")
        if row[-1] not in (0, 1, 2, 3, 4):
            raise ValueError(f"{where}: the diagnosis must be 0, 1, 2, 3 or 4, got {entries[-1]}.")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: has no patients; fetch it again.")
    return np.array(rows)


def _fill(values: NDArray[np.float64], rows: Array, train: Array, column: Column) -> None:
    """Replace what a hospital misses in a column by what is usual among its training patients."""
    known = values[train][~np.isnan(values[train])]
    if not len(known):
        usual = float(column.values[0]) if column.values else column.centre
    elif column.values:
        distinct, counts = np.unique(known, return_counts=True)
        usual = float(distinct[counts.argmax()])
    else:
        usual = float(np.median(known))
    values[rows] = np.where(np.isnan(values[rows]), usual, values[rows])


def _encode(values: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    if not column.values:
        return ((values - column.centre) / column.scale)[:, None]
    return (values[:, None] == np.array(column.values[1:])).astype(np.float64)


def _names(column: Column) -> list[str]:
    return [f"{column.name}={value}" for value in column.values[1:]] or [column.name]
