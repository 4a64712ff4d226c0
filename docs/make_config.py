"""Makes docs/CONFIG.md, the reference of the config, from the schema, the signatures and the docstrings of components.

``python docs/make_config.py`` writes the page; a test makes it again and compares, parses every example, and runs the
first one.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin

from feddr import algorithms, datasets, local, models
from feddr.config import components, schema, toml
from feddr.data import FederatedData

PAGE = Path(__file__).parent / "CONFIG.md"

INTRODUCTION = """\
# Every key of a config

An experiment in TOML is what `feddr run`, `feddr compare` and `feddr tune` take. A table names a class or a function of
feddr and gives its arguments, as in Python; TOML has no None, write `"none"`. Any key can be set on the command line:
`--set rounds=5`, `--set algorithm.FedDR.eta=10`. What is unknown or of the wrong type is refused with its key. This
page is made from the code by `docs/make_config.py`; a `[tune]` table is described in [Tuning](TUNING.md).
"""

WHOLE = """\
name = "hospitals"
rounds = 20
seed = 0
evaluate_every = 5
weights = "samples"
metrics = ["f1", "auc"]
per_client = true
stop_when = "metric=F, patience=5, seconds=600"

[data]
name = "bundled"
which = "breast_cancer"
partition = "dirichlet"
beta = 0.5
num_clients = 4

[model]
name = "linear"
num_features = 30

[g]
name = "L1"
strength = 0.01
leave = ["bias"]

[local]
name = "SGD"
lr = 0.1
epochs = 2

[sampling]
name = "Uniform"
m = 3

[[algorithm]]
name = "FedDR"

[[algorithm]]
name = "FedDR"
label = "smaller steps"
eta = 1.0
local = {name = "SGD", lr = 0.03, epochs = 5}

