"""What both kinds of checks share: how a broken law is reported, and when two trees are the same."""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from feddr.tree import Tree


def broken(who: Any, law: str, what: str) -> AssertionError:
    """Return the error for a broken law: the object, the law, and what went wrong."""
    return AssertionError(f"{who} breaks the law '{law}': {what}")


def at_most(who: Any, law: str, what: str, value: float, tolerance: float) -> None:
    """Raise where a value is above its tolerance, or not a number."""
    if not value <= tolerance:
        raise broken(who, law, f"{what} is {value:.3g}, at most {tolerance:.3g} is allowed.")


def structure(x: Tree) -> Any:
    """Return the structure of a tree, to be compared and shown."""
    return jax.tree.structure(x)


def copies(x: Tree) -> list[NDArray[Any]]:
    """Return copies of the leaves of a tree."""
    return [np.array(leaf) for leaf in jax.tree.leaves(x)]


def same(a: Tree, b: Tree) -> bool:
    """Return whether two trees have the same structure, types, shapes and bits."""
    if structure(a) != structure(b):
        return False
    pairs = zip(copies(a), copies(b), strict=True)
    return all(p.dtype == q.dtype and p.shape == q.shape and p.tobytes() == q.tobytes() for p, q in pairs)
