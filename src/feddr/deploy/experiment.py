"""An experiment over the sites' own tables, in TOML: the tables of ``feddr run``, and the columns that are agreed.

The file goes to every node, and nothing else: what is computed there follows from it and from the version of feddr.
"""

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import feddr
from feddr.algorithms import Algorithm, Asynchronous
from feddr.config import ConfigError, read
from feddr.config.build import make
from feddr.config.components import Component, argument, part
from feddr.data.tables import WEIGHT
from feddr.engines.shared.privacy import check_local, check_samples
from feddr.flower import private, secure_round
from feddr.flower.federation import Federation
from feddr.flower.settings import Settings
from feddr.flower.shared_table import SharedTable
from feddr.local import LocalSolver
from feddr.models import Model, linear, mlp, softmax
from feddr.preparation import Preparation
from feddr.sampling import Sampling
from feddr.secure import SecureAggregation
from feddr.sites import TableSchema
from feddr.validation.messages import hint

PARTS = ("g", "local", "algorithm", "sampling")
"""The tables that are those of ``feddr run``."""

SCALARS: Mapping[str, Any] = {
    "name": str,
    "sites": int,
    "rounds": int,
    "updates": int,
    "seed": int,
    "init_seed": int,
    "weights": Literal["uniform", "samples"],
    "evaluation": Literal["nodes", "none"],
    "metrics": Sequence[str],
    "precision": Literal["float32", "float64"],
    "evaluate_every": int,
    "deadline": float | None,
    "min_replies": int | None,
    "max_distance": float | None,
    "patience": float | None,
    "ttl": float,
    "stop_when": str | None,
}
"""The plain settings, and their types."""

PATIENCE = 3600.0
"""Seconds without an accepted update after which a run ends, unless the file says otherwise."""

MODELS = ("linear", "softmax", "mlp")


def _table_settings() -> dict[str, Any]:
    """Return the settings of ``[table]``, and their types: those of ``SharedTable``, and the words that are agreed."""
    known = {name: one.annotation for name, one in inspect.signature(SharedTable).parameters.items()}
    for name in ("model", "seed", "init_seed"):
        del known[name]
    return {**known, "categories": Mapping[str, Sequence[str]]}


