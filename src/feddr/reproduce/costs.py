"""What runs took before, on one core of a small machine, to say what others will take."""

from collections.abc import Mapping
from typing import Any

START = 3.0
"""Seconds for data and compiler."""

SECONDS = {
    "synthetic-iid": 0.4,
    "synthetic-00": 0.4,
    "synthetic-0505": 0.4,
    "synthetic-11": 0.4,
    "sampled-00": 0.15,
    "sampled-11": 0.15,
    "femnist": 8.0,
    "writers": 1.0,
    "digits": 0.02,
    "composite": 0.15,
    "composite-tuned": 0.15,
    "async-writers": 0.5,
    "async-digits": 0.02,
    "async-synthetic": 0.1,
    "sparsity-writers": 0.35,
    "sparsity-digits": 0.02,
}
"""Seconds of a round with the clients and epochs of the file, or of as many updates."""

EPOCHS = {"synthetic": 20, "sampled": 20, "composite": 20, "femnist": 20}
"""Epochs of the files, by the first word of their names; 5 in the others."""


def seconds(file: str, tables: Mapping[str, Any]) -> float:
    """Return about how long a run will take."""
    share = tables["local"].get("epochs", 1) / EPOCHS.get(file.split("-")[0], 5)
    return START + SECONDS.get(file, 0.1) * int(tables["rounds"]) * share
