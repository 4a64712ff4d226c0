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
    given = raw.get("algorithm", [])
    found = given if isinstance(given, list) else [given]
    if not found:
        raise ConfigError("algorithm is missing; an experiment needs one or more.")
    for entry in found:
        check_name("algorithm", "algorithm", entry)
    return found


def labels(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each algorithm: its own, else its name with what sets it apart from others of this name."""
    given = [argument("algorithm.label", entry["label"], str) for entry in entries if "label" in entry]
    found: list[str] = []
    for entry in entries:
        if "label" in entry:
            found.append(entry["label"])
            continue
        twins = [other for other in entries if other["name"] == entry["name"] and "label" not in other]
        apart = [key for key in entry if key not in OWN and any(other.get(key) != entry[key] for other in twins)]
        plain = label = " ".join([entry["name"], *(f"{key}={entry[key]}" for key in apart)])
        number = 1
        while label in found or label in given:
            number += 1
            label = f"{plain} #{number}"
        found.append(label)
    for label in found:
        check_file_name("algorithm.label", label)
        # Folders that differ in case alone are one folder on many machines.
        if sum(other.casefold() == label.casefold() for other in found) > 1:
            raise ConfigError(f"algorithm.label must differ between algorithms, got {toml.text(label)} twice.")
    return found


def check_file_name(key: str, name: str) -> None:
    """Refuse what is no plain name for a folder, or could be one of the files of a run."""
    if not re.fullmatch(r"[^\W_][\w .,=+#()-]*", name) or name[-1] in ". " or name.endswith((".csv", ".png", ".toml")):
        raise ConfigError(f"{key} must be a plain name for a folder, got {toml.text(name)}.")
    if len(name.encode()) > limits.NAME:
        raise ConfigError(f"{key} must have at most {limits.NAME} bytes, got {len(name.encode())}; it names a folder.")
