"""Checks before a deployment starts: versions, environment variables, ports, certificates and the link."""

import importlib.metadata
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from feddr.deploy import address
from feddr.deploy.environment import QUIET
from feddr.deploy.finding import Finding

FLOWER = "1.41"
"""The version whose protocol and options were tested; Flower changes both between minor versions."""

PROGRAMS = ("flwr", "flower-superlink", "flower-supernode", "flower-superexec")


def check(
    superlink: str | None = None,
    listen: str | None = None,
    certs: Path | None = None,
    site: Path | None = None,
    config: Path | None = None,
) -> Iterator[Finding]:
    """Look at this machine, at the certificates, and at the SuperLink, one finding after the other.

    Parameters
    ----------
    superlink
        ``host:port`` of a SuperLink that should answer: what a node needs.
    listen
        ``host:port`` that should be free: what a SuperLink needs.
    certs
        Folder of a server or of a node.
    site, config
        A site's own file, and the experiment whose columns its data must have.
    """
    yield from versions()
    yield from variables()
    if listen is not None:
        yield port(listen)
    if certs is not None:
        from feddr.deploy.check_certs import certificates

        yield from certificates(certs)
    if site is not None or config is not None:
        from feddr.deploy.check_site import site_data

        yield from site_data(site, config)
    if superlink is not None:
        from feddr.deploy.check_link import link

        yield from link(address.parse(superlink), None if certs is None else certs / "ca.crt")


def versions() -> Iterator[Finding]:
    """Look at Python, Flower and its programs."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    right = (3, 11) <= sys.version_info < (3, 14)
    yield Finding("Python", "ok" if right else "problem", python, "" if right else "use Python 3.11 to 3.13")
    try:
        flower = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("Flower", "problem", "not installed", "pip install 'feddr[flower]'")
        return
    right = flower.startswith(f"{FLOWER}.")
    yield Finding("Flower", "ok" if right else "problem", flower, "" if right else f"pip install 'flwr=={FLOWER}.*'")
    missing = [name for name in PROGRAMS if not (Path(sys.executable).parent / name).exists()]
    if missing:
        yield Finding("programs", "problem", f"no {', '.join(missing)} beside Python", "pip install 'feddr[flower]'")
    else:
        yield Finding("programs", "ok", str(Path(sys.executable).parent))


def variables() -> Iterator[Finding]:
    """Look at the environment, which ``flwr run`` inherits; processes of feddr deploy have their own."""
    wrong = [f"{name}={value}" for name, value in QUIET.items() if os.environ.get(name) != value]
    if wrong:
        text = "flwr typed here would report usage, look for updates or install packages"
        yield Finding("FLWR variables", "note", text, f"export {' '.join(wrong)}")
    else:
        yield Finding("FLWR variables", "ok", "quiet and offline")
    home = Path(os.environ.get("FLWR_HOME", Path.home() / ".flwr"))
    if home.exists() and home.stat().st_mode & 0o077:
        yield Finding("FLWR_HOME", "note", f"others may read {home}", f"chmod 700 {home}")
    else:
        yield Finding("FLWR_HOME", "ok", str(home))


def port(listen: str) -> Finding:
    """Look whether a SuperLink could listen on an address."""
    host, number = address.parse(listen)
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, number))
    except OSError as error:
        return Finding("port", "problem", f"{listen}: {error.strerror}", "stop what listens there, or take another")
    return Finding("port", "ok", f"{listen} is free")
