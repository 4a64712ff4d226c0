"""Addresses, host and port; only loopback addresses may be used without TLS."""

import ipaddress
import socket
from typing import NamedTuple


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can be meant; a name other than localhost may mean any."""
        number = ip(self.host)
        return self.host == "localhost" if number is None else number.is_loopback


def parse(text: str) -> Address:
    """Read ``host:port`` or ``[::1]:port``.

    Examples
    --------
    >>> parse("fl.example.org:8000")
    Address(host='fl.example.org', port=8000)
    """
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    plain = name and "/" not in name and (bracketed or ":" not in name)
    if not plain or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"An address is host:port, got {text!r}; write fl.example.org:8000 or [2001:db8::1]:8000.")
    return Address(name, int(port))


def ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return ``host`` as an IP address, None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on; another process may take it before it is used."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
