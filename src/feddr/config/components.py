"""Components of a config: the one table from names in TOML to classes, and the check of their arguments."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from feddr.config import toml
from feddr.validation.messages import hint

if TYPE_CHECKING:
    from optax import GradientTransformation

    from feddr.algorithms import FedOpt
    from feddr.local import Optax
    from feddr.local.schedules import RoundSchedule

TABLE: Mapping[str, tuple[str, Sequence[str]]] = {
    "data": (
        "feddr.datasets",
        [
            *("bundled", "client_files", "csv", "femnist", "heart_disease", "leaf", "libsvm", "mnist", "synthetic"),
            "synthetic_iid",
        ],
    ),
    "model": ("feddr.models", ["cnn", "linear", "lstm", "mlp", "resnet", "softmax", "transformer"]),
    "g": (
        "feddr.prox",
        [
            *("Box", "ElasticNet", "GroupL2", "L1", "L1Ball", "L2", "L2Ball", "LInf", "NonNegative", "Nuclear"),
            *("Parts", "Scaled", "Simplex", "SquaredL2", "Translated", "Zero"),
        ],
    ),
    "algorithm": (
        "feddr.algorithms",
        [
            *("AsyncFedDR", "CA2FL", "FedAdagrad", "FedAdam", "FedAsync", "FedAvg", "FedAvgM", "FedBuff", "FedDR"),
            *("FedDecoupled", "FedDualAvg", "FedDyn", "FedMid", "FedNova", "FedOpt", "FedPD", "FedProx", "FedSplit"),
            *("FedYogi", "MimeLite", "Scaffnew", "Scaffold"),
        ],
    ),
    "local": ("feddr.local", ["Accelerated", "Geometric", "Optax", "SGD"]),
    "schedule": ("feddr.local.schedules", ["Cosine", "Step"]),
    "stopping": ("feddr.local", ["Absolute", "Epochs", "Relative", "Tolerance"]),
    "upload": ("feddr.compress", ["Nonzero", "Quantised", "RandomK", "Rounded", "TopK"]),
    "privacy": ("feddr.privacy", ["RecordLevel", "SiteLevel"]),
    "sampling": ("feddr.sampling", ["DoublyUniform", "Full", "Independent", "Partitioned", "Systematic", "Uniform"]),
    "delays": (
        "feddr.delays",
        [
            *("Combined", "Dropout", "Fixed", "LogNormal", "Network", "Pareto", "PerStep", "Periodic", "Trace"),
            *("UniformSpeed", "Windows"),
        ],
    ),
}
"""For each kind of part, the module and the names in it."""

ASYNCHRONOUS = ("AsyncFedDR", "CA2FL", "FedAsync", "FedBuff")
"""The algorithms that need a clock."""

NESTED = {
    "Compressor": "upload",
    "Delay": "delays",
    "Quantised": "upload",
    "RecordLevel": "privacy",
    "Rounded": "upload",
    "Regulariser": "g",
    "RoundSchedule": "schedule",
    "SiteLevel": "privacy",
    "Stopping": "stopping",
}
"""The kinds of parts that are arguments of other parts, by their annotations."""

OPTIMISERS = ("adabelief", "adagrad", "adam", "adamw", "lion", "nadam", "radam", "rmsprop", "sgd", "yogi")
"""The optimisers of optax that a config may name."""


class ConfigError(ValueError):
    """A config asks for something that cannot be done; the message is one line that names the key.

    Examples
    --------
    >>> import feddr
    >>> try:
    ...     feddr.config.parse({"name": "small", "round": 3})
    ... except ConfigError as error:
    ...     print(str(error).partition(";")[0])
    round is not a setting of an experiment
    """


@dataclass(frozen=True)
class Component:
    """A function or class by name, and its arguments; ``kind`` where it is an argument of another part.

    Examples
    --------
    >>> Component("SGD", {"lr": 0.01, "epochs": 5})
    Component(name='SGD', arguments={'lr': 0.01, 'epochs': 5}, kind='')
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""


def target(kind: str, name: str) -> Callable[..., Any]:
    """Return the function or class of this name."""
    if (kind, name) == ("local", "Optax"):
        return _optax
    if (kind, name) == ("algorithm", "FedOpt"):
        return _fedopt
    component: Callable[..., Any] = getattr(import_module(TABLE[kind][0]), name)
    return component


