"""Overrides from the command line: ``--set key=value`` changes a config before it is checked."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from feddr.config import toml
from feddr.config.components import ConfigError, settings
from feddr.config.labels import OWN, entries, labels


def override(raw: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Return the config with the assignments applied, in order.

    ``algorithm.eta=10`` is for every algorithm that has this setting, ``algorithm.FedDR.eta=10`` for those of this
    label or name. A value is TOML; what is not TOML is a string.
    """
    result: dict[str, Any] = copy.deepcopy(dict(raw))
    for text in assignments:
        path, value = toml.assignment(text)
        if not path:
            raise ConfigError(f"An override is KEY=VALUE, such as algorithm.eta=10, got {text}.")
        tables = [result]
        if path[0] == "algorithm" and len(path) > 1:
            tables, path = addressed(entries(result), path[1:])
        for table in tables:
            _put(table, path, value, text, result)
    return result


def _put(table: dict[str, Any], path: list[str], value: Any, text: str, shared: Mapping[str, Any]) -> None:
    for step in path[:-1]:
        # A part that an algorithm does not have for itself starts as the shared one.
        table = table.setdefault(step, copy.deepcopy(shared.get(step, {})) if step in OWN else {})
        if not isinstance(table, dict):
            raise ConfigError(f"{step} has no settings of its own, got {text}.")
    table[path[-1]] = value


def addressed(tables: list[dict[str, Any]], path: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the algorithms that the path after ``algorithm`` is for, and the path within them."""
    names = labels(tables)
    named = [table for label, table in zip(names, tables, strict=True) if path[0] in (label, table["name"])]
    if named and len(path) > 1:
        return named, path[1:]
    able = [t for t in tables if path[0] in ("name", "label", *OWN) or path[0] in settings("algorithm", t["name"])]
    if not able and (len(tables) > 1 or len(path) > 1):
        raise ConfigError(f"algorithm.{'.'.join(path)} is a setting of none of {', '.join(names)}.")
    return able or tables, path
