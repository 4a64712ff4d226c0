"""The schema of a config: frozen dataclasses, read from TOML and written back."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from feddr.config import toml
from feddr.config.components import (
    ASYNCHRONOUS,
    TABLE,
    Component,
    ConfigError,
    argument,
    check_name,
    part,
    settings,
)
from feddr.config.labels import OWN, check_file_name, entries, labels
from feddr.config.overrides import override
from feddr.storage import limits, untrusted
from feddr.validation.messages import hint

FULL = Component("Full")

EXAMPLE: Mapping[str, Any] = {
    "name": "small",
    "rounds": 3,
    "data": {"name": "synthetic", "r": 1.0, "s": 1.0, "num_clients": 3},
    "model": {"name": "softmax", "num_features": 60, "num_classes": 10},
    "local": {"name": "SGD", "lr": 0.01},
    "algorithm": [{"name": "FedDR", "eta": 1.0}],
}
"""The tables of a small experiment, for the examples in docstrings."""


@dataclass(frozen=True)
class Method:
    """An algorithm under a label, with the local solver and the sampling of its own, where it has them.

    Examples
    --------
    >>> Method("slow", Component("FedDR", {"eta": 1.0})).algorithm.arguments
    {'eta': 1.0}
    """

    label: str
    algorithm: Component
    local: Component | None = None
    sampling: Component | None = None


@dataclass(frozen=True)
class Config:
    """An experiment in names and numbers.

    Parameters
    ----------
    name
        The folder of its results.
    data, model, algorithms, g, local, sampling
        What to run; an algorithm may have a local solver and a sampling of its own.
    init_seed
        Draws the start of the model.
    weights
        Of the clients, as in ``feddr.Problem``.
    class_weight
        As in ``feddr.Problem.classification``.
    rounds, seed, precision, evaluate_every, personal, certify, on_bad_client
        As in ``feddr.simulate``; only FedDR has certificates.
    metrics, per_client, stop_when
        As in ``feddr.simulate``: metrics by name, and when to stop as a text.
    engine
        ``"clock"`` for virtual time, which asynchronous methods need and the others may have.
    delays, deadline
        As in ``feddr.simulate``.
    updates, evaluate_every_updates
        For asynchronous methods, counted in uploads that arrive: where the server waits for B of them, it makes
        ``updates / B`` steps, so that all methods do the same work.
    concurrency
        As in ``feddr.simulate_async``.

    Examples
    --------
    >>> config = parse(EXAMPLE)
    >>> config.rounds, config.algorithms[0].label, config.precision
    (3, 'FedDR', 'float32')
    """

    name: str
    data: Component
    model: Component
    algorithms: tuple[Method, ...]
    g: Component | None = None
    local: Component | None = None
    sampling: Component = FULL
    delays: Component | None = None
    rounds: int = 0
    seed: int = 0
    init_seed: int = 0
    weights: Literal["uniform", "samples"] = "uniform"
    class_weight: Literal["balanced"] | None = None
    precision: Literal["float32", "float64"] = "float32"
    evaluate_every: int = 10
    personal: bool = False
    certify: bool = False
    engine: Literal["simulate", "clock"] = "simulate"
    updates: int = 0
    evaluate_every_updates: int = 100
    concurrency: int | None = None
    deadline: float | None = None
    on_bad_client: Literal["stop", "skip"] = "stop"
    metrics: Sequence[str] = ()
    per_client: bool = False
    stop_when: str | None = None


SHARED = [kind for kind in TABLE if kind not in ("algorithm", "privacy", "schedule", "stopping", "upload")]
SCALARS = {entry.name: entry.type for entry in fields(Config) if entry.name not in (*SHARED, "algorithms")}


LEAST = {
    "rounds": 0,
    "updates": 0,
    "seed": 0,
    "init_seed": 0,
    "evaluate_every": 1,
    "evaluate_every_updates": 1,
    "concurrency": 1,
}
"""The least value of whole numbers."""


def load(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a config from a file, with overrides such as ``rounds=5`` or ``algorithm.FedDR.eta=10``.

    Raises
    ------
    ConfigError
        Where the file cannot be read, or ``parse`` refuses what it says.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "small.toml")
    ...     _ = file.write_text(dumps(parse(EXAMPLE)))
    ...     config = load(file, ["rounds=5", "algorithm.FedDR.eta=10"])
    >>> config.rounds, config.algorithms[0].algorithm.arguments
    (5, {'eta': 10.0})
    """
    raw = override(read(path), overrides)
    raw.pop("tune", None)  # a search over this experiment, which is no part of it
    return parse(raw)


