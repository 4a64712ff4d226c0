"""Axes of a search space: the values that one key may take, a list or a range to sample from."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from feddr.config import ConfigError, toml
from feddr.storage import limits

SCALES = ("lin", "log", "int")
DIGITS = 4
"""Significant digits of a number that is drawn: enough for a step size, and short enough to be copied by hand."""


@dataclass(frozen=True)
class Choice:
    """One of some values.

    Examples
    --------
    >>> Choice((1, 10, 100)).draw(0.5)
    10
    """

    values: tuple[Any, ...]

    def draw(self, u: float) -> Any:
        """Return the value for a number u in [0, 1); each is as likely as another."""
        return self.values[int(u * len(self.values))]

    @property
    def spec(self) -> Any:
        """The list or text from which ``axis`` makes an equal axis."""
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """Numbers in (low, high], or whole numbers from low to high.

    Parameters
    ----------
    scale
        ``"lin"`` for a uniform number, ``"log"`` for a number whose logarithm is uniform, ``"int"`` for whole numbers.

    Examples
    --------
    >>> [Range("log", 1, 1000).draw(u) for u in (0.0, 1 / 3, 2 / 3)]
    [1000.0, 100.0, 10.0]
    >>> Range("log", 1, 1000).spaced(4).values
    (1.0, 10.0, 100.0, 1000.0)
    """

    scale: str
    low: float
    high: float

    def draw(self, u: float) -> float:
        """Return the number for u in [0, 1)."""
        if self.scale == "int":
            return int(self.low) + int(u * (int(self.high) - int(self.low) + 1))
        # Downwards from the high end, which belongs to the range; the low end, such as alpha = 0, may not.
        return self._at(1.0 - u)

    def spaced(self, count: int) -> Choice:
        """Return evenly spaced values, both ends among them."""
        values = [self._at(i / (count - 1)) for i in range(count)]
        if self.scale == "int":
            return Choice(tuple(sorted({round(value) for value in values})))
        return Choice(tuple(values))

    @property
    def spec(self) -> Any:
        """The list or text from which ``axis`` makes an equal axis."""
        return f"{self.scale}:{self.low}:{self.high}"

    def _at(self, t: float) -> float:
        if self.scale == "log":
            exact = math.exp((1 - t) * math.log(self.low) + t * math.log(self.high))
        else:
            exact = (1 - t) * self.low + t * self.high
        return min(max(float(f"{exact:.{DIGITS}g}"), self.low), self.high)


Axis = Choice | Range


def axis(key: str, values: Any, random: bool) -> Axis:
    """Return the axis of a key, from a list of values or from text.

    Parameters
    ----------
    values
        A list, text such as ``1,10,100``, or a range: ``log:1:1000`` (also ``lin`` and ``int``) to draw from, and
        ``log:1:1000:4`` for four values of a grid.
    random
        Whether the search is random.
    """
    if isinstance(values, str):
        match = re.fullmatch(rf"({'|'.join(SCALES)}):(.*)", values.strip())
        if match is not None:
            return _range(key, match[1], match[2].split(":"), random)
        values = _values(values)
    if not isinstance(values, list):
        values = [values]
    if not values:
        raise ConfigError(f"{key} needs at least one value to try, got none.")
    if any(value in values[:i] for i, value in enumerate(values)):
        raise ConfigError(f"{key} needs values that differ, got {toml.text(values)}.")
    return Choice(tuple(values))


def _range(key: str, scale: str, parts: Sequence[str], random: bool) -> Axis:
    shape = f"{scale}:LOW:HIGH" if random else f"{scale}:LOW:HIGH:COUNT"
    got = ":".join([scale, *parts])
    try:
        low, high, *rest = map(float, parts)
    except ValueError:
        raise ConfigError(f"{key} must be {shape} with numbers, got {got}.") from None
    if len(rest) != (0 if random else 1):
        raise ConfigError(
            f"{key} must be {shape} in a {'random search' if random else 'grid'}, got {got}; "
            f"--{'grid' if random else 'random'} takes it."
        )
    if not low < high or not math.isfinite(high - low) or (scale == "log" and low <= 0):
        raise ConfigError(f"{key} needs LOW < HIGH{', both positive' if scale == 'log' else ''}, got {got}.")
    if scale == "int" and (low != int(low) or high != int(high)):
        raise ConfigError(f"{key} needs whole numbers for LOW and HIGH, got {got}.")
    numbers = Range(scale, low, high)
    if random:
        return numbers
    if rest[0] < 2 or not rest[0].is_integer():
        raise ConfigError(f"{key} needs a COUNT of at least 2, got {got}.")
    if rest[0] > limits.TRIALS:
        raise ConfigError(f"{key} needs a COUNT of at most {limits.TRIALS}, got {got}.")
    return numbers.spaced(int(rest[0]))


def _values(text: str) -> list[Any]:
    """Split ``1,10,100`` into values of TOML; what is not TOML is a string, as after ``--set``."""
    _, values = toml.assignment(f"values=[{text}]")
    if isinstance(values, list):
        return values
    return [toml.assignment(f"value={word}")[1] for word in text.split(",") if word.strip()]
