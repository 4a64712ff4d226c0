"""Formatting of settings in a report, as one would write them in Python."""

from collections.abc import Mapping
from typing import Any


def words(value: Any) -> str:
    """Return a value of a config or of settings.json as a text.

    Examples
    --------
    >>> words({"name": "SGD", "lr": 0.01, "batch_size": 10})
    'SGD(lr=0.01, batch_size=10)'
    """
    if isinstance(value, Mapping):
        rest = ", ".join(f"{key}={words(entry)}" for key, entry in value.items() if key != "name")
        return f"{value['name']}({rest})" if "name" in value else f"{{{rest}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(words, value))}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) and len(f"{value:g}") < len(str(value)) else str(value)