def read(path: str | Path) -> dict[str, Any]:
    """Return the tables of a file as they are, unchecked.

    Raises
    ------
    ConfigError
        Where the file is not there, or is not TOML.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "small.toml")
    ...     _ = file.write_text('name = "small"')
    ...     tables = read(file)
    >>> tables
    {'name': 'small'}
    """
    try:
        return toml.loads(untrusted.read(Path(path), limits.CONFIG).decode())
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read, {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML, {error}.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: cannot be used, {error}.") from None


def parse(raw: Mapping[str, Any]) -> Config:
    """Check the keys, the names and the types of a config, and fill in its defaults.

    Raises
    ------
    ConfigError
        With the key that is unknown, missing or of the wrong type.

    Examples
    --------
    >>> parse(EXAMPLE).sampling.name
    'Full'
    """
    known = [*SCALARS, *SHARED, "algorithm"]
    for key in raw:
        if key not in known:
            raise ConfigError(f"{key} is not a setting of an experiment; it has {', '.join(known)}.{hint(key, known)}")
    for key in ("name", "data", "model", "algorithm"):
        if key not in raw:
            raise ConfigError(f"{key} is missing; every experiment needs it.")
    scalars = {key: argument(key, raw[key], SCALARS[key]) for key in SCALARS if key in raw}
    check_file_name("name", scalars["name"])
    for key, least in LEAST.items():
        if scalars.get(key) is not None and scalars[key] < least:
            raise ConfigError(f"{key} must be at least {least}, got {scalars[key]}.")

    _check_metrics(scalars)

    tables = entries(raw)
    _check_clock(raw, scalars, [table["name"] for table in tables])
    names = labels(tables)
    keys = ["algorithm" if len(tables) == 1 else f"algorithm.{name}" for name in names]
    if "local" not in raw and not all("local" in table for table in tables):
        raise ConfigError(f"local is missing; its name is one of {', '.join(TABLE['local'][1])}.")
    # All names before any argument: names need no imports, so that a wrong one is reported at once.
    own = [(f"{key}.{kind}", kind, t[kind]) for key, t in zip(keys, tables, strict=True) for kind in OWN if kind in t]
    for key, kind, table in [(kind, kind, raw[kind]) for kind in SHARED if kind in raw] + own:
        check_name(key, kind, table)

    parts: dict[str, Any] = {kind: part(kind, kind, raw[kind]) for kind in SHARED if kind in raw}
    if "seed" in settings("data", parts["data"].name):
        parts["data"] = Component(parts["data"].name, {"seed": scalars.get("seed", 0), **parts["data"].arguments})
    methods = tuple(_method(*triple) for triple in zip(keys, names, tables, strict=True))
    return Config(**scalars, **parts, algorithms=methods)


def _check_metrics(scalars: Mapping[str, Any]) -> None:
    """Refuse metrics that there are not, and what is no condition to stop for."""
    try:
        if scalars.get("metrics"):
            from feddr.metrics import choose

            choose(scalars["metrics"])
        if scalars.get("stop_when") is not None:
            from feddr.early_stopping import StopWhen

            StopWhen.parse(scalars["stop_when"])
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_clock(raw: Mapping[str, Any], scalars: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse an experiment whose methods lack what their engine needs."""
    for name in names:
        needed = "updates" if name in ASYNCHRONOUS else "rounds"
        if name in ASYNCHRONOUS and scalars.get("engine") != "clock":
            raise ConfigError(f'engine must be "clock" for {name}; it is asynchronous.')
        if needed not in raw:
            raise ConfigError(f"{needed} is missing; {name} needs it.")
    for key in ("delays", "deadline", "concurrency"):
        if scalars.get("engine") != "clock" and (key in raw if key == "delays" else scalars.get(key) is not None):
            raise ConfigError(f'{key} needs virtual time; set engine = "clock".')


def dumps(config: Config) -> str:
    """Return the config as TOML, from which ``parse`` makes the same config.

    Examples
    --------
    >>> import tomllib
    >>> parse(tomllib.loads(dumps(parse(EXAMPLE)))) == parse(EXAMPLE)
    True
    """
    lines = toml.lines({key: getattr(config, key) for key in SCALARS})
    for kind in SHARED:
        if getattr(config, kind) is not None:
            lines += ["", f"[{kind}]", *toml.lines(_plain(getattr(config, kind)))]
    for method in config.algorithms:
        label = {} if method.label == method.algorithm.name else {"label": method.label}
        own = {kind: _plain(getattr(method, kind)) for kind in OWN if getattr(method, kind) is not None}
        lines += ["", "[[algorithm]]", *toml.lines({**_plain(method.algorithm), **label, **own})]
    return "\n".join(lines) + "\n"


def _method(key: str, label: str, table: Mapping[str, Any]) -> Method:
    own = {kind: part(f"{key}.{kind}", kind, table[kind]) for kind in OWN if kind in table}
    rest = {setting: value for setting, value in table.items() if setting not in ("label", *OWN)}
    return Method(label, part(key, "algorithm", rest), **own)


def _plain(value: Any) -> Any:
    """Return a part as the table that it came from."""
    if isinstance(value, Component):
        return {"name": value.name, **_plain(value.arguments)}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return {key: _plain(entry) for key, entry in value.items()} if isinstance(value, Mapping) else value