@dataclass(frozen=True)
class TableExperiment:
    """An experiment over the tables of several sites.

    Parameters
    ----------
    raw
        The tables of the file, as they are.

    Raises
    ------
    ConfigError
        With the key that is unknown, missing, or does not go with the others.

    Examples
    --------
    >>> experiment = TableExperiment(
    ...     {
    ...         "name": "ills",
    ...         "sites": 4,
    ...         "rounds": 10,
    ...         "table": {"label": "ill", "numeric": ["age"]},
    ...         "local": {"name": "SGD", "lr": 0.1},
    ...         "algorithm": {"name": "FedDR"},
    ...     }
    ... )
    >>> experiment.settings.rounds, experiment.schema.names, experiment.digest[:7]
    (10, ('ill', 'age'), 'sha256:')
    """

    raw: Mapping[str, Any]

    def __post_init__(self) -> None:
        raw, known = self.raw, [*SCALARS, "table", "model", "secure", *PARTS]
        for key in raw:
            if key not in known:
                has = ", ".join(known)
                raise ConfigError(f"{key} is not a setting of a deployment; it has {has}.{hint(key, known)}")
        for key in ("name", "sites", "table", "local", "algorithm"):
            if key not in raw:
                raise ConfigError(f"{key} is missing; every deployment needs it.")
        try:  # everything is made once, so that a wrong number is refused before anything is sent
            length = "updates" if isinstance(self.algorithm, Asynchronous) else "rounds"
            if length not in raw:
                raise ConfigError(f"{length} is missing; {type(self.algorithm).__name__} needs it.")
            self.settings.check(self.algorithm, self.federation.clients)
            self.sampling.check(self.federation.clients)
            _ = self.local, self.schema
            private.check(self.algorithm, self.federation.evaluation)
            privacy = getattr(self.algorithm, "privacy", None)
            check_local(privacy, self.local)
            check_samples(privacy, [] if self.table.sample_weight is None else [WEIGHT])
            if self.secure is not None:
                secure_round.check(self.secure, self.federation, self.algorithm, self.sampling, self.settings)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def read(cls, path: str | Path) -> "TableExperiment":
        """Return the experiment of a file.

        Raises
        ------
        ConfigError
            Where the file cannot be read, or says what cannot be done.
        """
        try:
            return cls(read(path))
        except ConfigError as error:
            raise ConfigError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None

    @property
    def digest(self) -> str:
        """The hash by which sites name it: of the tables, in whatever order and layout, and of the version of feddr."""
        text = json.dumps({"feddr": feddr.__version__, "experiment": self.raw}, sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def table(self) -> SharedTable:
        """What the tables of all sites have in common."""
        options = {key: value for key, value in self._table.items() if key != "categories"}
        seeds = {"seed": self._scalar("seed", 0), "init_seed": self._scalar("init_seed", 0)}
        try:
            return SharedTable(**options, **seeds, model=self._model)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"table: {error}") from None

    @property
    def schema(self) -> TableSchema:
        """The columns and words that each site is checked for."""
        table = self.table
        names = (table.label, table.numeric, table.categorical, table.sample_weight)
        try:
            return TableSchema(*names, table.regression, table.missing, self._table.get("categories", {}))
        except ValueError as error:
            raise ConfigError(f"table.{error}") from None

    @property
    def algorithm(self) -> Algorithm:
        """The method."""
        made: Algorithm = self._part("algorithm")
        return made

    @property
    def local(self) -> LocalSolver:
        """How sites solve their subproblems."""
        made: LocalSolver = self._part("local")
        return made

    @property
    def sampling(self) -> Sampling:
        """Who takes part in a round."""
        made: Sampling = self._part("sampling") if "sampling" in self.raw else make("sampling", Component("Full"))
        return made

    @property
    def secure(self) -> SecureAggregation | None:
        """How uploads are hidden in a sum; None where they are not."""
        raw = self.raw.get("secure")
        if raw is None:
            return None
        known = {field.name: field.type for field in dataclasses.fields(SecureAggregation)}
        if not isinstance(raw, dict) or "threshold" not in raw:
            raise ConfigError(
                f"secure must be a table with a threshold, got {raw!r}; write [secure] and threshold = 3."
            )
        for key in raw:
            if key not in known:
                raise ConfigError(f"secure.{key} is not a setting of secure rounds; it has {', '.join(known)}.")
        try:
            return SecureAggregation(**raw)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"secure.{error}") from None

    @property
    def federation(self) -> Federation:
        """What the server knows of the problem; nodes tell metrics unless uploads are hidden or private."""
        g = self._part("g") if "g" in self.raw else None
        hidden = "secure" in self.raw or getattr(self.algorithm, "privacy", None) is not None
        evaluation = self._scalar("evaluation", "none" if hidden else "nodes")
        return Federation(
            self.table,
            self._scalar("sites", 0),
            g,
            self._scalar("weights", "samples"),
            evaluation="nodes" if evaluation == "nodes" else None,
            metrics=self._scalar("metrics", ()),
        )

    @property
    def settings(self) -> Settings:
        """The plain settings of the server, whose folder is that of its environment."""
        algorithm = self.algorithm
        rounds = self._scalar("rounds", 0)
        if isinstance(algorithm, Asynchronous):
            rounds = -(-self._scalar("updates", 0) // algorithm.buffer)
        names = (
            *("name", "seed", "precision", "evaluate_every", "deadline", "min_replies", "max_distance", "patience"),
            *("ttl", "stop_when"),
        )
        chosen = {name: self._scalar(name, None) for name in names if name in self.raw}
        return Settings(**{"evaluate_every": 5, "patience": PATIENCE, **chosen}, rounds=rounds, secure=self.secure)

    @property
    def _table(self) -> dict[str, Any]:
        table, known = self.raw["table"], _table_settings()
        if not isinstance(table, dict):
            raise ConfigError(f"table must be a table of settings, got {table!r}; write [table].")
        for key in table:
            if key not in known:
                raise ConfigError(
                    f"table.{key} is not a setting of a table; it has {', '.join(known)}.{hint(key, known)}"
                )
        for key in ("label", "numeric"):
            if key not in table:
                raise ConfigError(f"table.{key} is missing; every table needs it.")
        return {key: argument(f"table.{key}", value, known[key]) for key, value in table.items()}

    def _scalar(self, name: str, default: Any) -> Any:
        return argument(name, self.raw[name], SCALARS[name]) if name in self.raw else default

    def _part(self, kind: str) -> Any:
        return make(kind, part(kind, kind, self.raw[kind]))

    @property
    def _model(self) -> Any:
        """Return what ``SharedTable`` takes: from the preparation to the model, None for its own choice."""
        raw = self.raw.get("model")
        if raw is None:
            return None
        if not isinstance(raw, dict) or raw.get("name") not in MODELS:
            raise ConfigError(f"model must be a table whose name is one of {', '.join(MODELS)}, got {raw!r}.")
        known = ("name", "hidden") if raw["name"] == "mlp" else ("name",)
        for key in raw:
            if key not in known:
                remedy = "numbers of features and classes follow from the tables"
                raise ConfigError(f"model.{key} is not a setting of {raw['name']} here, {remedy}.{hint(key, known)}")
        regression = bool(self._table.get("regression", False))
        if regression and raw["name"] != "linear":
            raise ConfigError(f"model {raw['name']} is for classes, the label is a number to predict; use linear.")
        hidden = argument("model.hidden", raw.get("hidden", [32]), Sequence[int])
        if not hidden or min(hidden) < 1:
            raise ConfigError(f"model.hidden must be positive numbers of units, got {list(hidden)}.")
        return ModelChoice(raw["name"], tuple(hidden))


@dataclass(frozen=True)
class ModelChoice:
    """A model whose numbers of features and classes are those that the sites agree on."""

    name: str
    hidden: tuple[int, ...]

    def __call__(self, preparation: Preparation) -> Model:
        """Return the model."""
        features, classes = len(preparation.features), len(preparation.classes)
        if self.name == "mlp":
            return mlp([features, *self.hidden, max(classes, 2)])
        return linear(features) if self.name == "linear" else softmax(features, max(classes, 2))
