"""Early stopping: a run ends at a target, when a metric improves no more, after a time, or after so many bytes."""

import math
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from feddr.metrics.metric import Better, better
from feddr.validation import scalars

if TYPE_CHECKING:
    from feddr.history import History

TARGET = re.compile(r"([A-Za-z_]\w*) *(<=|>=) *(\S+)")
SETTING = re.compile(r"([a-z_]+) *= *(\S+)")


@dataclass(frozen=True)
class StopWhen:
    """End a run as soon as one of these holds; metrics are looked at when they are evaluated, the rest every round.

    Parameters
    ----------
    metric
        A column of the history, such as ``"test_accuracy"``, or a metric, such as ``"validation_loss"`` or ``"f1"``,
        which is then measured at every evaluation; one of your own must be among the run's ``metrics``.
    target
        Stop when the metric is this good.
    patience
        Stop when the metric has not become better for so many evaluations in a row.
    min_delta
        By how much it must become better to count.
    seconds
        Stop when the run has taken so long, the time before it was resumed included.
    bytes
        Stop when so many bytes have been sent, up and down together.
    better
        ``"max"`` or ``"min"``; only needed for a metric of your own that is given as a bare function.

    Raises
    ------
    ValueError
        Where there is nothing to stop for, a target or a patience has no metric, or a number is out of range.

    Examples
    --------
    >>> rule = StopWhen("test_accuracy", target=0.9, seconds=60)
    >>> str(rule)
    'test_accuracy>=0.9, seconds=60.0'
    >>> StopWhen.parse("test_accuracy >= 0.9, seconds = 60") == rule
    True
    """

    metric: str | None = None
    target: float | None = None
    patience: int | None = None
    min_delta: float = 0.0
    seconds: float | None = None
    bytes: float | None = None
    better: Better | None = None

    def __post_init__(self) -> None:
        for name in ("target", "min_delta", "seconds", "bytes"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(scalars.number(name, getattr(self, name))))
        if self.patience is not None:
            scalars.count(self, "patience", 1)
        for name in ("seconds", "bytes"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}; None for no such limit.")
        if not self.min_delta >= 0:
            raise ValueError(f"min_delta must be at least 0, got {self.min_delta}.")
        if self.better not in (None, "min", "max"):
            raise ValueError(f'better must be "min" or "max", got {self.better!r}.')
        if (self.metric is None) != (self.target is None and self.patience is None):
            raise ValueError(
                f"A target or a patience is that of a metric, got metric={self.metric!r}, target={self.target}, "
                f"patience={self.patience}; such as StopWhen('test_accuracy', target=0.9)."
            )
        if self.metric is None and self.seconds is None and self.bytes is None:
            raise ValueError("stop_when needs something to stop for: target, patience, seconds or bytes; got none.")
        if self.metric is not None and not isinstance(self.metric, str):
            raise ValueError(f"metric must be the name of a column, got {self.metric!r}; such as 'test_accuracy'.")

    @classmethod
    def of(cls, rule: "StopWhen | str | None") -> "StopWhen | None":
        """Return the rule that an engine was given, also as a text, and refuse what is none."""
        if rule is None or isinstance(rule, cls):
            return rule
        if isinstance(rule, str):
            return cls.parse(rule)
        raise ValueError(f"stop_when must be a feddr.StopWhen or a text, got {rule!r}; such as 'test_accuracy>=0.9'.")

    @classmethod
    def parse(cls, text: str) -> "StopWhen":
        """Return what a text says, as in ``"test_accuracy>=0.9, seconds=600"`` or ``"metric=F, patience=5"``.

        Raises
        ------
        ValueError
            Where it says something else, or asks for a target at the worse end of a metric.
        """
        kinds = {"metric": str, "patience": int, "min_delta": float, "seconds": float, "bytes": float, "better": str}
        settings: dict[str, object] = {}
        for piece in filter(None, map(str.strip, text.split(","))):
            target, setting = TARGET.fullmatch(piece), SETTING.fullmatch(piece)
            try:
                if target is not None:
                    end: Better = "max" if target[2] == ">=" else "min"
                    if better(target[1]) not in (None, end):
                        raise ValueError(f"{target[1]} is better when it is {_WORDS[better(target[1])]}")
                    settings |= {"metric": target[1], "target": float(target[3])}
                    settings |= {} if better(target[1]) else {"better": end}
                elif setting is not None and setting[1] in kinds:
                    settings[setting[1]] = kinds[setting[1]](setting[2])
                else:
                    raise ValueError("it is no condition")
            except ValueError as error:
                raise ValueError(
                    f"stop_when is such as 'test_accuracy>=0.9, seconds=600', or has {', '.join(kinds)}, got "
                    f"{piece!r}: {error}."
                ) from None
        return cls(**settings)  # type: ignore[arg-type]

    def __str__(self) -> str:
        pieces = []
        shown = [field.name for field in fields(self) if getattr(self, field.name) not in (None, field.default)]
        if self.target is not None:
            end = self.better or better(self.metric or "") or "max"
            pieces.append(f"{self.metric}{'>=' if end == 'max' else '<='}{self.target}")
            shown = [name for name in shown if name not in ("metric", "target", "better")]
        return ", ".join([*pieces, *(f"{name}={getattr(self, name)}" for name in shown)])

    def spent(self, seconds: float, sent: int) -> str:
        """Return why the run is to end after so many seconds and bytes sent; an empty text where it is not."""
        if self.seconds is not None and seconds >= self.seconds:
            return f"it has taken {self.seconds:g} s"
        if self.bytes is not None and sent >= self.bytes:
            return f"{sent:,} bytes were sent, of {self.bytes:,.0f} at most"
        return ""

    def reached(self, history: "History", end: Better | None = None) -> str:
        """Return why the run is to end after the newest row; an empty text where it is not.

        Parameters
        ----------
        end
            Which end of a metric of the run's own is the better one, where that is known.

        Raises
        ------
        ValueError
            Where the metric is not measured, or nobody says which end is better.
        """
        if self.metric is None:
            return ""
        end = self.better or better(self.metric) or end
        if end is None:
            raise ValueError(f"stop_when must know which end of {self.metric} is better; give better='max' or 'min'.")
        sign = 1.0 if end == "max" else -1.0
        values = [sign * row.value(self.metric) for row in history.rows]
        if len(values) == 1 and math.isnan(values[0]) and not self.metric.startswith("personal_"):
            raise ValueError(f"stop_when needs {self.metric}, which is not measured here; is there a test part?")
        if self.target is not None and values[-1] >= sign * self.target:
            return f"{self.metric} is {history.last.value(self.metric):.4g}, which reaches {self.target:g}"
        if self.patience is not None:
            best, since = -math.inf, 0
            for value in values:
                improved = value > best + self.min_delta
                best, since = (value, 0) if improved else (best, since + 1)
            if since >= self.patience:
                return f"{self.metric} has not improved on {sign * best:.4g} for {since} evaluations"
        return ""


_WORDS = {"min": "smaller, write <=", "max": "larger, write >=", None: ""}
