"""What a model is: initial parameters and a function of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from numpy.typing import NDArray

from feddr.storage import limits
from feddr.tree import Tree


@dataclass(frozen=True)
class Model:
    """A parametrised function.

    Parameters
    ----------
    init
        From a seed to initial parameters, a tree of arrays.
    apply
        From (parameters, rows of features) to one output, or one row of outputs, for each row: from shape (rows, ...)
        to (rows,) where ``num_outputs`` is 0, and to (rows, num_outputs) otherwise.
    num_outputs
        Width of the output: 0 for a single number, the number of classes otherwise.
    is_linear
        Whether it is ``x . weight + bias``, so that the curvature of a loss is known.
    spec
        Name and arguments of a model of this module, in plain values, with which a saved model is built again; None for
        any other.
    check
        Refuses features, an array of shape (rows, ...), that the model cannot take, such as tokens that it has no
        entry for; shapes are for ``apply`` to refuse. ``Problem.classification`` and ``Problem.regression`` call it.

    Examples
    --------
    >>> import numpy as np
    >>> model = Model(lambda seed: {"weight": np.ones(2)}, lambda params, x: x @ params["weight"], num_outputs=0)
    >>> model.apply(model.init(0), np.ones((3, 2))).tolist()
    [2.0, 2.0, 2.0]
    """

    init: Callable[[int], Tree]
    apply: Callable[[Tree, Any], jax.Array]
    num_outputs: int
    is_linear: bool = False
    spec: Mapping[str, Any] | None = None
    check: Callable[[NDArray[Any]], None] | None = None


def check_sizes(what: str, sizes: Sequence[int]) -> None:
    """Refuse sizes that are not whole numbers of 1 or more."""
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise ValueError(f"{what} must be positive whole numbers, got {list(sizes)}.")


def check_parameters(what: str, count: int) -> None:
    """Refuse a model with more parameters than memory can hold."""
    limits.check_memory(what, 8 * count * limits.COPIES, "take smaller widths")
