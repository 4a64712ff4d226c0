"""Estimates of running time, from what runs took on one core of a small machine."""

from collections.abc import Mapping
from typing import Any

START = 3.0
"""Seconds for data and compiler."""

SECONDS = {
    "synthetic": 0.2,
    "sampled": 0.08,
    "femnist": 0.7,
    "writers": 0.7,
    "few": 0.7,
    "digits": 0.02,
    "shards": 0.4,
    "composite-00": 0.08,
    "composite-few-labels": 0.7,
    "async-few-labels": 0.5,
    "async-synthetic": 0.15,
    "sparsity-writers": 0.07,
}
"""Seconds of a round with the clients and epochs of the file, or of as many updates; by its name, or the first word."""

EPOCHS = {"digits": 5, "shards": 5, "sparsity-writers": 5}
"""Epochs of the files; 20 in the others."""


def seconds(file: str, tables: Mapping[str, Any]) -> float:
    """Return about how long a run will take."""
    if "digits" in file:
        file = "digits"
    word = file.split("-")[0]
    share = tables["local"].get("epochs", 1) / EPOCHS.get(file, 20)
    return START + SECONDS.get(file, SECONDS.get(word, 0.1)) * int(tables["rounds"]) * share
