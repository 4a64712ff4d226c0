"""Identity of a deployed run: its folder, its name, and the digest that server and nodes compare."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from feddr import tree
from feddr.flower.messages import NAME
from feddr.storage import tensors
from feddr.tree import Tree


def root(*chosen: object) -> Path:
    """Return the first folder that was chosen, else $FEDDR_HOME, else feddr's folder among the user's state files."""
    for folder in chosen:
        if folder:
            return Path(str(folder)).expanduser().absolute()
    home = os.environ.get("FEDDR_HOME")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home).absolute() if home else Path(state).absolute() / "feddr"


def check_name(name: str) -> str:
    """Refuse a name that could not be a folder's."""
    if not NAME.fullmatch(name):
        raise ValueError(f"A run's name must be letters, digits, '.', '_' and '-', at most 64, got {name!r}.")
    return name


def rules(algorithm: Any, precision: str, init: Tree, secure: object = None) -> str:
    """Return the digest of what both sides compute with; ``secure`` is what they say of secure rounds."""
    more = "" if secure is None else f" {secure!r}"
    sha = hashlib.sha256(f"{algorithm!r} {precision}{more}".encode())
    _hash(sha, tree.cast(init, np.dtype(precision)))
    return sha.hexdigest()


def digest(counted: Tree) -> str:
    """Return a digest of what is counted for a client, by which server and node see that they count the same."""
    sha = hashlib.sha256()
    _hash(sha, counted)
    return sha.hexdigest()[:16]


def _hash(sha: Any, a: Tree) -> None:
    for name, leaf in tensors.flatten(a).items():
        sha.update(f"{name} {leaf.dtype.str} {leaf.shape}".encode())
        sha.update(leaf.tobytes())
