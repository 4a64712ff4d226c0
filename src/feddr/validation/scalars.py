"""Validation of numbers: converted to Python's own types where nothing is lost by it, refused by name elsewhere."""

from numbers import Integral
from typing import Any


def whole(name: str, value: Any, least: int | None = None, remedy: str = "") -> int:
    """Return a whole number as Python's own; refuse anything else, and what is below the least.

    Examples
    --------
    >>> whole("rounds", 2.5)
    Traceback (most recent call last):
    ValueError: rounds must be a whole number, got 2.5.
    """
    more = f"; {remedy}" if remedy else ""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}{more}.")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}{more}.")
    return int(value)


def count(owner: object, name: str, least: int, remedy: str = "") -> None:
    """Make this field of a frozen dataclass Python's own whole number, and refuse what is none or below the least."""
    object.__setattr__(owner, name, whole(name, getattr(owner, name), least, remedy))


def number(name: str, value: Any) -> Any:
    """Return a number of Python, NumPy or JAX as Python's own, and refuse anything else.

    An array of float32 beside others of float64 would take their digits away.

    Examples
    --------
    >>> number("lr", "0.1")
    Traceback (most recent call last):
    ValueError: lr must be a number, got '0.1'.
    """
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if not isinstance(plain, int | float):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    return plain


def numbers(owner: object, *names: str) -> None:
    """Make these fields of a frozen dataclass Python's own numbers, and refuse anything else."""
    for name in names:
        object.__setattr__(owner, name, number(name, getattr(owner, name)))


def positive(owner: object, *names: str) -> None:
    """Make these fields of a frozen dataclass Python's own numbers, and refuse what is not positive and finite."""
    numbers(owner, *names)
    for name in names:
        value = getattr(owner, name)
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be positive and finite, got {value}.")
