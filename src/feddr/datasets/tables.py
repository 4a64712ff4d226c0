"""Tables in CSV or Parquet files: one with a column that names the client of each row, or one file for each client."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as csv_reader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from feddr.data import FederatedData
from feddr.datasets import files as readers
from feddr.preparation import columns
from feddr.preparation.preparation import PLACE
from feddr.storage import limits

if TYPE_CHECKING:
    from pandas import DataFrame

PARQUET = (".parquet", ".pq")
OWNER = "client (its file)"
"""The column that tables of several files get; no file has one of this name."""


def csv(
    path: str | None = None,
    client: str | None = None,
    label: str = "",
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    regression: bool = False,
    standardise: bool = False,
    delimiter: str = ",",
    test_share: float = 0.1,
    seed: int = 0,
    files: Mapping[str, str] | None = None,
    sample_weight: str | None = None,
    ignore: Sequence[str] = (),
    missing: Literal["refuse", "median"] = "refuse",
    reference: Literal["first", "none"] | Mapping[str, str | float] = "none",
    unknown: Literal["refuse", "zeros"] = "refuse",
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    r"""Return the rows of a CSV file whose client column says whose they are, or of one file for each client.

    Parameters
    ----------
    path, client
        A file, and the name of the column that says whose a row is. CSV in UTF-8, perhaps ``.gz``, ``.bz2`` or
        ``.xz``, whose first line names the columns; or Parquet (``.parquet``, ``.pq``; extra ``parquet``).
    label
        Name of the column to predict.
    numeric, categorical, regression, standardise, sample_weight, ignore, missing, reference, unknown
        As in ``FederatedData.from_frame``. Different labels that are all numbers are classes in their order, and
        ``data.classes`` has them as numbers.
    delimiter
        What separates the columns of a CSV file.
    test_share, validation_share, stratify
        As in ``FederatedData.from_frame``.
    seed
        Draws which rows are for what.
    files
        In place of path and client: a file for each client, by the name of the client, all with the same columns.

    Returns
    -------
    FederatedData
        ``x``: float32, (rows, features), in the order numeric, categorical; ``y``: int32, or float32 for a regression.
        ``data.features``, ``data.classes`` and ``data.clients`` have the names.

    Raises
    ------
    ValueError
        With the line that has a missing or wrong value, or the column that is not there.

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
    if not label:
        raise ValueError("csv needs label, the name of the column to predict, got none.")
    if (path is None) == (files is None) or (client is None) == (files is None):
        raise ValueError(
            "csv needs path and client, a file and its column of clients, or files, one for each client, got "
            f"path={path!r}, client={client!r}, files={files!r}."
        )
    if path is not None:
        table = read_table(path, delimiter)
    else:
        assert files is not None
        table = _joined(files, delimiter)
    if label in table.columns and not regression and list(table.columns).count(label) == 1:
        table[label] = inferred(table[label])
    return FederatedData.from_frame(
        table,
        OWNER if client is None else client,
        label,
        numeric,
        categorical,
        sample_weight=sample_weight,
        ignore=ignore,
        regression=regression,
        standardise=standardise,
        missing=missing,
        reference=reference,
        unknown=unknown,
        test_share=test_share,
        validation_share=validation_share,
        stratify=stratify,
        seed=seed,
    )


def read_table(path: str | Path, delimiter: str = ",") -> "DataFrame":
    """Return a CSV or Parquet file as a table whose index says where each row stands in the file.

    The cells of a CSV file stay texts; a ``Preparation`` makes numbers of them.
    """
    source = Path(path).expanduser()
    if source.suffix in PARQUET:
        return _read_parquet(source)
    import pandas as pd

    names, rows, lines = _read_csv(source, delimiter)
    # A new index, so that whatever is refused later is refused with its line.
    index = pd.Index([f"{source}, line {line}" for line in lines], name=PLACE, dtype=object)
    table = pd.DataFrame(rows, index, names, dtype=object)
    table.attrs["source"] = str(source)
    return table


