"""Labels of the algorithms of a config, which are used in legends and as names of folders."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from feddr.config import toml
from feddr.config.components import ConfigError, argument, check_name
from feddr.storage import limits

OWN = ("local", "sampling")
"""The parts that an algorithm may have for itself."""


def entries(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of the algorithms, whether the config has one or a list of them."""
    tables = raw.get("algorithm", [])
    listed = tables if isinstance(tables, list) else [tables]
    if not listed:
        raise ConfigError("algorithm is missing; an experiment needs one or more.")
    for entry in listed:
        check_name("algorithm", "algorithm", entry)
    return listed


def labels(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each algorithm: its own, else its name with what sets it apart from others of this name."""
    own = [argument("algorithm.label", entry["label"], str) for entry in entries if "label" in entry]
    chosen: list[str] = []
    for entry in entries:
        if "label" in entry:
            chosen.append(entry["label"])
            continue
        twins = [other for other in entries if other["name"] == entry["name"] and "label" not in other]
        apart = [key for key in entry if key not in OWN and any(other.get(key) != entry[key] for other in twins)]
        plain = label = " ".join([entry["name"], *(f"{key}={entry[key]}" for key in apart)])
        number = 1
        while label in chosen or label in own:
            number += 1
            label = f"{plain} #{number}"
        chosen.append(label)
    for label in chosen:
        check_file_name("algorithm.label", label)
        # Folders that differ in case alone are one folder on many machines.
        if sum(other.casefold() == label.casefold() for other in chosen) > 1:
            raise ConfigError(f"algorithm.label must differ between algorithms, got {toml.text(label)} twice.")
    return chosen


def check_file_name(key: str, name: str) -> None:
    """Refuse what is no plain name for a folder, or could be one of the files of a run."""
    if not re.fullmatch(r"[^\W_][\w .,=+#()-]*", name) or name[-1] in ". " or name.endswith((".csv", ".png", ".toml")):
        raise ConfigError(f"{key} must be a plain name for a folder, got {toml.text(name)}.")
    if len(name.encode()) > limits.NAME:
        raise ConfigError(f"{key} must have at most {limits.NAME} bytes, got {len(name.encode())}; it names a folder.")
