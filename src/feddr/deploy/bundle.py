"""The Flower app of an experiment from a config: always the same few lines, and the experiment in TOML."""

import io
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from feddr.deploy.experiment import TableExperiment
from feddr.sites import SiteRefusal
from feddr.storage import limits

PACKAGE = "feddr_experiment"
CONFIG = f"{PACKAGE}/experiment.toml"

PYPROJECT = f"""\
[project]
name = "feddr-experiment"
version = "1.0.0"
description = "An experiment from a config"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "feddr"

[tool.flwr.app.components]
serverapp = "{PACKAGE}.server:app"
clientapp = "{PACKAGE}.client:app"

[tool.flwr.app.config]
"""

MODULE = """\
from pathlib import Path

from feddr.deploy.app import {side}_app

app = {side}_app(Path(__file__).with_name("experiment.toml"))
"""


def files(config: bytes) -> dict[str, bytes]:
    """Return the files of the app, by their paths in it.

    Parameters
    ----------
    config
        The experiment in TOML.
    """
    return {
        "pyproject.toml": PYPROJECT.encode(),
        f"{PACKAGE}/__init__.py": b"",
        f"{PACKAGE}/client.py": MODULE.format(side="client").encode(),
        f"{PACKAGE}/server.py": MODULE.format(side="server").encode(),
        CONFIG: config,
    }


def write(folder: Path, config: bytes) -> None:
    """Write the app into a folder."""
    for path, content in files(config).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def check(archive: bytes, allowed: Sequence[str]) -> str:
    """Return the hash of the experiment of a bundle (a FAB) that Flower has brought to a node, before any of it runs.

    Parameters
    ----------
    allowed
        The hashes of the experiments that the site takes part in.

    Raises
    ------
    SiteRefusal
        Where the bundle holds other code than that of an experiment from a config, or an experiment that is not listed.
    """
    remedy = "submit one of them with feddr deploy run, or ask the site to list the hash under experiments"
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
            infos = [info for info in bundle.infolist() if not info.filename.startswith(".info/")]
            if sum(info.file_size for info in infos) > 2 * limits.CONFIG:
                raise ValueError
            content = {info.filename: bundle.read(info) for info in infos}
        expected = files(content.get(CONFIG, b""))
        # Flower writes pyproject.toml anew, so its values are compared; everything else to the byte.
        same = len(infos) == len(content) and content.keys() == expected.keys()
        project = tomllib.loads(content.pop("pyproject.toml").decode()) if same else {}
        same = same and project == tomllib.loads(expected.pop("pyproject.toml").decode()) and content == expected
        digest = TableExperiment(tomllib.loads(content[CONFIG].decode())).digest if same else ""
    except (ValueError, KeyError, RecursionError, zipfile.BadZipFile):
        digest = ""
    if not digest:
        raise SiteRefusal(f"This site runs listed experiments alone, this app has code of its own; {remedy}.")
    if digest not in allowed:
        raise SiteRefusal(f"This site runs listed experiments alone, {digest} is none of them; {remedy}.")
    return digest
