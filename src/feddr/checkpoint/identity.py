"""Identity of a run: the settings and the fingerprint of the data that a checkpoint and a resumed run must share."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.problem import Problem

WHOLE = 64 * 2**20
"""Bytes of an array up to which all of it is looked at; of a larger one, as many blocks of 1 MB."""

BLOCK = 2**20


def identity(problem: Problem, algorithm: Any, local: Any, options: Any, engine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a run and its checkpoints must share.

    Parameters
    ----------
    options
        What every engine is asked: ``seed``, ``precision``, ``personal``, ``evaluate_every`` and metrics count.
    engine
        The name of the engine, and what it alone is asked.
    """
    same = {"evaluate_every": options.evaluate_every, **options.asked, **engine}
    return {
        "problem": fingerprint(problem),
        "g": words(problem.regulariser),
        "algorithm": words(algorithm),
        "local": words(local),
        "seed": options.seed,
        "precision": options.precision,
        "personal": options.personal,
        **{name: words(value) for name, value in same.items()},
    }


def words(value: Any) -> str:
    """Return a value in words that are the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def fingerprint(problem: Problem) -> str:
    """Return a digest of the numbers of a problem: samples, sizes, weights and start; not of the code of its loss."""
    data, sha = problem.data, hashlib.sha256()
    named: dict[str, Any] = {"sizes": data.sizes, "panel": data.panel, "weights": problem.client_weights}
    named |= {f"init.{name}": leaf for name, leaf in tree.named(problem.init).items()}
    for kind in ("train", "validation", "test"):
        if (part := data.part(kind)) is not None:
            named |= {f"{kind}.{name}": array for name, array in part.samples.items()}
            named[f"{kind}.offsets"] = part.offsets
    for name, value in sorted(named.items()):
        _add(sha, name, np.asarray(value))
    return sha.hexdigest()


def _add(sha: Any, name: str, array: NDArray[Any]) -> None:
    sha.update(f"{name} {array.dtype.str} {array.shape};".encode())
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if flat.nbytes <= WHOLE:
        sha.update(flat)
        return
    for start in np.linspace(0, flat.nbytes - BLOCK, WHOLE // BLOCK).astype(np.int64):
        sha.update(flat[start : start + BLOCK])
