"""The table of regularisers under test, each on one tree, beside its reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import prox
from feddr.prox import Regulariser, leave
from feddr.tree import Tree
from tests.prox.references import (
    Reference,
    box,
    elastic_net,
    group_l2,
    l1,
    l2,
    linf,
    non_negative,
    norm_ball,
    nuclear,
    side_by_side,
    simplex,
    translated,
    zero,
)

TREE = {
    "layer0": {"bias": np.zeros(2), "weight": np.zeros((3, 2))},
    "layer1": [np.zeros((2, 3))],
    "scale": np.zeros(()),
}


def flat(x: Tree) -> NDArray[Any]:
    """Return the entries of a tree as one NumPy vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])


def unflat(v: NDArray[Any], like: Tree) -> Tree:
    """Return the tree like ``like`` with the entries v."""
    leaves, structure = jax.tree.flatten(like)
    pieces = np.split(v, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(structure, [p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])


N = flat(TREE).size
AT: Any = unflat(np.arange(N), TREE)
"""The index of each entry in the ravelled tree."""
WEIGHT, HEAD = AT["layer0"]["weight"], AT["layer1"][0]
NO_BIAS = ~np.isin(np.arange(N), AT["layer0"]["bias"])
SOME = np.random.default_rng(7).random(N) < 0.6
ALL = np.ones(N, bool)


@dataclass(frozen=True)
class Case:
    name: str
    g: Regulariser
    reference: Reference
    inside: NDArray[np.bool_] = field(default_factory=lambda: ALL)  # the entries that g regularises

    @property
    def is_set(self) -> bool:
        return self.reference.support is not None


def bare_and_masked(name: str, make: Callable[..., Regulariser], reference: Reference) -> list[Case]:
    """Return a regulariser of the whole vector on a tree, bare and with a mask that cuts through its leaves."""
    return [
        Case(f"{name}-tree", make(mask=None), reference),
        Case(f"{name}-some", make(mask=unflat(SOME, TREE)), reference, inside=SOME),
    ]


def positions(at: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where the entries with these indices, if they are inside, stand in the vector of all that are inside."""
    return np.asarray((np.cumsum(inside) - 1)[at[inside[at]]])


STRENGTHS = np.random.default_rng(3).uniform(0, 2, N)
LOWER = np.random.default_rng(4).uniform(-4, 0, N)
SHIFT = np.random.default_rng(5).normal(size=N)
LISTS = [[0, 3, 12, 1], [4], [10, 5, 8]]
ROWS, COLUMNS = [*WEIGHT, *HEAD], [*WEIGHT.T, *HEAD.T]

CASES: list[Case] = [
    *bare_and_masked("Zero", lambda mask: prox.Zero(mask=mask), zero()),
    *bare_and_masked("L1", lambda mask: prox.L1(0.7, mask=mask), l1(0.7)),
    *bare_and_masked("L2", lambda mask: prox.L2(1.3, mask=mask), l2(1.3)),
    *bare_and_masked("SquaredL2", lambda mask: prox.SquaredL2(0.8, mask=mask), elastic_net(0.0, 0.8)),
    *bare_and_masked("ElasticNet", lambda mask: prox.ElasticNet(0.5, 0.3, mask=mask), elastic_net(0.5, 0.3)),
    *bare_and_masked("LInf", lambda mask: prox.LInf(2.5, mask=mask), linf(2.5)),
    *bare_and_masked("Box", lambda mask: prox.Box(-1.5, 0.25, mask=mask), box(-1.5, 0.25)),
    *bare_and_masked("NonNegative", lambda mask: prox.NonNegative(mask=mask), non_negative()),
    *bare_and_masked("Simplex", lambda mask: prox.Simplex(2.5, mask=mask), simplex(2.5)),
    *bare_and_masked("L1Ball", lambda mask: prox.L1Ball(3.0, mask=mask), norm_ball(3.0, 1)),
    *bare_and_masked("L2Ball", lambda mask: prox.L2Ball(2.0, mask=mask), norm_ball(2.0, 2)),
    *bare_and_masked("Scaled", lambda mask: prox.Scaled(prox.LInf(0.5, mask=mask), 3.0), linf(1.5)),
    *bare_and_masked(
        "Translated", lambda mask: prox.Translated(prox.L1(0.7, mask=mask), 1.5), translated(l1(0.7), 1.5)
    ),
    Case("L1-weights", prox.L1(unflat(STRENGTHS, TREE)), l1(STRENGTHS)),
    Case(
        "L1-weights-some",
        prox.L1(unflat(STRENGTHS, TREE), mask=unflat(SOME, TREE)),
        l1(STRENGTHS[SOME]),
        inside=SOME,
    ),
    Case("Box-bounds", prox.Box(unflat(LOWER, TREE), 1.0), box(LOWER, 1.0)),
    Case(
        "Box-bounds-some",
        prox.Box(unflat(LOWER, TREE), 1.0, mask=unflat(SOME, TREE)),
        box(LOWER[SOME], 1.0),
        inside=SOME,
    ),
    Case(
        "Translated-ball", prox.Translated(prox.L2Ball(2.0), unflat(SHIFT, TREE)), translated(norm_ball(2.0, 2), SHIFT)
    ),
    Case("GroupL2-lists", prox.GroupL2(1.1, LISTS), group_l2(1.1, LISTS)),
    Case("GroupL2-lists-weighted", prox.GroupL2(0.9, LISTS, weighted=True), group_l2(0.9, LISTS, True)),
    Case("GroupL2-rows", prox.GroupL2(1.1), group_l2(1.1, ROWS)),
    Case("GroupL2-columns", prox.GroupL2(1.1, "columns", weighted=True), group_l2(1.1, COLUMNS, True)),
    Case("Nuclear", prox.Nuclear(1.4), nuclear(1.4, [WEIGHT, HEAD])),
    Case("Nuclear-leave", prox.Nuclear(1.4, mask=leave("layer1")), nuclear(1.4, [WEIGHT])),
    *(
        Case(
            f"GroupL2-{name}-some",
            prox.GroupL2(1.1, cast(Any, groups), weighted=True, mask=unflat(SOME, TREE)),
            group_l2(1.1, [positions(np.asarray(group), SOME) for group in indices], True),
            inside=SOME,
        )
        for name, groups, indices in (("lists", LISTS, LISTS), ("rows", "rows", ROWS), ("columns", "columns", COLUMNS))
    ),
    Case(
        "Parts",
        prox.Parts(
            {"layer0": prox.L2(1.2), "layer0.bias": prox.L1(0.6), "layer1": prox.Nuclear(0.9)},
        ),
        side_by_side(
            [
                (WEIGHT.ravel(), l2(1.2)),
                (AT["layer0"]["bias"], l1(0.6)),
                (HEAD.ravel(), nuclear(0.9, [HEAD - HEAD.min()])),
            ]
        ),
    ),
]
SETS = [case for case in CASES if case.is_set]
FINITE = [case for case in CASES if not case.is_set]
# One of each kind, for what depends on the formula and little on the mask.
KINDS = [case for case in CASES if not case.name.endswith("-tree")]
