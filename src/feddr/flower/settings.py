"""Settings of a deployed run: the arguments of ``server_app``, and their names in Flower's run config."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias, TypeVar, get_args

import numpy as np
from flwr.app import Context

from feddr import precision as precisions
from feddr.algorithms import Algorithm, Asynchronous
from feddr.early_stopping import StopWhen
from feddr.flower import identity, wire
from feddr.secure import SecureAggregation
from feddr.validation import scalars

PREFIX = "feddr."

T = TypeVar("T")
FromContext: TypeAlias = T | Callable[[Context], T]
"""What a user gives: a value, or a function from Flower's context to it where it depends on the run config."""

LATE = ("drop", "count")
"""What may become of answers that come after the deadline of their round."""


@dataclass(frozen=True)
class Settings:
    """The arguments of ``server_app`` that are plain values; it says what they mean."""

    name: str = "feddr"
    rounds: int = 100
    seed: int = 0
    precision: str = "float32"
    evaluate_every: int = 1
    deadline: float | None = None
    min_replies: int | None = None
    max_distance: float | None = None
    broadcast: str = "auto"
    ttl: float = 43200.0
    patience: float | None = None
    folder: str | Path | None = None
    stop_when: str | None = None
    late: str = "drop"
    secure: SecureAggregation | None = None

    def __post_init__(self) -> None:
        identity.check_name(self.name)
        for name, least in (("rounds", 0), ("evaluate_every", 1), ("seed", 0)):
            scalars.count(self, name, least)
        precisions.of(self.precision)
        if self.broadcast not in wire.FORMS:
            remedy = '; FedDR(download=feddr.compress.Rounded("float16")) rounds' if self.broadcast == "float16" else ""
            raise ValueError(f"broadcast must be one of {', '.join(wire.FORMS)}, got {self.broadcast!r}{remedy}.")
        if self.late not in LATE:
            raise ValueError(f"late must be one of {', '.join(LATE)}, got {self.late!r}.")
        for name in ("deadline", "max_distance", "ttl", "patience"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be positive, got {value}; None for no limit.")
        if self.min_replies is not None and self.min_replies < 1:
            raise ValueError(f"min_replies must be at least 1, got {self.min_replies}.")
        assert self.stopping is None or self.stop_when is not None  # what is no rule is refused here

    @property
    def stopping(self) -> StopWhen | None:
        """When the run is to end before its last round."""
        return StopWhen.of(self.stop_when)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers that clients compute with."""
        return precisions.of(self.precision)

    @property
    def run_folder(self) -> Path:
        """The folder of the run."""
        return identity.root(self.folder) / "server" / self.name

    def overridden(self, config: Mapping[str, Any]) -> "Settings":
        """Return the settings with those of a run config in their place; there, 0 and "" stand for None."""
        fields = {field.name.replace("_", "-"): field for field in dataclasses.fields(self) if field.name != "secure"}
        changes: dict[str, Any] = {}
        for key, value in config.items():
            if not key.startswith(PREFIX):
                continue
            field = fields.get(key.removeprefix(PREFIX))
            if field is None:
                raise ValueError(f"The run config may set {', '.join(PREFIX + name for name in fields)}, got {key}.")
            changes[field.name] = _value(key, field, value)
        return dataclasses.replace(self, **changes)

    def check(self, algorithm: Algorithm, clients: int) -> None:
        """Refuse what does not go together."""
        name = type(algorithm).__name__
        asynchronous = isinstance(algorithm, Asynchronous)
        if asynchronous and (self.deadline is not None or self.min_replies is not None):
            raise ValueError(
                f"{name} has no rounds that could have a deadline or a number of replies, got "
                f"deadline={self.deadline}, min_replies={self.min_replies}; leave them out, or use FedDR."
            )
        if self.late == "count" and (asynchronous or self.deadline is None or getattr(algorithm, "mean", "") != "all"):
            raise ValueError(
                f'late="count" is for rounds of FedDR(mean="all") with a deadline, got {algorithm} and '
                f"deadline={self.deadline}; other methods cannot use what was computed from an older model."
            )
        if self.min_replies is not None and self.deadline is None:
            raise ValueError(
                f"A round without a deadline waits for everybody, got min_replies={self.min_replies}; set a deadline."
            )
        if self.min_replies is not None and self.min_replies > clients:
            raise ValueError(f"min_replies must be at most the number of clients, {clients}, got {self.min_replies}.")
        if not algorithm.partial and (self.deadline is not None or (self.min_replies or clients) < clients):
            raise ValueError(
                f"{name} needs every client in every round, got deadline={self.deadline} and "
                f"min_replies={self.min_replies}; leave them out, or use FedDR."
            )


def _value(key: str, field: "dataclasses.Field[Any]", value: Any) -> Any:
    kinds = get_args(field.type) or (field.type,)
    if NoneType in kinds and value in (0, ""):
        return None
    wanted = next(kind for kind in (int, float, str) if kind in kinds)
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise ValueError(f"{key} must be of type {wanted.__name__}, got {value!r}.")
    return value


def from_context(value: T | Callable[[Context], T], context: Context) -> T:
    """Return a value of the user, or the result of the user's function of Flower's context."""
    return value(context) if callable(value) else value
