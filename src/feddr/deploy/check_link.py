"""Checks of a SuperLink from a node: reachable, the right certificate, clocks that agree, control API not exposed."""

import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

from feddr.deploy.address import Address
from feddr.deploy.finding import Finding

SECONDS = 5.0
AHEAD, BEHIND = 4.0, 300.0
"""A node's signature may be 5 s in the SuperLink's future or 305 s in its past; the measurement is good to a second."""


class ProbeReply(NamedTuple):
    """A status, and by how many seconds this machine's clock is ahead, if the answer says."""

    status: int
    ahead: float | None


def link(target: Address, ca: Path | None) -> Iterator[Finding]:
    """Look at a SuperLink: with TLS if there is a CA's certificate, in plain text otherwise."""
    try:
        socket.create_connection(target, SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        yield Finding(
            "reachable", "problem", f"{target}: {reason}", "start the SuperLink; look at name, port, firewall"
        )
        return
    yield Finding("reachable", "ok", str(target))
    if ca is None and not target.is_loopback:
        yield Finding("TLS", "problem", "no CA given for an address beyond this machine", "give --certs")
        return
    try:
        health = ask(target, ca, "/health")
    except ssl.SSLCertVerificationError as error:
        yield Finding("TLS", "problem", error.verify_message, "give the CA and the host name of feddr deploy certs")
        return
    except (OSError, http.client.HTTPException) as error:
        remedy = "does it use TLS? give --certs" if ca is None else "does it use TLS? start it with --certs"
        yield Finding("TLS", "problem", f"no answer to {'https' if ca else 'http'}: {type(error).__name__}", remedy)
        return
    yield Finding("TLS", "ok", "certificate, host name and date are right" if ca else "none, on this machine only")
    right = health.status == 200
    yield Finding(
        "SuperLink", "ok" if right else "problem", f"/health: {health.status}", "" if right else "see its log"
    )
    yield _clock(health.ahead)
    yield _control(target, ask(target, ca, "/v1/control/").status)


def ask(target: Address, ca: Path | None, path: str) -> ProbeReply:
    """Send one GET request."""
    host, port = target
    if ca is None:
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    else:
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)
    try:
        before = time.time()
        connection.request("GET", path)
        response = connection.getresponse()
        date = response.headers.get("Date")
        # The header has whole seconds: the moment is half a second later, on the average.
        moment = None if date is None else (before + time.time()) / 2 - parsedate_to_datetime(date).timestamp() - 0.5
        return ProbeReply(response.status, moment)
    finally:
        connection.close()


def _clock(ahead: float | None) -> Finding:
    if ahead is None:
        return Finding("clock", "note", "not measured, the answer has no date")
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the SuperLink's, to a second"
    right = -BEHIND < ahead < AHEAD
    return Finding("clock", "ok" if right else "problem", text, "" if right else "synchronise the clocks (NTP)")


def _control(target: Address, status: int) -> Finding:
    if status == 403:
        return Finding("control path", "ok", "shut for this machine")
    if target.is_loopback:
        return Finding("control path", "ok", "open for this machine, which runs the SuperLink")
    remedy = "start it by feddr deploy server, or filter /v1/control"
    return Finding("control path", "problem", "anybody here may submit runs, which execute code on every node", remedy)