def _read_csv(path: Path, delimiter: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Return the names of the columns, the rows, and the lines where they end."""
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, got {delimiter!r}.")
    reader = csv_reader(readers.lines(path), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        names = [name.strip() for name in next(reader, [])]
        for row in reader:
            if row and len(row) != len(names):
                raise ValueError(
                    f"{path}, line {reader.line_num}: needs {len(names)} values, one for each column, it has "
                    f"{len(row)}."
                )
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except CsvError as error:
        raise ValueError(f"{path}, line {reader.line_num}: not a table ({error}).") from None
    if not rows:
        raise ValueError(f"{path}: needs a line with the names of the columns and a line for each sample, it has none.")
    return names, rows, lines


def num_rows(path: str | Path) -> int:
    r"""Return the number of rows of a table: of Parquet files from the footer, without reading the rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "rows.csv")
    ...     _ = file.write_text("age,ill\n30,0\n40,1\n")
    ...     num_rows(file)
    2
    """
    source = Path(path).expanduser()
    if source.suffix not in PARQUET:
        return len(read_table(source))
    with _sound_parquet(source) as file:
        return int(file.metadata.num_rows)


def _read_parquet(path: Path) -> "DataFrame":
    with _sound_parquet(path) as file:
        table: DataFrame = file.read().to_pandas()
    if table.empty:
        raise ValueError(f"{path}: needs columns and a row for each sample, it has none.")
    table.columns = table.columns.map(str)  # a table that had numbers for names gets these back
    table.index = table.index.map(lambda row: f"{path}, row {row}").rename(PLACE)
    table.attrs["source"] = str(path)
    return table


@contextmanager
def _sound_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file of a size that can be read; refuse one that turns out to be broken."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError(
            f"{path}: Parquet files need pyarrow, which is not installed; pip install 'feddr[parquet]', or save it "
            "as CSV."
        ) from None
    if not path.is_file():
        raise ValueError(f"{path}: no such file.")
    try:
        with parquet.ParquetFile(path) as file:
            groups = range(file.metadata.num_row_groups)
            size = sum(file.metadata.row_group(i).total_byte_size for i in groups)
            if size > limits.DATA:
                raise ValueError(
                    f"{path}: expands to {size:,} bytes, at most {limits.DATA:,} are read; cut it into smaller files."
                )
            yield file
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a sound Parquet file ({error}); fetch it again.") from None


def _joined(files: Mapping[str, str], delimiter: str) -> "DataFrame":
    """Return the rows of all files in one table with a column of owners."""
    import pandas as pd

    if not files:
        raise ValueError('csv needs a file for each client, got none; write files = {name = "its.csv"}.')
    tables = {name: read_table(path, delimiter) for name, path in files.items()}
    first = next(iter(tables.values()))
    for table in tables.values():
        differ = set(table.columns) ^ set(first.columns)
        if differ or len(set(table.columns)) != len(table.columns):
            raise ValueError(
                f"{table.attrs['source']}: files of clients need the same columns, each once, as "
                f"{first.attrs['source']}, they differ in {', '.join(sorted(map(str, differ))) or 'a name twice'}."
            )
    joined = pd.concat([table.assign(**{OWNER: name}) for name, table in tables.items()])
    joined.attrs["source"] = ", ".join(files.values())
    return joined


def inferred(column: Any) -> Any:
    """Return labels that are texts as whole numbers, numbers or truth values, if all of them are such."""
    texts = [value.strip() for value in column if isinstance(value, str)]
    if len(texts) != len(column) or "" in texts:
        return column
    keys = {columns.key(text) for text in texts}
    if keys <= {"True", "False"}:
        return np.array([text == "True" for text in texts])
    if not all(isinstance(key, float) and np.isfinite(key) for key in keys):
        return column
    if all(text.lstrip("+-").isdigit() for text in texts):
        return np.array([int(text) for text in texts], object)
    # Text in place of fractions: as a class, 0.5 is a name like any other.
    whole = all(float(text).is_integer() for text in texts)
    return np.array([float(text) for text in texts]) if whole else column