[[algorithm]]
name = "FedMid"
"""

KEYS: Mapping[str, tuple[Any, str]] = {
    "name": ("small", "The folder of the results, `runs/<name>`."),
    "rounds": (100, "Rounds of synchronous methods."),
    "seed": (0, "Draws participants, batches and, unless `[data]` has a seed of its own, the data."),
    "init_seed": (1, "Draws the start of the model."),
    "weights": ("samples", "Weights w_i of the clients: all equal, or by their numbers of samples."),
    "class_weight": ("balanced", "Let all classes weigh the same over the training samples of all clients."),
    "precision": ("float64", "What clients compute in."),
    "evaluate_every": (5, "Rounds between rows of the history."),
    "personal": (True, "Evaluate the clients' own models, too."),
    "certify": (True, "Measure and certify FedDR's descent; other methods have no certificates."),
    "engine": ("clock", "Virtual time, which asynchronous methods need and the others may have."),
    "updates": (2000, "Uploads until an asynchronous method ends."),
    "evaluate_every_updates": (50, "Uploads between rows of the history of an asynchronous method."),
    "concurrency": (2, "Clients that an asynchronous method lets work at a time; all by default."),
    "deadline": (5.0, "Seconds of virtual time after which a round ends without those who are late."),
    "on_bad_client": ("skip", "Leave out updates with a NaN or an infinity, or stop the run."),
    "metrics": (["f1", "validation_loss"], "Further metrics at xbar, by name; see [Read the results](RESULTS.md)."),
    "per_client": (True, "Measure loss, accuracy and metrics of each client, too."),
    "stop_when": ("test_accuracy>=0.9, seconds=600", "End early: a target, `patience=`, `seconds=`, `bytes=`."),
}
"""Each key of the experiment itself: a value for its example, and what it means."""

TABLES: Mapping[str, str] = {
    "data": "Whose samples there are. Files and folders are relative to where `feddr` is started; see [Data](DATA.md).",
    "model": "What is trained; `num_features`, `num_classes` and shapes must fit the data.",
    "g": "The regulariser or constraint, optional; see [Regularisers](REGULARISERS.md).",
    "algorithm": (
        "The method: `[algorithm]` for one, `[[algorithm]]` for each of several. Besides its own keys it may have a "
        "`label`, for legends and folders, and a `local` and a `sampling` of its own; see "
        "[Choosing a method](CHOOSING.md)."
    ),
    "local": "How clients solve their subproblems; for all methods, unless one has its own.",
    "schedule": "A learning rate that changes over the rounds: the value of `lr` of a local solver.",
    "stopping": "When an accurate local solver may stop: the value of `stopping` of `Accelerated`.",
    "upload": (
        "A compressed upload, or a rounded download: the value of `upload` or `download` of an algorithm; see "
        "[Compressed uploads](COMPRESSION.md)."
    ),
    "privacy": (
        "Differential privacy of sites or of records: the value of `privacy` of an algorithm; see "
        "[Differential privacy](DIFFERENTIAL_PRIVACY.md)."
    ),
    "sampling": "Who takes part in a round; everybody by default. For all methods, unless one has its own.",
    "delays": 'How long clients take and when they are away, in virtual time (`engine = "clock"`).',
}

VALUES: Mapping[str, Mapping[str, Any]] = {
    "csv": {"path": "patients.csv", "client": "hospital", "label": "ill", "validation_share": 0.1},
    "client_files": {"files": "clients/*.npz"},
    "bundled": {"which": "digits", "partition": "few_labels", "labels_per_client": 2, "validation_share": 0.1},
    "femnist": {"data_dir": "femnist", "num_clients": 20},
    "heart_disease": {"data_dir": "heart"},
    "leaf": {"path": "leaf/data/femnist"},
    "libsvm": {"path": "a9a.txt", "num_clients": 20},
    "mnist": {"partition": "shards", "shards_per_client": 2, "num_clients": 50},
    "synthetic": {"r": 1.0, "s": 1.0},
    "cnn": {"num_classes": 10},
    "linear": {"num_features": 30},
    "mlp": {"sizes": [60, 32, 10]},
    "softmax": {"num_features": 60, "num_classes": 10},
    "transformer": {"length": 40, "layers": 1},
    "Box": {"lower": -1.0, "upper": 1.0},
    "ElasticNet": {"l1": 0.01, "l2": 0.1},
    "Parts": {"parts": {"weight": {"name": "L1", "strength": 0.01}, "bias": {"name": "Zero"}}},
    "Scaled": {"g": {"name": "L1", "strength": 0.01}, "factor": 0.5},
    "Translated": {"g": {"name": "L2", "strength": 0.1}, "shift": 1.0},
    "FedOpt": {"optimiser": "adam", "lr": 0.01},
    "FedProx": {"mu": 0.1},
    "Scaffnew": {"p": 0.1},
    "Geometric": {"lr": 0.1, "p": 0.1},
    "Accelerated": {"stopping": {"name": "Relative", "theta_hat": 0.1}},
    "Optax": {"optimiser": "adamw", "lr": 0.001, "epochs": 5},
    "SGD": {"lr": {"name": "Cosine", "lr": 0.1, "rounds": 200, "end": 0.001}, "epochs": 5},
    "Cosine": {"lr": 0.1, "rounds": 200, "end": 0.001},
    "Step": {"lr": 0.1, "every": 50},
    "Absolute": {"M": 1.0},
    "Epochs": {"epochs": 10},
    "Relative": {"theta_hat": 0.1},
    "Tolerance": {"tol": 1e-6},
    "TopK": {"share": 0.05, "values_as": {"name": "Quantised", "bits": 8}},
    "RandomK": {"share": 0.05},
    "RecordLevel": {"clip": 1.0, "noise": 20.0, "delta": 1e-4, "budget": 8.0},
    "SiteLevel": {"clip": 0.5, "noise": 10.0, "delta": 1e-3, "budget": 8.0},
    "DoublyUniform": {"q": [0.5, 0.3, 0.2]},
    "Independent": {"p": 0.3},
    "Partitioned": {"blocks": 2},
    "Systematic": {"p": [0.5, 0.5, 1.0]},
    "Combined": {"models": [{"name": "LogNormal", "sigma": 0.5}, {"name": "Dropout", "probability": 0.05}]},
    "Dropout": {"probability": 0.05, "pause": 3.0},
    "LogNormal": {"sigma": 0.5},
    "Network": {"latency": 0.05, "bandwidth": 1e6},
    "Pareto": {"shape": 2.0},
    "PerStep": {"seconds": 0.01},
    "Periodic": {"period": 24.0, "online": 8.0},
    "Trace": {"path": "speeds.csv"},
    "UniformSpeed": {"low": 1.0, "high": 4.0},
    "Windows": {"windows": [[[0.0, 8.0]], [[4.0, 12.0]], [[0.0, 24.0]]]},
}
"""Values for the examples of components that need some, or that are clearer with some."""

OWN_VALUES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("sampling", "Uniform"): {"m": 2},
}
"""Where two components share a name."""

COMMON = {"strength": 0.01, "radius": 1.0, "eta": 1.0}

WORDS: Mapping[str, str] = {
    "leave": "Names of parameters that are left alone, such as `bias`.",
    "upload": "How uploads are compressed, a table; see [upload](#upload).",
    "download": "How what the server sends is rounded, a table of the same kinds; see [upload](#upload).",
    "privacy": "How what a site sends is made private, a table; see [privacy](#privacy).",
    "optimiser": f"One of optax: {', '.join(components.OPTIMISERS)}.",
    "seed": "Of its own, in place of that of the experiment.",
    "num_features": "Width of a row of features.",
    "num_classes": "How many there are.",
    "l1": "Strength of the l1 norm.",
    "l2": "Strength of the squared Euclidean norm.",
    "radius": "Above 0.",
    "strength": "At least 0.",
    "factor": "What it is multiplied by, above 0.",
    "g": "A table, such as that of another regulariser.",
    "lr": "The learning rate, above 0.",
    "M": "Above 0.",
    "epochs": "How many passes over the client's samples.",
    "tol": "Above 0.",
    "share": "Of the numbers that are sent, above 0 and at most 1.",
    "values_as": 'How these are quantised, a table `{name = "Quantised", ...}`.',
    "m": "How many clients take part, at most n.",
    "models": "The models, a table each.",
    "probability": "That a job is lost.",
    "pause": "Seconds until a client whose job is lost is back.",
    "sigma": "Standard deviation of the logarithm.",
    "per_client": "Whether it is drawn once for each client, not for every job.",
    "shape": "The exponent; the smaller, the heavier the tail.",
    "seconds": "Of virtual time, for each local step.",
    "period": "Seconds.",
    "online": "Seconds of each period.",
    "low": "The least factor.",
    "high": "The largest factor.",
}
"""What keys mean whose docstrings speak of all of them in one sentence, or of Python."""

OWN_WORDS: Mapping[tuple[str, str], str] = {
    (
        "csv",
        "path",
    ): "A file: CSV in UTF-8, perhaps `.gz`, `.bz2` or `.xz`, whose first line names the columns; or Parquet "
    "(extra `parquet`).",
    ("csv", "client"): "The column that says whose a row is.",
    ("csv", "label"): "The column to predict, needed.",
    ("Scaffnew", "p"): "The probability to talk after a step: that of `Geometric`, or 1 / K for K local steps.",
    ("Geometric", "seed"): "Of the coin.",
}
"""What keys of one component mean."""

PARTITIONS = {
    "shards_per_client": 'With `partition = "shards"`: shards of sorted labels for each client, 2 by default.',
    "labels_per_client": 'With `partition = "few_labels"`: labels of each client, 3 by default.',
    "beta": 'With `partition = "dirichlet"`: the smaller, the more clients differ, 0.5 by default.',
    "sigma": 'With `partition = "quantity"` or `"few_labels"`: how much clients differ in size, 1.0 by default.',
    "min_samples": 'With `partition = "dirichlet"` or `"quantity"`: the fewest samples of a client, 1 by default.',
}
"""What keys of data sets mean that are dealt out over clients."""

SOURCES = {
    "feddr.datasets.mnist": datasets.mnist,
    "FederatedData.from_frame": FederatedData.from_frame,
    "synthetic": datasets.synthetic,
    "cnn": models.cnn,
    "FedDR": algorithms.FedDR,
    "FedAdam": algorithms.FedAdam,
    "SGD": local.SGD,
}
"""What docstrings refer to."""

ALWAYS = ("leave", "upload", "download", "privacy", "optimiser", "seed")
"""Those whose docstrings speak of Python."""


def page() -> str:
    """Return the page."""
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        "## A whole experiment",
        "",
        "```toml",
        *WHOLE.splitlines(),
        "```",
        "",
        "`name`, `[data]`, `[model]`, `[local]`, `[algorithm]` and `rounds` (`updates` for asynchronous methods) are",
        "needed, everything else is optional.",
        "",
        "## Keys of the experiment",
        "",
        "| key | values | default | example | meaning |",
        "|---|---|---|---|---|",
    ]
    defaults = {field.name: field.default for field in fields(schema.Config)}
    for key, kind in schema.SCALARS.items():
        value, meaning = KEYS[key]
        default = "needed" if key == "name" else _value(defaults[key])
        lines.append(f"| `{key}` | {_kind(kind)} | {default} | `{key} = {toml.text(value)}` | {meaning} |")
    for kind, (_, names) in components.TABLE.items():
        lines += ["", f"## {kind}", "", TABLES[kind]]
        for name in names:
            lines += ["", f"### {kind} {name}", "", *_component(kind, name)]
    return "\n".join(lines) + "\n"


def examples() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the kind, the name and the table of each example of a component."""
    for kind, (_, names) in components.TABLE.items():
        for name in names:
            known = components.settings(kind, name)
            table = {key: COMMON[key] for key, p in known.items() if key in COMMON and p.default is p.empty}
            yield kind, name, {"name": name, **table, **(OWN_VALUES.get((kind, name)) or VALUES.get(name, {}))}


