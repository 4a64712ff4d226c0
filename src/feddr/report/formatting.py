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


def call(settings: Mapping[str, Any]) -> str:
    """Return the call that repeats a run begun in Python, from its settings.json; the problem is its caller's."""
    names = ("local", "sampling", "delays", "deadline", "concurrency", "rounds", "updates", "evaluate_every")
    given = {name: settings[name] for name in names if settings.get(name) is not None}
    given |= {name: repr(settings[name]) for name in ("seed", "precision") if name in settings}
    function = "simulate_async" if settings.get("engine") == "clock" else "simulate"
    lines = ["problem", settings.get("algorithm", "algorithm"), *(f"{name}={value}" for name, value in given.items())]
    return f"feddr.{function}(" + "".join(f"\n    {line}," for line in lines) + "\n)"
