"""From the words of an estimator to g: penalty, strength, groups and constraint, on all weights but the intercept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from feddr.prox import L1, Box, ElasticNet, GroupL2, Regulariser, SquaredL2, Zero, leave
from feddr.prox.regulariser import Scalar
from feddr.tree import Tree

PENALTIES = ("l1", "l2", "elasticnet", "group", "none")
BIAS = "bias"


@dataclass(frozen=True)
class Constrained:
    """A penalty on weights within bounds: g(x), and infinity where a weight is below ``lower`` or above ``upper``.

    For a penalty that is a sum over single weights, the prox is that of g, brought into the bounds; for one over
    groups, with weights of 0 or more, it is the prox of g at the positive part.

    Examples
    --------
    >>> inside = Constrained(L1(0.5), lower=0.0, upper=1.0, grouped=False)
    >>> inside.prox({"weight": np.array([-3.0, 1.25, 4.0])}, 1.0)["weight"].tolist()
    [0.0, 0.75, 1.0]
    """

    g: Regulariser
    lower: float
    upper: float
    grouped: bool

    def value(self, x: Tree) -> jax.Array:
        """Return g(x) within the bounds, infinity outside."""
        return self.g.value(x) + self._box.value(x)

    def prox(self, x: Tree, eta: Scalar) -> Tree:
        """Return the prox of the sum."""
        return self.g.prox(self._box.prox(x, eta), eta) if self.grouped else self._box.prox(self.g.prox(x, eta), eta)

    @property
    def _box(self) -> Box:
        return Box(self.lower, self.upper, mask=leave(BIAS))


def regulariser(
    penalty: str,
    strength: float,
    l1_ratio: float,
    groups: Sequence[Sequence[int]] | None,
    constraint: Any,
    shape: tuple[int, ...],
    offset: int,
) -> Regulariser:
    """Return g for weights of shape (features,) or (features, classes), which begin at ``offset`` among all parameters.

    Raises
    ------
    ValueError
        Where a word or a number is none that an estimator knows.

    Examples
    --------
    >>> g = regulariser("elasticnet", 1.0, 0.5, None, None, (4,), 1)
    >>> float(g.value({"bias": np.array(9.0), "weight": np.ones(4)}))
    3.0
    """
    if penalty not in PENALTIES:
        raise ValueError(f"penalty must be one of {', '.join(PENALTIES)}, got {penalty!r}.")
    if not np.isfinite(strength) or strength < 0:
        raise ValueError(f"strength must be a number of 0 or more, got {strength!r}.")
    if not 0 <= l1_ratio <= 1:
        raise ValueError(f"l1_ratio must lie from 0 to 1, got {l1_ratio!r}.")
    if groups is not None and penalty != "group":
        raise ValueError(f'groups belong to penalty="group", got penalty={penalty!r}; leave them out.')
    lower, upper = _bounds(constraint)
    mask = leave(BIAS)
    g: Regulariser
    if strength == 0 or penalty == "none":
        g = Zero()
    elif penalty == "l1":
        g = L1(strength, mask=mask)
    elif penalty == "l2":
        g = SquaredL2(strength, mask=mask)
    elif penalty == "elasticnet":
        g = ElasticNet(strength * l1_ratio, strength * (1 - l1_ratio), mask=mask)
    else:
        g = GroupL2(strength, _indices(groups, shape, offset), weighted=True)
    if constraint is None:
        return g
    grouped = isinstance(g, GroupL2)
    if grouped and (lower, upper) != (0.0, np.inf):
        raise ValueError(f'penalty="group" goes with the constraint "nonnegative" alone, got {constraint!r}.')
    return Constrained(g, lower, upper, grouped)


def _bounds(constraint: Any) -> tuple[float, float]:
    if constraint is None:
        return -np.inf, np.inf
    if constraint == "nonnegative":
        return 0.0, np.inf
    try:
        lower, upper = (float(bound) for bound in constraint)
    except (TypeError, ValueError):
        raise ValueError(
            f'constraint must be None, "nonnegative" or the bounds (lower, upper), got {constraint!r}.'
        ) from None
    if not lower <= upper:
        raise ValueError(f"constraint must be (lower, upper) with lower <= upper, got {constraint!r}.")
    return lower, upper


def _indices(groups: Sequence[Sequence[int]] | None, shape: tuple[int, ...], offset: int) -> list[list[int]]:
    """Return groups of features as groups of parameters; without any, each feature with its weights for all classes."""
    places = offset + np.arange(int(np.prod(shape))).reshape(shape[0], -1)
    chosen = [[j] for j in range(shape[0])] if groups is None else [list(group) for group in groups]
    for group in chosen:
        for j in group:
            if not isinstance(j, int | np.integer) or not 0 <= j < shape[0]:
                raise ValueError(f"groups must be lists of features from 0 to {shape[0] - 1}, got {j!r}.")
    return [places[group].ravel().tolist() for group in chosen]