def _component(kind: str, name: str) -> list[str]:
    written = {"Optax": local.Optax, "FedOpt": algorithms.FedOpt}  # whose arguments in TOML are other ones
    summary, meanings = _documented(written.get(name) or components.target(kind, name))
    (table,) = [table for one, other, table in examples() if (one, other) == (kind, name)]
    where = {"schedule": "lr", "stopping": "stopping", "upload": "upload", "privacy": "privacy"}.get(kind)
    inside = where is not None
    shown = [f"{where} = {toml.text(table)}"] if inside else [f"[{kind}]", *toml.lines(table)]
    lines = [summary, "", "```toml", *shown, "```"]
    known = components.settings(kind, name)
    if known:
        lines += ["", "| key | values | default | meaning |", "|---|---|---|---|"]
    for key, parameter in known.items():
        default = "needed" if parameter.default is parameter.empty else _value(parameter.default)
        meaning = OWN_WORDS.get((name, key)) or (WORDS[key] if key in ALWAYS else meanings.get(key) or WORDS[key])
        for source, target in SOURCES.items():
            if meaning.startswith(f"As in `{source}`"):
                meaning = _documented(target)[1][key]
        if kind == "data" and key in PARTITIONS:
            meaning = PARTITIONS[key]
        lines.append(f"| `{key}` | {_kind(parameter.annotation)} | {default} | {meaning} |")
    return lines


