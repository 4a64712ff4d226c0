"""Flower's ``flwr-clientapp`` at a site that lists its experiments: the app is checked before any of its code runs.

The server's operator decides which app a node receives, and Flower runs whatever it is. So the node of such a site puts
a program of this name before Flower's own (``install``), which runs Flower's with one step more.
"""

import os
import sys
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
    """Run a ClientApp, if it is that of an experiment which the site has listed."""
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp

    # What Flower's module has under this name is called with the bundle, before anything of it is on the disk.
    unpack = run_clientapp.install_from_fab

    def checked(archive: bytes, *words: Any, **options: Any) -> Any:
        check(archive)
        return unpack(archive, *words, **options)

    run_clientapp.install_from_fab = checked
    flwr_clientapp()


def check(archive: bytes) -> None:
    """Refuse a bundle that the site's file does not allow; the refusal is logged, as all that leaves."""
    from feddr.deploy import bundle  # with JAX and Flower, which the supervisor of a node does without

    try:
        bundle.check(archive, Site.read(os.environ[SITE]).rules.experiments or ())
    except SiteRefusal as refusal:
        entry = {"kind": "error", "of": "bundle", "run": "", "bytes": len(str(refusal).encode()), "norm": None}
        AuditLog(Path(os.environ[STATE]) / "audit").append({**entry, "text": str(refusal)})
        raise
