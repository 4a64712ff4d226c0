"""A supervised SuperLink behind a gate: TLS and node keys beyond this machine, runs submitted from this machine."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from feddr.deploy import address, gate
from feddr.deploy.address import Address
from feddr.deploy.check_link import ask
from feddr.deploy.environment import environment, private_folder, program
from feddr.deploy.events import Events
from feddr.deploy.supervise import Cause, Supervisor

CONNECTION = "feddr"
"""Name of the connection in Flower's configuration."""


def run(
    host: str,
    port: int,
    state: Path,
    certs: Path | None = None,
    control_from: Sequence[str] = (),
    quiet: bool = False,
) -> None:
    """Run a SuperLink until SIGTERM or SIGINT.

    Its state is a database, so that it knows its nodes again after a restart. The public keys in ``certs/nodes`` are
    registered when it starts. ``FLWR_HOME=<state>/flwr flwr run <app>`` submits runs to it; what a server app writes is
    in ``<state>/server/<name of the run>``.

    Parameters
    ----------
    host, port
        Where it listens; ``0.0.0.0`` for all interfaces.
    state
        Folder of the SuperLink alone: database, logs, Flower's home.
    certs
        Folder with ca.crt, server.crt, server.key and nodes/*.pub. May be left out on a loopback address only.
    control_from
        Addresses and networks besides this machine from which runs may be submitted.
    """
    endpoint = Address(host, port)
    secrets = security(endpoint, certs)
    local = Address({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)
    own = [] if address.ip(host) is None or local.host != host else [host]
    trusted = [str(network) for network in gate.networks([*gate.LOOPBACK, *own, *control_from])]
    private_folder(state)
    home = private_folder(state / "flwr")
    _write_connection(home / "config.toml", local, certs)
    events = Events(state / "events.jsonl", "server", quiet)
    gates = [word for network in trusted for word in ("--trusted", network)]
    listen = ["--host", host, "--port", str(port), "--database", str((state / "superlink.db").resolve())]
    command = [sys.executable, "-m", "feddr.deploy.gate", *gates, "--", *listen, *secrets]
    surroundings = {**environment(home), "FEDDR_HOME": str(state.resolve())}

    def welcome(process: "subprocess.Popen[bytes]", offset: int) -> None:  # noqa: ARG001
        while process.poll() is None and not _answers(local, certs):
            time.sleep(0.2)
        for public in sorted((certs / "nodes").glob("*.pub")) if certs is not None else []:
            _register(public, process, surroundings, events)
        if process.poll() is None:
            message = f"Answers at {local}; FLWR_HOME={home.resolve()} flwr run APP submits a run."
            events.write("info", "ready", message, address=str(local))

    Supervisor(lambda: command, surroundings, state / "superlink.log", events, cause, welcome).run()


def security(endpoint: Address, certs: Path | None) -> list[str]:
    """Return the options for TLS and node authentication, or for plain text on loopback addresses."""
    if certs is None:
        if not endpoint.is_loopback:
            raise ValueError(
                f"A SuperLink needs TLS and node keys beyond this machine, got --host {endpoint.host} without --certs; "
                "make them with feddr deploy certs, or listen on 127.0.0.1."
            )
        return ["--insecure"]
    names = {"--ssl-ca-certfile": "ca.crt", "--ssl-certfile": "server.crt", "--ssl-keyfile": "server.key"}
    for name in names.values():
        if not (certs / name).is_file():
            raise ValueError(f"A SuperLink needs {certs / name}, which is not there; make it with feddr deploy certs.")
    files = [word for option, name in names.items() for word in (option, str((certs / name).resolve()))]
    return [*files, "--enable-supernode-auth"]


def cause(output: str, code: int) -> Cause:
    """Say why a SuperLink ended, from what it printed."""
    if "address already in use" in output.lower():
        return Cause("port", "Another process listens on the port; stop it, or give --port.", level="error")
    return Cause("ended", f"The SuperLink ended with exit code {code}.")


def _write_connection(path: Path, local: Address, certs: Path | None) -> None:
    """Tell Flower's command line how to reach the SuperLink."""
    secure = (
        "insecure = true" if certs is None else f"root-certificates = {json.dumps(str((certs / 'ca.crt').resolve()))}"
    )
    lines = [
        "[superlink]",
        f'default = "{CONNECTION}"',
        "",
        f"[superlink.{CONNECTION}]",
        f'address = "{local}"',
        secure,
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _answers(local: Address, certs: Path | None) -> bool:
    try:
        return ask(local, None if certs is None else certs / "ca.crt", "/health").status == 200
    except (OSError, http.client.HTTPException):
        return False


def _register(public: Path, process: "subprocess.Popen[bytes]", surroundings: dict[str, str], events: Events) -> None:
    """Register a node's key (idempotent), with a retry where that fails."""
    command = [program("flwr"), "supernode", "register", str(public), CONNECTION]
    for _ in range(5):
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode == 0 or "already in use" in said:
            events.write("info", "registered", f"Admits {public.stem}.", key=public.name)
            return
        if process.poll() is not None:
            return
        time.sleep(1.0)
    events.write("error", "not registered", f"Could not register {public}: {' '.join(said.split())}", key=public.name)
