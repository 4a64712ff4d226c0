"""A search as it was asked for: by the table ``[tune]`` of a config, by the command line, or by both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feddr import config as configs
from feddr.config import Config, ConfigError, toml
from feddr.config.components import argument
from feddr.config.labels import OWN, entries, labels
from feddr.config.overrides import override
from feddr.metrics import better
from feddr.metrics.metric import needed
from feddr.storage import limits
from feddr.tune.axes import axis
from feddr.tune.jobs import BETTER, At, RunSpec
from feddr.tune.paper import paper
from feddr.tune.space import Settings, Space, resolve
from feddr.tune.space import text as path_text
from feddr.validation.messages import hint

SPACES = ("paper",)
SPACE = ("grid", "random", "space")

OPTIONS: Mapping[str, Any] = {
    "grid": None,
    "random": None,
    "space": str | None,
    "trials": int | None,
    "seeds": Sequence[int],
    "metric": str,
    "at": At,
    "unequal": bool,
}
"""The settings of ``[tune]``, with their types; grid and random are tables of keys."""


@dataclass(frozen=True)
class Search:
    """A search: its space, its metric and its seeds.

    Parameters
    ----------
    raw
        The tables of the experiment.
    config
        The same, checked.
    settings
        The trials: for each label of an algorithm, settings by number.
    seeds
        With each of which a trial is run.
    metric, at
        What makes a setting good.

    Examples
    --------
    >>> import feddr
    >>> search = feddr.tune.plan(feddr.config.EXAMPLE, grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0], metric="F")
    >>> search.size, search.run_keys()
    (2, [('FedDR', 0, 0), ('FedDR', 1, 0)])
    """

    raw: Mapping[str, Any]
    config: Config
    space: Space
    settings: Mapping[str, Mapping[int, Settings]]
    seeds: tuple[int, ...]
    metric: str
    at: At

    def jobs(self) -> Iterator[RunSpec]:
        """Return all jobs, the algorithms and seeds in turn, so that an interrupted search is fair."""
        for number in sorted({number for tried in self.settings.values() for number in tried}):
            for label, tried in self.settings.items():
                for seed in self.seeds if number in tried else ():
                    yield self.job(label, number, seed)

    def job(self, label: str, number: int, seed: int) -> RunSpec:
        """Return one of them."""
        settings = self.settings[label][number]
        tables = measuring(override(alone(self.raw, label, settings), [f"seed={seed}"]), self.metric)
        return RunSpec(label, number, seed, settings, tables, self.metric, self.at)

    def run_keys(self) -> list[tuple[str, int, int]]:
        """Return the keys of all jobs."""
        return [(label, i, seed) for label, tried in self.settings.items() for i in tried for seed in self.seeds]

    @property
    def size(self) -> int:
        """The number of jobs."""
        return sum(map(len, self.settings.values())) * len(self.seeds)

    def spec(self) -> dict[str, Any]:
        """Return what must be the same for a search to be resumed; more trials or seeds may be asked for."""
        return {"config": dict(self.raw), **self.space.spec(), "metric": self.metric, "at": self.at}


def alone(raw: Mapping[str, Any], label: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of an experiment with one of the algorithms, and these settings."""
    tables = entries(raw)
    (table,) = [table for name, table in zip(labels(tables), tables, strict=True) if name == label]
    own = table if label == table["name"] else {**table, "label": label}
    return override({**raw, "algorithm": [own]}, [f"{key}={toml.text(value)}" for key, value in settings.items()])


