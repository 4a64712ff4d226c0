"""Access control in front of the SuperLink: the network reaches what nodes need, and nothing else.

Flower serves nodes (``/v1/fleet``), people (``/v1/control``) and its own app processes (everything else) on one port.
Only nodes have to show a key: whoever reaches the port may submit a run, and so execute code on every node. Here, only
this machine, or addresses that were named, get beyond ``/v1/fleet`` and ``/health``.

It is a program: ``python -m feddr.deploy.gate --trusted 127.0.0.0/8 -- <options of flower-superlink>``.
"""

import argparse
import ipaddress
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from feddr.deploy.long_poll import LongPoll

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Callable[[MutableMapping[str, Any]], Awaitable[None]]], Awaitable[None]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

OPEN = ("/v1/fleet/", "/health")
LOOPBACK = ("127.0.0.0/8", "::1/128")


class Gate:
    """ASGI middleware that answers 403 to requests from outside ``trusted`` for anything but ``OPEN``."""

    def __init__(self, app: App, trusted: Sequence[Network]) -> None:
        self.app, self.trusted = app, trusted

    async def __call__(self, scope: Scope, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan" or self.admits(scope.get("client"), scope.get("path", "")):
            await self.app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        text = b"Only nodes may come from here; submit runs on the SuperLink's own machine."
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": text})

    def admits(self, client: tuple[str, int] | None, path: str) -> bool:
        """Return whether the peer may ask for the path; a peer without an address may not."""
        if path == OPEN[1] or path.startswith(OPEN[0]):
            return True
        if client is None:
            return False
        peer = ipaddress.ip_address(client[0].partition("%")[0])
        if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self.trusted)


def networks(texts: Sequence[str]) -> list[Network]:
    """Read addresses and networks such as 10.0.0.7 or 10.0.0.0/24."""
    try:
        return [ipaddress.ip_network(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"--control-from must be an IP address or network: {error}.") from None


def install(trusted: Sequence[Network]) -> None:
    """Put the gate, and the long polling of nodes behind it, before everything else that the SuperLink serves."""
    from flwr.superlink import extensions
    from starlette.middleware import Middleware

    inner = extensions.get_middleware  # an AttributeError in another version of Flower keeps the SuperLink shut

    def get_middleware() -> tuple[Middleware, ...]:
        return (Middleware(Gate, trusted=trusted), Middleware(LongPoll), *inner())

    extensions.get_middleware = get_middleware


def main() -> None:
    """Run flower-superlink behind the gate."""
    parser = argparse.ArgumentParser(prog="feddr.deploy.gate")
    parser.add_argument("--trusted", action="append", required=True)
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    # With this variable, the web server would believe strangers who say that they come from 127.0.0.1.
    os.environ.pop("FORWARDED_ALLOW_IPS", None)
    install(networks(options.trusted))
    sys.argv = ["flower-superlink", *[word for word in options.rest if word != "--"]]
    from flwr.superlink.cli import flower_superlink

    flower_superlink()


if __name__ == "__main__":
    main()