def _documented(target: Any) -> tuple[str, dict[str, str]]:
    """Return the first sentence of a docstring, and what it says of each parameter."""
    text = inspect.getdoc(target) or ""
    summary = _plain(text.split("\n\n")[0])
    _, _, rest = text.partition("Parameters\n----------\n")
    section = re.split(r"\n\n[A-Z][a-z]+\n-+\n", rest)[0]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            names = [name.strip(" *") for name in line.split(":")[0].split(",")]
        elif names:
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return summary, {name: _plain(words) for name, words in found.items()}


def _plain(words: str) -> str:
    """Return words of a docstring as Markdown in one line of a table."""
    return " ".join(words.replace("``", "`").replace("|", "\\|").replace("<", "&lt;").split())


def _kind(annotation: Any) -> str:
    """Return what a value may be, in words."""
    names = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): '`"none"`'}
    if annotation in names:
        return names[annotation]
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is not None and str(origin).endswith("Literal"):
        return ", ".join(f'`"{value}"`' for value in inside)
    nested = components.NESTED.get(getattr(annotation, "__name__", ""))
    if nested is not None:
        return f"table, see [{nested}](#{nested})"
    if origin is not None and getattr(origin, "__name__", "") == "Sequence":
        return f"list of: {_kind(inside[0])}"
    if origin is not None and getattr(origin, "__name__", "") == "Mapping":
        return f"table of: {_kind(inside[1])}"
    if inside:
        return " or ".join(dict.fromkeys(map(_kind, inside)))
    return "number, or list of numbers"


def _value(default: Any) -> str:
    if default is None:
        return '`"none"`'
    if isinstance(default, tuple) and not default:
        return "`[]`"
    return f"`{toml.text(list(default) if isinstance(default, tuple) else default)}`"


if __name__ == "__main__":
    PAGE.write_text(page())