def measuring(tables: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Return the tables of an experiment that measures what a search is for."""
    name, per_client = needed(metric)
    measured = {**tables, **({"per_client": True} if per_client else {})}
    if name is not None:
        measured["metrics"] = list(dict.fromkeys([*tables.get("metrics", ()), name]))
    return measured


def together(raw: Mapping[str, Any], best: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the tables of an experiment in which each algorithm has its own settings.

    None where they need different values of a setting that all of them share.
    """
    if len(best) == 1:
        return alone(raw, *next(iter(best.items())))
    algorithms, shared = [], []
    for label, settings in best.items():
        tables = alone(raw, label, settings)
        (table,) = tables.pop("algorithm")
        for kind in OWN:
            if tables.get(kind) != raw.get(kind):
                table.setdefault(kind, tables.pop(kind))
                tables |= {kind: raw[kind]} if kind in raw else {}
        algorithms.append(table)
        shared.append(tables)
    if any(tables != shared[0] for tables in shared):
        return None
    return {**shared[0], "algorithm": algorithms}


def plan(raw: Mapping[str, Any], **overrides: Any) -> Search:
    """Return the search that a config and its table ``[tune]`` ask for.

    Parameters
    ----------
    raw
        The tables of the experiment.
    overrides
        What replaces settings of ``[tune]``: any of ``OPTIONS``, None for those that do not. A grid, a random search
        or a space replaces all three.

    Raises
    ------
    ConfigError
        Where an option is unknown or does not fit the experiment.

    Examples
    --------
    >>> import feddr
    >>> search = plan(feddr.config.EXAMPLE, grid={"algorithm.FedDR.eta": [1, 10]}, seeds=[0, 1], metric="F")
    >>> search.size
    4
    """
    tables = dict(raw)
    asked, more = _check(tables.pop("tune", {})), _check(_given(overrides))
    if any(name in more for name in SPACE):
        asked = {name: value for name, value in asked.items() if name not in SPACE}
    asked |= more
    metric, at = asked.get("metric", "F"), asked.get("at", "last")
    if better(metric) is None or metric.startswith("personal_"):
        raise ConfigError(
            f"metric must be one at xbar, {', '.join(BETTER)}, got {toml.text(metric)}.{hint(metric, BETTER)}"
        )
    trials = asked.get("trials")
    if trials is not None and trials < 1:
        raise ConfigError(f"trials must be at least 1, got {trials}.")
    if trials is not None and trials > limits.TRIALS:
        raise ConfigError(f"trials must be at most {limits.TRIALS}, got {trials}.")
    space = _space(tables, asked)
    first = {label: {key: axis.draw(0.0) for key, axis in axes.items()} for label, axes in space.axes.items()}
    config = _parse(tables, first)
    seeds = tuple(asked.get("seeds", (config.seed,)))
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds must be whole numbers from 0 that differ, got {toml.text(seeds)}.")
    tried = {label: space.settings(label, trials, config.seed) for label in space.axes}
    if not asked.get("unequal", False):
        _check_equal(space, tried)
    search = Search(tables, config, space, tried, seeds, metric, at)
    _check_keys(search)
    return search


def _given(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in overrides.items() if value is not None and value != {}}


def _check(asked: Any) -> dict[str, Any]:
    """Refuse what is no setting of a search, or not of its type."""
    if not isinstance(asked, Mapping):
        raise ConfigError(f"tune must be a table, got {toml.text(asked)}.")
    checked = {}
    for name, value in asked.items():
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise ConfigError(f"tune.{name} is not a setting of a search; it has {known}.{hint(name, OPTIONS)}")
        if OPTIONS[name] is not None:
            checked[name] = argument(f"tune.{name}", value, OPTIONS[name])
        elif isinstance(value, Mapping):
            checked[name] = dict(_flat(value))
        else:
            raise ConfigError(f"tune.{name} must be a table of keys and values to try, got {toml.text(value)}.")
    return checked


def _flat(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Return the keys of nested tables in a row: ``algorithm.eta = [1, 10]`` is a table in a table to TOML."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*path, key))
        else:
            # A key in quotes, "algorithm.eta", is a whole path already.
            yield (path_text((*path, key)) if path else key), value


def _space(raw: Mapping[str, Any], asked: Mapping[str, Any]) -> Space:
    grid, random, name = asked.get("grid") or {}, asked.get("random") or {}, asked.get("space")
    if grid and random:
        raise ConfigError(
            f"A search is a grid or random, got the grid of {next(iter(grid))} and the random {next(iter(random))}; "
            "a random search takes lists, too."
        )
    drawn = bool(random) or (name is not None and not grid and asked.get("trials") is not None)
    axes = {key: axis(key, value, drawn) for key, value in (random if drawn else grid).items()}
    if name is not None:
        if name not in SPACES:
            raise ConfigError(f"space must be one of {', '.join(SPACES)}, got {toml.text(name)}.")
        tables = entries(raw)
        axes = {**paper(tables, labels(tables), drawn), **axes}
    if not axes:
        raise ConfigError(
            "There is nothing to search over; give --grid algorithm.eta=1,10,100, --random algorithm.eta=log:1:1000, "
            "or --space paper, for FedDR, AsyncFedDR, FedPD, FedSplit and FedProx."
        )
    return resolve(raw, axes, drawn)


def _parse(raw: Mapping[str, Any], first: Mapping[str, Settings]) -> Config:
    """Check the experiment, in which a setting that is searched over may be missing."""
    try:
        return configs.parse(raw)
    except ConfigError:
        tables = [alone(raw, label, settings) for label, settings in first.items()]
        for one in tables:
            configs.parse(one)
        return configs.parse({**tables[0], "algorithm": [one["algorithm"][0] for one in tables]})


def _check_equal(space: Space, tried: Mapping[str, Mapping[int, Settings]]) -> None:
    """Refuse to tune one algorithm more than another; one with nothing more to vary needs no more trials."""
    if space.random:
        return  # all have got what was asked for, or all that there is to draw
    sizes = {label: len(tried[label]) for label, axes in space.axes.items() if axes}
    if len(set(sizes.values())) > 1:
        got = ", ".join(f"{label} {size}" for label, size in sizes.items())
        raise ConfigError(
            f"Algorithms that are compared need as many trials each, got {got}; make the grids equal, use "
            f"--trials {min(sizes.values())} for a part of each, or --unequal."
        )


def _check_keys(search: Search) -> None:
    """Refuse a key with which every setting is refused; a single wrong value is recorded with its trial."""
    for label, tried in search.settings.items():
        errors = []
        for settings in tried.values():
            try:
                configs.parse(alone(search.raw, label, settings))
            except ConfigError as error:
                errors.append(error)
            else:
                break
        if len(errors) == len(tried):
            raise errors[0]
