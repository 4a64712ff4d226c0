"""The search space: for each algorithm, the keys that vary and the values that they may take."""

import itertools
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feddr.config import ConfigError, toml
from feddr.config.labels import OWN, entries, labels
from feddr.config.overrides import addressed
from feddr.storage import limits
from feddr.tune.axes import Axis, Choice, Range

Settings = dict[str, Any]
"""Values by key, as in ``{"algorithm.eta": 10, "local.lr": 0.01}``."""

PATIENCE = 100
"""Draws for each trial that is wanted: a range may hold fewer numbers than that, and repeats are left out."""

FIXED = {
    ("seed",): "--seeds has the seeds",
    ("name",): "it is the folder of the results",
    ("algorithm",): "an algorithm is searched at a time, so name one of its settings",
    ("algorithm", "name"): "an algorithm is searched at a time, so name one of its settings",
    ("algorithm", "label"): "it stands for the algorithm",
}
"""Keys that cannot vary, and why."""


@dataclass(frozen=True)
class Space:
    """What is searched.

    Parameters
    ----------
    random
        Whether settings are drawn; otherwise every combination is tried.
    axes
        By label of the algorithm and key. A key is that of an experiment with this algorithm alone, so that
        ``algorithm.FedDR.eta`` is ``algorithm.eta`` here.
    """

    random: bool
    axes: Mapping[str, Mapping[str, Axis]]

    def settings(self, label: str, count: int | None, seed: int) -> dict[int, Settings]:
        """Return the settings to try for an algorithm, by the number of the trial.

        Parameters
        ----------
        count
            How many; None for a whole grid. The first k of a longer search are those of a search for k.
        seed
            Draws the settings, or which part of a grid comes first.
        """
        axes = self.axes[label]
        if not axes:
            return {0: {}}
        if self.random:
            if count is None:
                raise ConfigError("A random search needs --trials, their number for each algorithm.")
            return dict(enumerate(itertools.islice(_distinct(axes, count, seed), count)))
        grid = dict(enumerate(_grid(axes)))
        if count is None or count >= len(grid):
            return grid
        return {number: grid[number] for number in sorted(_order(len(grid), seed)[:count])}

    def spec(self) -> dict[str, Any]:
        """Return the space in plain values, equal for equal spaces."""
        axes = {label: {key: axis.spec for key, axis in axes.items()} for label, axes in self.axes.items()}
        return {"search": "random" if self.random else "grid", "axes": axes}


def resolve(raw: Mapping[str, Any], searched: Mapping[str, Axis], random: bool) -> Space:
    """Find the algorithms that each key is for, as ``--set`` does: the later of two keys for one setting counts."""
    tables = entries(raw)
    names = labels(tables)
    axes: dict[str, dict[str, Axis]] = {name: {} for name in names}
    for key, axis in searched.items():
        path, _ = toml.assignment(f"{key}=0")
        if not path:
            raise ConfigError(f"A key to search over is written as for --set, such as algorithm.eta, got {key}.")
        matching = list(zip(names, tables, strict=True))
        if path[0] == "algorithm" and len(path) > 1:
            meant, rest = addressed(tables, path[1:])
            path = ["algorithm", *rest]
            matching = [(name, table) for name, table in matching if any(table is one for one in meant)]
        elif path[0] in OWN:
            # What an algorithm has for itself does not change with the shared part.
            matching = [(name, table) for name, table in matching if path[0] not in table]
        if tuple(path) in FIXED or path[0] == "tune":
            raise ConfigError(f"{key} cannot vary in a search; {FIXED.get(tuple(path), 'it is the search')}.")
        if not matching:
            raise ConfigError(f"{key} changes nothing: every algorithm has a {path[0]} of its own.")
        for name, _ in matching:
            # A key that is given again counts as the later one, also for its place in the table.
            axes[name].pop(text(path), None)
            axes[name][text(path)] = axis
    return Space(random, axes)


def text(path: Sequence[str]) -> str:
    """Return a path as ``--set`` takes it."""
    return ".".join(step if re.fullmatch(r"[A-Za-z0-9_-]+", step) else f'"{step}"' for step in path)


def _grid(axes: Mapping[str, Axis]) -> Iterator[Settings]:
    """Return all combinations, the last key changing fastest."""
    for key, axis in axes.items():
        if isinstance(axis, Range):
            raise ConfigError(f"{key} is a range, {axis.spec}, and a grid needs a number of values.")
    values = [axis.values for axis in axes.values() if isinstance(axis, Choice)]
    if (size := math.prod(map(len, values))) > limits.TRIALS:
        raise ConfigError(f"A grid has at most {limits.TRIALS:,} settings, this one has {size:,}; use --random.")
    return (dict(zip(axes, point, strict=True)) for point in itertools.product(*values))


def _distinct(axes: Mapping[str, Axis], count: int, seed: int) -> Iterator[Settings]:
    """Return draws, the first of each kind; they may be fewer than ``count`` where the space holds no more."""
    finite = [len(axis.values) for axis in axes.values() if isinstance(axis, Choice)]
    most = min(count, math.prod(finite)) if len(finite) == len(axes) else count
    seen: list[Settings] = []
    for number in range(PATIENCE * count):
        if len(seen) == most:
            return
        settings = {key: axis.draw(_uniform(seed, number, key)) for key, axis in axes.items()}
        if settings not in seen:
            seen.append(settings)
            yield settings


def _uniform(seed: int, number: int, key: str) -> float:
    """Return a number in [0, 1) of its own for each seed, draw and key.

    So a longer search begins like a shorter one, another key leaves the draws of this one as they are, and algorithms
    with the same key try the same values.
    """
    import numpy as np

    return float(np.random.default_rng([seed, number, zlib.crc32(key.encode())]).random())


def _order(size: int, seed: int) -> list[int]:
    """Return 0..size-1 in the order in which a part of a grid is taken."""
    import numpy as np

    return [int(i) for i in np.random.default_rng([seed, size]).permutation(size)]