def settings(kind: str, name: str) -> dict[str, inspect.Parameter]:
    """Return the settings of the function or class of this name."""
    parameters = dict(inspect.signature(target(kind, name)).parameters)
    if (kind, name) == ("local", "Optax"):  # whose annotation would import JAX with this module
        parameters["lr"] = parameters["lr"].replace(annotation=settings("local", "SGD")["lr"].annotation)
    if parameters.pop("mask", None):  # a function or a tree of arrays, neither of which TOML has
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters["leave"] = inspect.Parameter("leave", keyword, default=(), annotation=Sequence[str])
    return parameters


def check_name(key: str, kind: str, table: Any) -> None:
    """Refuse what is not a table with a name that is known."""
    names = TABLE[kind][1]
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table with a name, got {toml.text(table)}.")
    if "name" not in table:
        raise ConfigError(f"{key}.name is missing; it is one of {', '.join(names)}.")
    if table["name"] not in names:
        got = toml.text(table["name"])
        raise ConfigError(f"{key}.name must be one of {', '.join(names)}, got {got}.{hint(str(table['name']), names)}")


def part(key: str, kind: str, table: Any) -> Component:
    """Check a table against the signature that it names."""
    check_name(key, kind, table)
    name, known = table["name"], settings(kind, table["name"])
    for setting in table:
        if setting != "name" and setting not in known:
            has = ", ".join(known) or "none"
            raise ConfigError(f"{key}.{setting} is not a setting of {name}; it has {has}.{hint(setting, known)}")
    arguments = {}
    for setting, parameter in known.items():
        if setting in table:
            arguments[setting] = argument(f"{key}.{setting}", table[setting], parameter.annotation)
        elif parameter.default is parameter.empty:
            raise ConfigError(f"{key}.{setting} is missing; {name} needs it.")
    return Component(name, arguments)


def argument(key: str, value: Any, annotation: Any) -> Any:
    """Return a value as its annotation asks for; a regulariser within a regulariser is a part of its own."""
    if not isinstance(value, dict) and (simple := _without_parts(annotation)) is not None:
        annotation = simple
    if get_origin(annotation) is Sequence and getattr(get_args(annotation)[0], "__name__", "") in NESTED:
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise ConfigError(f"{key} must be a list of tables, got {toml.text(value)}.")
        return tuple(argument(f"{key}.{i}", entry, get_args(annotation)[0]) for i, entry in enumerate(value))
    for option in (annotation, *get_args(annotation)):
        kind = NESTED.get(getattr(option, "__name__", ""))
        if kind is not None and get_origin(annotation) is not Mapping:
            return replace(part(key, kind, value), kind=kind)
    if get_origin(annotation) is Mapping:
        if not isinstance(value, dict):
            raise ConfigError(f"{key} must be a table of tables, got {toml.text(value)}.")
        return {name: argument(f"{key}.{name}", entry, get_args(annotation)[1]) for name, entry in value.items()}
    try:
        return toml.convert(value, annotation)
    except toml.MismatchError as error:
        raise ConfigError(f"{key} {error}.") from None


def _without_parts(annotation: Any) -> Any:
    """Return the simple types of a number that may also be a part, such as a learning rate; None for any other."""
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    simple = [option for option in options if getattr(option, "__name__", "") not in NESTED]
    return float if simple == [float] and len(options) > 1 else None


def _optax(optimiser: str, lr: "float | RoundSchedule", epochs: int = 1, batch_size: int | None = 10) -> "Optax":
    from feddr.local import Optax

    if callable(lr):  # every step is a multiple of lr
        return Optax(_transformation(optimiser, 1.0), epochs, batch_size, lr)
    return Optax(_transformation(optimiser, lr), epochs, batch_size)


def _fedopt(optimiser: str, lr: float) -> "FedOpt":
    from feddr.algorithms import FedOpt

    return FedOpt(_transformation(optimiser, lr), name=f"{optimiser}({lr})")


def _transformation(optimiser: str, lr: float) -> "GradientTransformation":
    import optax

    if optimiser not in OPTIMISERS:
        raise ValueError(f"optimiser must be one of {', '.join(OPTIMISERS)}, got {optimiser!r}.")
    if not 0 < lr < float("inf"):
        raise ValueError(f"lr must be positive, got {lr}.")
    transformation: GradientTransformation = getattr(optax, optimiser)(lr)
    return transformation
