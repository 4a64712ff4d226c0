"""Ranking of a search: for each algorithm, its settings by the mean of the metric over the seeds."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from feddr.metrics import better
from feddr.tune.axes import Choice
from feddr.tune.jobs import RunRecord
from feddr.tune.plan import Search
from feddr.tune.space import Settings


@dataclass(frozen=True)
class RankedSetting:
    """A setting of an algorithm, and how good it is.

    Parameters
    ----------
    records
        With each seed for which there is one.
    mean, spread
        Mean and standard deviation of the metric over the seeds; no mean where a seed is missing or came to nothing, no
        spread for a single seed.
    rank
        Among the settings of the algorithm that have a mean, from 1.

    Examples
    --------
    >>> setting = RankedSetting("FedDR", 0, {"algorithm.eta": 10, "algorithm.alpha": 1.5}, records=(), mean=0.5, rank=1)
    >>> setting.words, setting.mean
    ('eta=10, alpha=1.5', 0.5)
    """

    algorithm: str
    number: int
    settings: Settings
    records: tuple[RunRecord, ...]
    mean: float | None = None
    spread: float | None = None
    rank: int | None = None

    @property
    def words(self) -> str:
        """The setting, as in "eta=10, alpha=1.5"."""
        return words(self.settings)

    @property
    def trouble(self) -> str:
        """How failed runs ended, as in "2 diverged"."""
        counts = Counter(record.status for record in self.records if record.value is None)
        return ", ".join(f"{count} {status}" for status, count in counts.items())

    def average(self, name: str) -> float:
        """Return the mean of a number of the records over the seeds."""
        return statistics.fmean(float(getattr(record, name)) for record in self.records)


def rank(search: Search, records: Mapping[tuple[str, int, int], RunRecord]) -> dict[str, list[RankedSetting]]:
    """Return the settings of each algorithm, the best first, those without a mean last; of equals the first tried.

    Examples
    --------
    >>> import feddr
    >>> search = feddr.tune.plan(feddr.config.EXAMPLE, grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0], metric="F")
    >>> keys = search.run_keys()
    >>> records = {key: feddr.tune.RunRecord(*key, {}, "finished", value=float(key[1])) for key in keys}
    >>> [(one.rank, one.words, one.mean) for one in rank(search, records)["FedDR"]]
    [(1, 'eta=1', 0.0), (2, 'eta=10', 1.0)]
    """
    sign = 1.0 if better(search.metric) == "min" else -1.0
    ranking = {}
    for label, tried in search.settings.items():
        standings = [_standing(search, records, label, number, settings) for number, settings in tried.items()]
        ranked = sorted(
            (one for one in standings if one.mean is not None),
            key=lambda one: (sign * (one.mean or 0.0), one.number),
        )
        numbered = [replace(one, rank=position) for position, one in enumerate(ranked, start=1)]
        ranking[label] = numbered + [one for one in standings if one.mean is None]
    return ranking


def best(ranking: Mapping[str, Sequence[RankedSetting]]) -> dict[str, RankedSetting]:
    """Return the best setting of each algorithm that has one.

    Examples
    --------
    >>> import feddr
    >>> search = feddr.tune.plan(feddr.config.EXAMPLE, grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0], metric="F")
    >>> keys = search.run_keys()
    >>> records = {key: feddr.tune.RunRecord(*key, {}, "finished", value=float(key[1])) for key in keys}
    >>> best(rank(search, records))["FedDR"].words
    'eta=1'
    """
    return {label: standings[0] for label, standings in ranking.items() if standings and standings[0].rank == 1}


def edges(search: Search, winners: Mapping[str, RankedSetting]) -> list[str]:
    """Say where a best value is the first or last of a grid, so that a better one may lie beyond."""
    notes = []
    for label, standing in winners.items():
        for key, axis in search.space.axes[label].items():
            values = sorted(axis.values) if isinstance(axis, Choice) and _numeric(axis.values) else []
            if len(values) > 2 and standing.settings[key] in (values[0], values[-1]):
                side = "smallest" if standing.settings[key] == values[0] else "largest"
                value = words({key: standing.settings[key]})
                notes.append(f"{label}: {value} is the {side} of its grid; the best may lie beyond.")
    return notes


def words(settings: Mapping[str, Any]) -> str:
    """Return settings as in "eta=10, alpha=1.5"."""
    return ", ".join(f"{short(key)}={value(one)}" for key, one in settings.items()) or "-"


def short(key: str) -> str:
    """Return a key without what all keys of an algorithm begin with."""
    return key.removeprefix("algorithm.")


def value(one: Any) -> str:
    """Return a value as a person writes it."""
    return f"{one:g}" if isinstance(one, float) else str(one)


def _standing(
    search: Search, records: Mapping[tuple[str, int, int], RunRecord], label: str, number: int, settings: Settings
) -> RankedSetting:
    keys = [(label, number, seed) for seed in search.seeds]
    finished = tuple(records[key] for key in keys if key in records)
    values = [record.value for record in finished if record.value is not None]
    if len(values) < len(search.seeds):
        return RankedSetting(label, number, settings, finished)
    spread = statistics.stdev(values) if len(values) > 1 else None
    return RankedSetting(label, number, settings, finished, statistics.fmean(values), spread)


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in values)
