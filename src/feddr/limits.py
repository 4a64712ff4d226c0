"""How large things may be: whatever is refused by its size, before anything is expanded, reserved or drawn."""

import os
from numbers import Integral
from typing import Any

CONFIG = 2**20
"""Bytes of an experiment in TOML."""

NESTING = 32
"""Tables and lists within each other in an experiment."""

NAME = 150
"""Bytes of a name that becomes a folder; file systems allow 255, and some files have the name with more around it."""

DATA = 2 * 2**30
"""Bytes of a file with samples, when it is expanded; a larger one is for its owner to cut, if he trusts it."""

LINE = 64 * 2**20
"""Bytes of a line of text with samples."""

RECORD = 256 * 2**20
"""Bytes of a file that feddr has written about a run and reads again; the largest of them is a long history."""

TRIALS = 10_000
"""Settings that a search tries for each algorithm."""

COPIES = 8
"""How often a model is in memory while it is trained, at least: start, server, gradients, clients."""


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


def cores() -> int:
    """Return how many cores there are for this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(what: str, needed: int, remedy: str) -> None:
    """Refuse what cannot fit into memory."""
    has = memory()
    if needed > has:
        raise ValueError(f"{what} needs about {needed / 1e9:,.3g} GB, this machine has {has / 1e9:,.3g}; {remedy}.")


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
