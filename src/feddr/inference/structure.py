"""The structure of a tree of parameters in plain values, so that a file can hold it: nested dicts, lists and tuples.

Nodes of other libraries, such as the modules of equinox, become dicts with the same names, since nobody needs these
libraries to read a file.
"""

from collections.abc import Mapping
from typing import Any

import jax

from feddr import tree
from feddr.tree import Tree

LEAF, DICT, LIST, TUPLE, NONE = "array", "dict", "list", "tuple", "none"


def describe(a: Tree) -> dict[str, Any]:
    """Return the structure of a tree whose leaves have names of their own (``tree.named``).

    Examples
    --------
    >>> import numpy as np
    >>> describe({"bias": np.zeros(())})
    {'dict': [['bias', {'array': 'bias'}]]}
    """
    return _describe(a, ())


def rebuild(structure: Any, arrays: Mapping[str, Any]) -> Tree:
    """Return the tree with this structure and these arrays by name.

    Raises
    ------
    ValueError
        Where the structure is none that ``describe`` makes, or names an array that is not there, or not all of them.

    Examples
    --------
    >>> rebuild({"list": [{"array": "0"}, {"none": None}]}, {"0": 1.5})
    [1.5, None]
    """
    used: list[str] = []
    try:
        rebuilt = _rebuild(structure, arrays, used)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ValueError("The structure of the parameters is not one that feddr writes.") from None
    if sorted(used) != sorted(arrays):
        raise ValueError(f"The structure has the arrays {sorted(used)}, the file {sorted(arrays)}.")
    return rebuilt


def _describe(a: Tree, path: tuple[Any, ...]) -> dict[str, Any]:
    if a is None:
        return {NONE: None}
    children = jax.tree_util.tree_leaves_with_path(a, is_leaf=lambda node: node is not a)
    if len(children) == 1 and children[0][0] == ():
        return {LEAF: tree.name(path)}
    below = [(key[0], _describe(child, (*path, *key))) for key, child in children]
    if type(a) in (list, tuple):
        return {LIST if type(a) is list else TUPLE: [child for _, child in below]}
    return {DICT: [[_key(key), child] for key, child in below]}


def _key(key: Any) -> str | int:
    """Return the key of a dict, the name of a field, or the place in a sequence."""
    for field in ("key", "name", "idx"):
        if hasattr(key, field):
            value = getattr(key, field)
            return value if type(value) in (str, int) else str(value)
    return str(key)


def _rebuild(structure: Any, arrays: Mapping[str, Any], used: list[str]) -> Tree:
    ((kind, value),) = structure.items()
    if kind == NONE:
        return None
    if kind == LEAF:
        used.append(value)
        return arrays[value]
    if kind == DICT:
        return {key: _rebuild(child, arrays, used) for key, child in value if type(key) in (str, int)}
    if kind not in (LIST, TUPLE):
        raise ValueError(kind)
    children = [_rebuild(child, arrays, used) for child in value]
    return children if kind == LIST else tuple(children)
