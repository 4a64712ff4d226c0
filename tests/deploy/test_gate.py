"""The gate: strangers reach the nodes' paths and nothing else."""

import asyncio
from typing import Any

import pytest

from feddr.deploy import gate
from feddr.deploy.gate import Gate

OUTSIDE = ["192.0.2.9", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.9", "fe80::1%eth0"]
INSIDE = ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", "10.9.0.7"]
SHUT = [
    "/v1/control/start-run",
    "/v1/control/register-node",
    "/v1/runtime/acquire-task",
    "/docs",
    "/openapi.json",
    "/",
    "",
    "/v1/fleet",
    "/v1/fleetx/y",
    "/healthx",
    "//v1/fleet/x",
]


def answer(client: tuple[str, int] | None, path: str, kind: str = "http") -> int | str:
    """Return the status that a peer gets, 200 from behind the gate."""
    sent: list[Any] = []

    async def inner(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: Any) -> None:
        sent.append(message)

    guarded = Gate(inner, gate.networks([*gate.LOOPBACK, "10.9.0.0/24"]))
    asyncio.run(guarded({"type": kind, "client": client, "path": path}, None, send))
    return sent[0].get("status", sent[0]["type"])


@pytest.mark.parametrize("peer", OUTSIDE)
def test_strangers_reach_only_what_nodes_need(peer: str) -> None:
    assert {path: answer((peer, 1), path) for path in SHUT} == dict.fromkeys(SHUT, 403)
    assert answer((peer, 1), "/v1/fleet/pull-messages") == 200
    assert answer((peer, 1), "/health") == 200


@pytest.mark.parametrize("peer", INSIDE)
def test_trusted_peers_reach_everything(peer: str) -> None:
    assert {answer((peer, 1), path) for path in SHUT} == {200}


def test_a_peer_without_an_address_is_a_stranger() -> None:
    assert answer(None, "/v1/control/start-run") == 403


def test_web_sockets_are_shut_too() -> None:
    assert answer(("192.0.2.9", 1), "/v1/control/x", "websocket") == "websocket.close"


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="control-from"):
        gate.networks(["10.0.0.1/24"])


def test_flower_asks_for_the_gate() -> None:
    """The hook that puts the gate before everything is where this version of Flower has it."""
    from flwr.superlink import extensions, main

    before = extensions.get_middleware
    try:
        gate.install(gate.networks(gate.LOOPBACK))
        first: Any = main._get_middleware()[0]
        assert first.cls is Gate
    finally:
        extensions.get_middleware = before
