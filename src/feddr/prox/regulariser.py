"""What a regulariser is, and what all of them share: checks of strength and radius, sparsity, a short repr."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.display import short
from feddr.prox.masks import Mask, included, is_real
from feddr.tree import Tree

Scalar = float | jax.Array
"""A Python float or a scalar array, traced or not."""

Prox = Callable[[Tree, Any], Tree]
"""From (x, eta) to prox_{eta g}(x)."""


@runtime_checkable
class Regulariser(Protocol):
    """A closed convex function g of the whole parameter tree, known by its value and its proximal operator.

    Examples
    --------
    >>> import feddr
    >>> g = feddr.prox.L1(0.5)
    >>> isinstance(g, Regulariser)
    True
    >>> float(g.value(np.array([2.0, -1.0]))), g.prox(np.array([2.0, -1.0]), 1.0).tolist()
    (1.5, [1.5, -0.5])
    """

    def value(self, x: Tree) -> jax.Array:
        """Return g(x), a scalar; an indicator is 0 on its set and inf elsewhere."""
        ...

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return argmin_u g(u) + ||u - x||^2 / (2 eta), a tree like x; whole numbers become floats."""
        ...


def penalised(g: Regulariser, x: Tree) -> list[NDArray[np.bool_]]:
    """Return for each leaf of x what g acts on, as ``included`` does.

    A regulariser whose mask does not say it all has a method of this name; one with neither acts on everything.
    """
    own = getattr(g, "penalised", None)
    return included(getattr(g, "mask", None), x) if own is None else own(x)


def sparsity(g: Regulariser, x: Tree) -> float:
    """Return the share of exact zeros among the entries of x that g acts on.

    Examples
    --------
    >>> import feddr
    >>> x = {"weight": np.array([0.0, 2.0]), "bias": np.array([0.0, 0.0])}
    >>> sparsity(feddr.prox.L1(0.1), x), sparsity(feddr.prox.L1(0.1, mask=feddr.prox.leave("bias")), x)
    (0.75, 0.5)
    """
    zeros = entries = 0
    for keep, leaf in zip(penalised(g, x), tree.leaves(x), strict=True):
        kept = np.broadcast_to(keep, np.shape(leaf))
        zeros, entries = zeros + int(np.sum(kept & (np.asarray(leaf) == 0))), entries + int(np.sum(kept))
    return zeros / entries if entries else math.nan


def check(owner: object, positive: bool = False, **values: Any) -> None:
    """Raise ValueError unless every value is a finite number, at least 0 or, if so asked, above 0."""
    for name, value in values.items():
        number = np.asarray(value)
        if number.ndim or not is_real(number) or not 0 <= number < math.inf or (positive and number == 0):
            bound, remedy = ("above 0", "") if positive else ("of 0 or more", ", 0 for none")
            raise ValueError(
                f"{type(owner).__name__} needs a finite {name} {bound}, got {value}; give a number{remedy}."
            )


def eta_times(owner: object, eta: Scalar, strength: Any) -> Any:
    """Return eta strength, and raise ValueError where eta is known and not a finite number of 0 or more."""
    if not isinstance(eta, jax.core.Tracer):
        check(owner, eta=eta)
        eta = float(eta)
    with np.errstate(over="ignore"):  # a product beyond the largest float is infinity, which does what it should
        return eta * strength


def brief(self: Any) -> str:
    """Return the repr of a regulariser in one short line, without the fields that are None."""
    values = {field.name: getattr(self, field.name) for field in fields(self)}
    shown = (f"{name}={short(value)}" for name, value in values.items() if value is not None)
    return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class HasStrength:
    """The fields of a regulariser with one strength, which is a number of 0 or more."""

    strength: float
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, strength=self.strength)

    __repr__ = brief


@dataclass(frozen=True, repr=False)
class HasRadius:
    """The fields of a set with a radius, which is a number above 0."""

    radius: float
    _: KW_ONLY
    mask: Mask = None

    def __post_init__(self) -> None:
        check(self, positive=True, radius=self.radius)

    __repr__ = brief
