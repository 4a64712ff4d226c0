"""App processes that are forked from one that has imported everything: a tenth of the work of a new Python.

Flower starts a Python for each message, and gives up one that takes half a minute to begin, as it does where many tests
share two cores. All else is as it is at a site: a process for each message, which reads its state from the site's disk,
and dies with the node. A fork begins with nothing but imported modules: no connection, no thread, no device of JAX.

``python -P warm.py SOCKET`` serves; ``clone`` and ``install`` put programs that ask it for a fork in the place of
Flower's own.
"""

import importlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

APPS = {"flwr-clientapp": "flwr.supernode.cli", "flwr-serverapp": "flwr.superlink.cli"}
"""Flower's programs, and the modules that have them as functions."""

IMPORTED = (*APPS.values(), "feddr.deploy.app", "feddr.deploy.client_process", "feddr.plots", "jax.numpy", "optax")

PROGRAM = """\
#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as link:
    link.connect({address!r})
    text = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(link, [len(text).to_bytes(4, "big")], [1, 2])
    link.sendall(text)
    link.recv(1)  # nothing comes: the fork has ended
"""


def clone(folder: Path, address: Path) -> Path:
    """Make a virtual environment like this one, in which Flower's apps are forks; return its folder of programs."""
    own = Path(sys.executable).parent
    (folder / "bin").mkdir(parents=True)
    for path in own.iterdir():
        (folder / "bin" / path.name).symlink_to(path)
    for name in ("pyvenv.cfg", "lib"):
        (folder / name).symlink_to(own.parent / name)
    for name in APPS:
        install(folder / "bin" / name, address)
    return folder / "bin"


def install(program: Path, address: Path) -> None:
    """Put a program that asks for a fork in the place of another."""
    beside = program.with_suffix(".new")
    beside.write_text(PROGRAM.format(python=sys.executable, address=str(address)), encoding="utf-8")
    beside.chmod(0o700)
    beside.replace(program)


def serve(address: str) -> None:
    """Fork an app process for each program that asks, until this process is killed."""
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(100)
        while True:
            link, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                run(link)
                return
            link.close()


def run(link: socket.socket) -> None:
    """Be the program that has asked: its words, folder, environment and output; die when it does."""
    from feddr.deploy import client_process

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, outputs, _, _ = socket.recv_fds(link, 4, 2)
    with link.makefile("rb") as text:
        sys.argv, folder, environment = json.loads(text.read(int.from_bytes(head, "big")))
    for output, own in zip(outputs, (1, 2), strict=True):
        os.dup2(output, own)
        os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_die_with, args=(link,), daemon=True).start()
    name = Path(sys.argv[0]).name
    if name == "flwr-clientapp" and client_process.SITE in environment:
        client_process.main()
    else:
        getattr(importlib.import_module(APPS[name]), name.replace("-", "_"))()


def _die_with(link: socket.socket) -> None:
    """Die when the other end is closed, as that of a program that was killed is."""
    if not link.recv(1):
        os._exit(9)


if __name__ == "__main__":
    serve(sys.argv[1])
