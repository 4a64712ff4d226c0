"""Bytes as they travel in JSON: hexadecimal, of a known length, and refused otherwise."""

from collections.abc import Mapping
from typing import Any

from feddr.secure.refusal import ProtocolError

LONGEST = 4096
"""Bytes of one field, at most."""


def blob(value: Any, length: int | None = None) -> bytes:
    r"""Return the bytes that hexadecimal digits stand for; ProtocolError where they are none, or not so many.

    Examples
    --------
    >>> blob("00ff", 2)
    b'\x00\xff'
    """
    try:
        data = bytes.fromhex(value) if isinstance(value, str) and len(value) <= 2 * LONGEST else None
    except ValueError:
        data = None
    if data is None or (length is not None and len(data) != length):
        raise ProtocolError("malformed", f"a field must be {length or 'some'} bytes in hexadecimal digits")
    return data


def record(value: Any, *names: str) -> dict[str, Any]:
    """Return a JSON object that has exactly these fields; ProtocolError otherwise.

    Examples
    --------
    >>> record({"a": 1}, "a")
    {'a': 1}
    """
    if not isinstance(value, dict) or set(value) != set(names):
        raise ProtocolError("malformed", f"an object needs the fields {sorted(names)}")
    return value


def clients(value: Any) -> tuple[int, ...]:
    """Return a list of clients, each of which is there once, in order; ProtocolError otherwise.

    Examples
    --------
    >>> clients([0, 2])
    (0, 2)
    """
    whole = isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)
    if not whole or value != sorted(set(value)):
        raise ProtocolError("malformed", "clients must be a list of different whole numbers in order")
    return tuple(value)


def by_client(value: Any) -> dict[int, Any]:
    """Return a JSON object whose names are clients, by their numbers; ProtocolError where a name is none.

    Examples
    --------
    >>> by_client({"3": "x"})
    {3: 'x'}
    """
    if not isinstance(value, dict) or not all(name.isdecimal() and str(int(name)) == name for name in value):
        raise ProtocolError("malformed", "the names of an object must be numbers of clients")
    return {int(name): one for name, one in value.items()}


def plain(values: Mapping[int, Any]) -> dict[str, Any]:
    """Return bytes by client, or lists of them, as a JSON object.

    Examples
    --------
    >>> plain({3: b"x", 4: (b"y", b"z")})
    {'3': '78', '4': ['79', '7a']}
    """
    return {
        str(client): one.hex() if isinstance(one, bytes) else [part.hex() for part in one]
        for client, one in values.items()
    }
