"""The start x^0: checked parameters, of a problem or of an earlier run."""

from collections import Counter
from typing import Any

import jax
import numpy as np

from feddr import precision, tree
from feddr.tree import Tree


def start(init: Tree) -> Tree:
    """Return the parameters that a run begins with as arrays of real numbers, which are named, some, and finite.

    Raises
    ------
    ValueError
        Where two parameters have one name, there are none, or one is not finite.

    Examples
    --------
    >>> start({"weight": np.array([1, 2])})
    {'weight': array([1., 2.])}
    """
    names = Counter(tree.name(path) for path, _ in jax.tree_util.tree_leaves_with_path(init))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"Parameters need names of their own, got {twice[0]} twice; rename the keys of init.")
    x = precision.parameters(init)
    if not tree.size(x):
        raise ValueError("A start needs at least one number, init has none; give it the parameters of the model.")
    if not all(np.all(np.isfinite(leaf)) for leaf in tree.leaves(x)):
        raise ValueError("The start must be finite, init holds a NaN or infinity.")
    return x


def fitting(init: Tree, own: Tree) -> Tree:
    """Return a start with the names and shapes of a problem's own, in the structure of that one.

    Raises
    ------
    ValueError
        Where the names or shapes are others.

    Examples
    --------
    >>> fitting({"w": np.ones(3)}, {"w": np.zeros(2)})
    Traceback (most recent call last):
    ValueError: init needs the parameters of the problem, w of shape (2,), got w of shape (3,).
    """
    start, wanted = tree.named(init), tree.named(own)
    if _shapes(start) != _shapes(wanted):
        words = (", ".join(f"{name} of shape {shape}" for name, shape in _shapes(x).items()) for x in (wanted, start))
        raise ValueError("init needs the parameters of the problem, {}, got {}.".format(*words))
    return jax.tree.unflatten(jax.tree.structure(own), [start[name] for name in wanted])


def _shapes(named: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(leaf) for name, leaf in named.items()}
