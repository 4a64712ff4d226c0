"""Flower's ``flwr-clientapp`` at a site with a file: where it lists experiments, no other code is run.

The server's operator decides which app a node receives, and Flower runs whatever it is. So the node of such a site puts
a program of this name before Flower's own (``install``), which runs Flower's with one step more: the check of the app
that has arrived, before any of it is on the disk.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feddr.sites import AuditLog, Site, SiteRefusal

SITE, STATE = "FEDDR_SITE", "FEDDR_NODE_STATE"
"""The environment variables with the site's file and the node's state."""


def install(folder: Path) -> None:
    """Write the program into a folder, which is to come first in PATH."""
    folder.mkdir(mode=0o700, exist_ok=True)
    program = folder / "flwr-clientapp"
    text = f"#!{sys.executable}\nfrom feddr.deploy.client_process import main\n\nmain()\n"
    program.write_text(text, encoding="utf-8")
    program.chmod(0o700)


def main() -> None:
    """Run a ClientApp, if the site's file allows its app."""
    from flwr.supernode.cli import flwr_clientapp

    # What Flower's module has under this name is called with the bundle, before anything of it is on the disk. A
    # version of Flower without it ends here, and runs nothing.
    process: Any = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    unpack = process.install_from_fab

    def checked(archive: bytes, *words: Any, **options: Any) -> Any:
        check(archive)
        return unpack(archive, *words, **options)

    process.install_from_fab = checked
    flwr_clientapp()


def check(archive: bytes) -> None:
    """Refuse a bundle that the site's file does not allow; the refusal is logged, as all that leaves."""
    from feddr.deploy import bundle  # with JAX and Flower, which the supervisor of a node does without

    try:
        listed = _listed()
        if listed is not None:
            bundle.check(archive, listed)
    except SiteRefusal as refusal:
        text = str(refusal)
        entry = {"kind": "error", "of": "bundle", "run": "", "bytes": len(text.encode()), "norm": None, "text": text}
        AuditLog(Path(os.environ[STATE]) / "audit").append(entry)
        raise


def _listed() -> Sequence[str] | None:
    """Return the experiments of the site's file as it is now, None where all are allowed."""
    try:
        return Site.read(os.environ[SITE]).rules.experiments
    except ValueError:
        traceback.print_exc()
        raise SiteRefusal("The file of this site cannot be read; the log of its node says more.") from None
