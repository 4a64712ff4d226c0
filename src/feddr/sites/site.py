"""The file of a site: where its data are, what their columns are called, and the rules of its node."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feddr.sites.rules import SiteRules
from feddr.storage import limits, untrusted
from feddr.validation.messages import hint

KEYS = ("data", "delimiter", "columns", "values", "rules")


@dataclass(frozen=True)
class Site:
    """What a site says in its own file, which stays with it.

    Parameters
    ----------
    data
        Its rows, in CSV or Parquet; None where the app of the run reads them itself.
    delimiter
        What separates the columns of a CSV file.
    columns
        From the names of its own columns to those that all sites have agreed on; others have the same name.
    values
        For a column, by its agreed name: from the words of this site to those that all sites have agreed on.
    rules
        What its node refuses.

    Examples
    --------
    >>> site = Site(columns={"Alter": "age"}, rules=SiteRules(minimum_sites=3))
    >>> site.columns["Alter"], site.rules.minimum_sites
    ('age', 3)
    """

    data: Path | None = None
    delimiter: str = ","
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rules: SiteRules = field(default_factory=SiteRules)

    @classmethod
    def read(cls, path: str | Path) -> "Site":
        r"""Return what a file says; ``data`` is looked for from the folder of the file.

        Raises
        ------
        ValueError
            With the file and the key that is unknown or wrong.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "site.toml")
        ...     _ = file.write_text('data = "patients.csv"\n[rules]\nminimum_sites = 3')
        ...     site = Site.read(file)
        >>> site.data.name, site.rules.minimum_sites
        ('patients.csv', 3)
        """
        source = Path(path)
        try:
            raw = tomllib.loads(untrusted.read(source, limits.CONFIG).decode())
            return cls._of(raw, source.absolute().parent)
        except FileNotFoundError:
            raise ValueError(f"{source}: no such file.") from None
        except OSError as error:
            raise ValueError(f"{source}: cannot be read, {error.strerror}.") from None
        except UnicodeDecodeError:
            raise ValueError(f"{source}: not a text in UTF-8.") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"{source}: not TOML, {error}.") from None
        except ValueError as error:
            raise ValueError(f"{source}: {str(error).removeprefix(f'{source}: ')}") from None

    @classmethod
    def _of(cls, raw: Mapping[str, Any], folder: Path) -> "Site":
        for key in raw:
            if key not in KEYS:
                raise ValueError(f"{key} is not a setting of a site; it has {', '.join(KEYS)}.{hint(key, KEYS)}")
        for key in ("data", "delimiter"):
            if key in raw and (not isinstance(raw[key], str) or not raw[key]):
                raise ValueError(f"{key} must be a text, got {raw[key]!r}.")
        for key in ("columns", "values", "rules"):
            if not isinstance(raw.get(key, {}), dict):
                raise ValueError(f"{key} must be a table, got {raw[key]!r}; write [{key}].")
        columns = _words("columns", raw.get("columns", {}))
        twice = [name for name in columns.values() if list(columns.values()).count(name) > 1]
        if twice:
            raise ValueError(f"columns must name each agreed column once, got {twice[0]} twice.")
        values = {name: _words(f"values.{name}", table) for name, table in raw.get("values", {}).items()}
        data = (folder / Path(raw["data"]).expanduser()) if "data" in raw else None
        rules = SiteRules.of(raw.get("rules", {}))
        return cls(data, raw.get("delimiter", ","), columns, values, rules)


def _words(key: str, table: Any) -> dict[str, str]:
    """Return a table from words to words."""
    if not isinstance(table, dict) or not all(isinstance(word, str) for word in table.values()):
        raise ValueError(f'{key} must be a table of words, such as {{"their word" = "agreed word"}}, got {table!r}.')
    return dict(table)
