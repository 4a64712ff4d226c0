"""A supervised SuperNode: TLS beyond this machine, restarted when it exits, retried with pauses when it is refused."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from feddr.deploy import address, client_process
from feddr.deploy.address import Address
from feddr.deploy.environment import environment, private_folder, program
from feddr.deploy.events import Events
from feddr.deploy.supervise import Cause, Supervisor
from feddr.sites import Site
from feddr.storage import lock

REJOIN_WAIT = 65.0
"""Seconds before a refused node tries again.

A killed node counts as online for a minute, and a key can be online once. The server learns from Flower that the node's
task is lost only if it sees the node offline, so the node stays away for longer than that minute, once.
"""


TASK_POLL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
"""Flower polls for a new task once a second by default, and every update would wait for it."""

JOINED = "SuperNode ID: "
"""What a SuperNode prints when it has joined."""


def run(
    superlink: str,
    partition: int,
    state: Path,
    certs: Path | None = None,
    key: Path | None = None,
    config: Sequence[str] = (),
    quiet: bool = False,
    site: Path | None = None,
) -> None:
    """Run a node until SIGTERM or SIGINT.

    Parameters
    ----------
    superlink
        ``host:port`` of the SuperLink.
    partition
        Number of the client that this node is. It stays the same over restarts, which Flower's node id does not.
    state
        Folder of this node alone: client state, logs, Flower's home.
    certs
        Folder with ca.crt and node.key. May be left out for a SuperLink on this machine, and nowhere else.
    key
        The node's private key, instead of ``certs/node.key``.
    config
        Further settings of the node, each ``key=value`` with a value in TOML.
    site
        The site's own file: its data, its columns, and the rules that this node enforces.
    """
    target = address.parse(superlink)
    if partition < 0:
        raise ValueError(f"partition must be at least 0, got {partition}.")
    secrets = security(target, certs, key)
    if site is not None:
        Site.read(site)  # what is wrong in it is said before anything is started
    private_folder(state)
    own = [] if site is None else [f'feddr-site="{site.resolve()}"']
    node_config = " ".join([f"partition-id={partition}", f'feddr-folder="{state.resolve()}"', *own, *config])
    surroundings = environment(private_folder(state / "flwr"))
    if site is not None:
        client_process.install(state / "bin")
        surroundings["PATH"] = f"{(state / 'bin').resolve()}{os.pathsep}{surroundings['PATH']}"
        surroundings |= {client_process.SITE: str(site.resolve()), client_process.STATE: str(state.resolve())}
    events = Events(state / "events.jsonl", f"node {partition}", quiet)
    log = state / "supernode.log"
    start = [program("flower-supernode"), "--superlink", str(target), "--node-config", node_config, *secrets]

    def command() -> list[str]:
        return [*start, "--port", str(address.free_port())]

    def watch(process: "subprocess.Popen[bytes]", offset: int) -> None:
        with open(log, encoding="utf-8", errors="replace") as output:
            output.seek(offset)
            while process.poll() is None:
                line = output.readline()
                if JOINED in line:
                    node = line.partition(JOINED)[2].strip()
                    events.write("info", "joined", f"Joined as {node}.", node=node)
                    return
                if not line:
                    time.sleep(0.2)

    # The node inherits the lock, and so holds it also when only its supervisor has died.
    busy = ValueError(f"Another node uses {state}; stop it first, or give this one a folder of its own.")
    with lock.locked(state, busy) as held:
        os.set_inheritable(held, True)
        Supervisor(
            command,
            {TASK_POLL: "0.2", **surroundings},
            log,
            events,
            cause,
            watch,
            lock=held,
        ).run()


def security(target: Address, certs: Path | None, key: Path | None) -> list[str]:
    """Return the options for TLS and the node's key, or for plain text on loopback addresses."""
    if certs is None:
        if key is not None:
            raise ValueError(f"A key needs TLS, got --key {key} without --certs; give the folder with ca.crt.")
        if not target.is_loopback:
            raise ValueError(
                f"A node needs TLS and a key beyond this machine, got --superlink {target} without --certs; "
                "make them with feddr deploy certs."
            )
        return ["--insecure"]
    key = certs / "node.key" if key is None else key
    for path in (certs / "ca.crt", key):
        if not path.is_file():
            raise ValueError(f"A node needs the file {path}, which is not there; make it with feddr deploy certs.")
    if key.stat().st_mode & 0o077:
        raise ValueError(f"Only its owner may read a key, others may read {key}; chmod 600 {key}.")
    return ["--root-certificates", str(certs / "ca.crt"), "--auth-supernode-private-key", str(key)]


def cause(output: str, code: int) -> Cause:
    """Say why a SuperNode ended, from what it printed."""
    if "Failed to activate SuperNode" in output:
        return Cause(
            "refused",
            "The SuperLink refused this node: it was killed less than a minute ago and still counts as online, or its "
            "key is not registered.",
            REJOIN_WAIT,
        )
    if "registered via the CLI" in output:
        return Cause("refused", "The SuperLink wants a registered key; give --certs.", level="error")
    if "Invalid SuperNode authentication" in output or "401 Unauthorized" in output:
        return Cause(
            "unauthorised",
            "The SuperLink refused the signature: its key was removed, or the clocks differ by more than 5 s.",
            level="error",
        )
    if "certificate verify failed" in output.lower() or "handshake error" in output:
        return Cause(
            "tls", "TLS failed: the certificate is not of this CA, not for this host, or expired.", level="error"
        )
    return Cause("ended", f"The node ended with exit code {code}.")
