"""The grids of the paper (Tran-Dinh et al. 2021): mu in [0.001, 1], eta in [1, 1000], alpha in (0, 1.99].

The paper names the ranges, not the values in between. As a grid every algorithm gets sixteen trials, among them those
that were published as the best; in a random search the ranges are sampled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from feddr.tune.axes import Axis, Choice, Range

TRIALS = 16
"""Of each algorithm, as a grid."""

MU, ETA, ALPHA = Range("log", 0.001, 1.0), Range("log", 1.0, 1000.0), Range("lin", 0.0, 1.99)

RANGES: Mapping[str, Mapping[str, Axis]] = {
    "FedDR": {"eta": ETA, "alpha": ALPHA},
    "AsyncFedDR": {"eta": ETA, "alpha": ALPHA},
    "FedPD": {"eta": ETA},
    "FedSplit": {"eta": ETA},
    "FedProx": {"mu": MU},
}

_TWO: Mapping[str, Axis] = {"eta": ETA.spaced(4), "alpha": Choice((0.5, 1.0, 1.5, 1.95))}

GRIDS: Mapping[str, Mapping[str, Axis]] = {
    "FedDR": _TWO,
    "AsyncFedDR": _TWO,
    "FedPD": {"eta": ETA.spaced(TRIALS)},
    "FedSplit": {"eta": ETA.spaced(TRIALS)},
    "FedProx": {"mu": MU.spaced(TRIALS)},
}


def paper(tables: Sequence[Mapping[str, Any]], labels: Sequence[str], random: bool) -> dict[str, Axis]:
    """Return the keys of the algorithms that the paper tuned; others have none."""
    ready = RANGES if random else GRIDS
    return {
        f'algorithm."{label}".{setting}': axis
        for table, label in zip(tables, labels, strict=True)
        for setting, axis in ready.get(table["name"], {}).items()
    }
