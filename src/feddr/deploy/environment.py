"""The environment of Flower's processes: no telemetry, no network beyond the link, a home folder of their own."""

import os
import sys
from pathlib import Path

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""No usage reports, no look for updates, no packages installed because an app asks for them."""


def environment(home: Path) -> dict[str, str]:
    """Return this process's environment with ``home`` as FLWR_HOME.

    Flower starts its helpers by name, so the folder of this Python comes first in PATH. A client process lives for one
    update; compiled code is kept between them, in ``home`` unless it has a place already.
    """
    bin_folder = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    return {
        "FEDDR_COMPILATION_CACHE": str(home / "compiled"),
        **os.environ,
        **QUIET,
        "FLWR_HOME": str(home),
        "PATH": path if path.split(os.pathsep)[0] == bin_folder else f"{bin_folder}{os.pathsep}{path}",
        "PYTHONUNBUFFERED": "1",
    }


def program(name: str) -> str:
    """Return the path of a program that was installed beside this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise ValueError(f"{name} must be installed beside {sys.executable}, it is not; pip install 'feddr[flower]'.")
    return str(path)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can read, if there is none."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
