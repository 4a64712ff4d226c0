"""A site's rows under the agreed names: columns and words are translated, and checked before anything is sent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from feddr.datasets.tables import inferred, read_table
from feddr.preparation import columns as cols
from feddr.preparation.columns import Category
from feddr.preparation.preparation import as_column, place_of
from feddr.sites.site import Site
from feddr.validation.messages import hint

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class TableSchema:
    """The columns that all sites of an experiment have agreed on.

    Parameters
    ----------
    label
        The column to predict.
    numeric, categorical
        The columns to predict it from.
    sample_weight
        The column that weights the rows, if there is one.
    regression
        Whether the label is a number.
    missing
        Whether a missing number is refused, or will be replaced by the median.
    categories
        The words that a categorical column, or the label, may have; columns that are not listed may have any.

    Examples
    --------
    >>> schema = TableSchema("ill", ["age"], ["smoker"], categories={"smoker": ["never", "now"]})
    >>> schema.names
    ('ill', 'age', 'smoker')
    """

    label: str
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    sample_weight: str | None = None
    regression: bool = False
    missing: Literal["refuse", "median"] = "refuse"
    categories: Mapping[str, Sequence[Category]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = [*self.categorical, *(() if self.regression else (self.label,))]
        for name in self.categories:
            if name not in words:
                raise ValueError(
                    f"categories are of categorical columns and of the label, {', '.join(words)}, got {name}."
                    f"{hint(name, words)}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a site needs."""
        weight = () if self.sample_weight is None else (self.sample_weight,)
        return (self.label, *weight, *self.numeric, *self.categorical)


def read_rows(site: Site, schema: TableSchema) -> "DataFrame":
    r"""Return a site's rows with the agreed columns and words.

    Raises
    ------
    ValueError
        With each column that is not there or holds what was not agreed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "rows.csv")
    ...     _ = file.write_text("Alter,krank\n61,ja\n47,nein\n")
    ...     site = Site(file, columns={"Alter": "age", "krank": "ill"}, values={"ill": {"ja": "yes", "nein": "no"}})
    ...     rows = read_rows(site, TableSchema("ill", ["age"]))
    >>> rows["ill"].tolist()
    ['yes', 'no']
    """
    rows = _translated(site)
    problems = list(_problems(rows, site, schema))
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise ValueError(" ".join(text for _, text in problems[:3]) + more)
    rows = rows[[name for name in rows.columns if name in schema.names]]
    return rows if schema.regression else rows.assign(**{schema.label: inferred(rows[schema.label])})


def complaints(site: Site, schema: TableSchema) -> list[tuple[str, str]]:
    r"""Return what is wrong with a site's rows, each with its column; none where they are as agreed.

    Raises
    ------
    ValueError
        Where the file cannot be read at all.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "rows.csv")
    ...     _ = file.write_text("Age,ill\n61,yes\n")
    ...     wrong = complaints(Site(file), TableSchema("ill", ["age"]))
    >>> [column for column, _ in wrong]
    ['age']
    """
    return list(_problems(_translated(site), site, schema))


def _translated(site: Site) -> "DataFrame":
    """Return the rows of the file under the agreed names, with the agreed words."""
    if site.data is None:
        raise ValueError('The site\'s file has no data; write data = "patients.csv".')
    table = read_table(site.data, site.delimiter)
    names = [str(name) for name in table.columns]
    for name in site.columns:
        if name not in names:
            raise ValueError(
                f"{site.data}: columns has {name!r}, which is no column of the file; it has {', '.join(names)}."
                f"{hint(name, names)}"
            )
    table.columns = table.columns.map(lambda name: site.columns.get(name, name))
    for name, words in site.values.items():
        if list(table.columns).count(name) == 1:
            agreed = {cols.key(word): meaning for word, meaning in words.items()}
            table[name] = (
                table[name].map(lambda value, agreed=agreed: agreed.get(cols.key(value), value)).astype(object)
            )
    return table


def _problems(rows: "DataFrame", site: Site, schema: TableSchema) -> Iterator[tuple[str, str]]:
    names = list(map(str, rows.columns))
    own = {agreed: name for name, agreed in site.columns.items()}
    for name in site.values:
        if name not in schema.names:
            near = hint(name, schema.names)
            yield name, f"values.{name} is of no agreed column; there are {', '.join(schema.names)}.{near}"
    for name in schema.names:
        if names.count(name) == 0:
            listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            remedy = f'map it in [columns], such as "own name" = "{name}".{hint(name, names)}'
            yield name, f"{site.data}: no column {name}; it has {listed}; {remedy}"
        elif names.count(name) > 1:
            yield name, f"{site.data}: column {name} is there twice, perhaps by [columns]; rename one of them."
        else:
            try:
                _check(name, as_column(rows[name]), place_of(rows), schema)
            except ValueError as error:
                here = f" (here {own[name]})" if name in own else ""
                yield name, f"{error}{here}"


def _check(name: str, values: Any, locate: cols.Place, schema: TableSchema) -> None:
    """Refuse a column with a value that was not agreed on."""
    numbers = [*schema.numeric, schema.sample_weight, *([schema.label] if schema.regression else ())]
    if name in numbers:
        cols.numbers(name, values, locate, missing=name in schema.numeric and schema.missing == "median")
        return
    empty_ok = name != schema.label and (name not in schema.categories or schema.missing == "median")
    agreed = schema.categories.get(name)
    keys = None if agreed is None else {cols.key(value) for value in agreed}
    for row, value in enumerate(values):
        word = cols.key(value)
        if word is None and not empty_ok:
            raise ValueError(f"{locate(row)}: column {name} is empty; fill it in, or leave the row out.")
        if word is not None and keys is not None and word not in keys:
            raise ValueError(
                f"{locate(row)}: column {name} must be one of {cols.listed(tuple(agreed or ()))}, got "
                f"{str(value)[:40]!r}; correct it, or translate it in [values.{name}]."
            )
