"""TOML values and Python annotations: which value fits which type, and how a value is written."""

import contextlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from feddr.storage import limits


class MismatchError(ValueError):
    """A value does not fit an annotation."""


def convert(value: Any, annotation: Any) -> Any:
    """Return a TOML value as what the annotation asks for, or raise MismatchError.

    A whole number is a number, true and false are neither; lists become tuples; ``"none"`` is None where None is
    allowed, since TOML has none of its own. ``Any`` stands for a tree of parameters: a number, or a table of them.
    """
    try:
        return _convert(value, annotation)
    except MismatchError:
        raise MismatchError(f"must be {describe(annotation)}, got {text(value)}") from None


def _convert(value: Any, annotation: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        for option in sorted(arguments, key=lambda option: option is not NoneType):  # "none" is a string, too
            try:
                return _convert(value, option)
            except MismatchError:
                continue
    elif origin is Literal:
        if isinstance(value, str) and value in arguments:
            return value
    elif origin is Sequence:
        if isinstance(value, list | tuple):
            return tuple(_convert(entry, arguments[0]) for entry in value)
    elif origin is Mapping:
        if isinstance(value, Mapping):
            return {key: _convert(entry, arguments[1]) for key, entry in value.items()}
    elif annotation is NoneType:
        if value == "none":
            return None
    elif annotation is Any and isinstance(value, Mapping):
        return {key: _convert(entry, Any) for key, entry in value.items()}
    elif annotation in (float, Any):
        if isinstance(value, int | float) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):  # a whole number beyond all floats is none of ours
                return float(value)
    elif isinstance(value, annotation) and (annotation is bool or not isinstance(value, bool)):
        return value
    raise MismatchError


def describe(annotation: Any, plural: bool = False) -> str:
    """Return the annotation in words: "a whole number", "a list of numbers"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(describe(option, plural) for option in arguments)
    if origin is Literal:
        return " or ".join(text(option) for option in arguments)
    if origin is Sequence:
        return f"{'lists' if plural else 'a list'} of {describe(arguments[0], plural=True)}"
    if origin is Mapping:
        return f"{'tables' if plural else 'a table'} of {describe(arguments[1], plural=True)}"
    singular, several = {
        bool: ("true or false", "true or false"),
        int: ("a whole number", "whole numbers"),
        float: ("a number", "numbers"),
        str: ("a string", "strings"),
        NoneType: ('"none"', '"none"'),
    }.get(annotation, ("a number or a table of numbers", "numbers"))
    return several if plural else singular


def text(value: Any) -> str:
    """Return the value as TOML writes it."""
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one character that TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(lines(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text, value)) + "]"
    return str(value)


def lines(table: Mapping[str, Any]) -> list[str]:
    """Return a line ``key = value`` for each entry of a table."""
    bare = re.compile(r"[A-Za-z0-9_-]+")
    return [f"{key if bare.fullmatch(key) else text(key)} = {text(value)}" for key, value in table.items()]


def loads(text: str) -> dict[str, Any]:
    """Return the tables of a text, or raise ValueError: also where it is TOML with more than an experiment may have."""
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"its tables or lists are nested more than {limits.NESTING} deep") from None
    check(tables)
    return tables


def check(value: Any, depth: int = 0) -> None:
    """Refuse what TOML allows and no setting is: dates, and whole numbers or tables without end."""
    if depth > limits.NESTING:
        raise ValueError(f"its tables or lists are nested more than {limits.NESTING} deep")
    if isinstance(value, Mapping | list):
        for entry in (*value, *value.values()) if isinstance(value, Mapping) else value:
            check(entry, depth + 1)
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError("it has a text that is not in UTF-8")
    elif not isinstance(value, float | int):
        raise ValueError(f"{value} is a {type(value).__name__}, which no setting is")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("it has a whole number of more than 64 bits")


def assignment(line: str) -> tuple[list[str], Any]:
    """Split ``a."b c".d = value`` into its path and its value; what is not TOML is a string. No path: no assignment."""
    step = r'(?:[A-Za-z0-9_-]+|"[^"]*")'
    match = re.fullmatch(rf"\s*({step}(?:\.{step})*)\s*=\s*(.*?)\s*", line, re.DOTALL)
    if match is None:
        return [], None
    path, value = [key.strip('"') for key in re.findall(step, match[1])], match[2]
    try:
        parsed = loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    except ValueError as error:
        raise ValueError(f"{match[1]} has a value that cannot be used: {error}.") from None
    return path, parsed["value"] if len(parsed) == 1 else value
