"""Arguments of the apps: a value, or a function from Flower's context to it where it depends on the run config."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from flwr.app import Context

T = TypeVar("T")
Given: TypeAlias = T | Callable[[Context], T]


def given(value: T | Callable[[Context], T], context: Context) -> T:
    """Return the value."""
    return value(context) if callable(value) else value
