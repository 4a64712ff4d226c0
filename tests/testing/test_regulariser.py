"""Our own regularisers keep the laws of ``feddr.testing``, and one that breaks a law is caught by its name."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddr import prox, tree
from feddr.prox import Regulariser
from feddr.testing import check_regulariser
from tests.prox.cases import KINDS, TREE, Case

QUICK = ("L1-some", "Parts")


@pytest.mark.parametrize(
    "case",
    [case if case.name in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in KINDS],
    ids=lambda case: case.name,
)
def test_ours_keep_the_laws(case: Case) -> None:
    check_regulariser(case.g, TREE)


def test_a_tree_and_an_array_of_its_own() -> None:
    check_regulariser(prox.L1(0.3, mask=prox.leave("bias")))
    check_regulariser(prox.NonNegative(), np.zeros(4))


@dataclass(frozen=True)
class L1:
    """A regulariser to break: the l1 norm."""

    def value(self, x: Any) -> Any:
        return sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(x))

    def prox(self, x: Any, eta: Any) -> Any:
        return tree.map(lambda a: jnp.sign(a) * jnp.maximum(jnp.abs(a) - eta, 0).astype(a.dtype), x)


class Listed(L1):
    def prox(self, x: Any, eta: Any) -> Any:
        return jax.tree.leaves(super().prox(x, eta))


class Flat(L1):
    def prox(self, x: Any, eta: Any) -> Any:
        return tree.map(jnp.ravel, super().prox(x, eta))


class Narrow(L1):
    def prox(self, x: Any, eta: Any) -> Any:
        return tree.map(lambda a: a.astype(np.float32), super().prox(x, eta))


class Outside(L1):
    def value(self, x: Any) -> Any:
        return super().value(x) + jnp.inf


class Vector(L1):
    def value(self, x: Any) -> Any:
        return jnp.stack([jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(x)])


class Branching(L1):
    def prox(self, x: Any, eta: Any) -> Any:
        return x if eta == 0 else super().prox(x, eta)


class KnowsTheCompiler(L1):
    def prox(self, x: Any, eta: Any) -> Any:
        traced = isinstance(jax.tree.leaves(x)[0], jax.core.Tracer)
        return super().prox(x, eta * (1.0 + 0.1 * traced))


class TooFar(L1):
    def prox(self, x: Any, eta: Any) -> Any:
        return super().prox(x, 2.0 * eta)


class IgnoresEta(L1):
    """Right for eta = 0.1 and larger ones only, where a step of its own is no less."""

    def prox(self, x: Any, eta: Any) -> Any:
        return super().prox(x, jnp.maximum(eta, 0.1))


class Concave(L1):
    """-||x||^2 / 20, whose prox moves away from zero: it is no prox of a convex g."""

    def value(self, x: Any) -> Any:
        return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x)) / 20

    def prox(self, x: Any, eta: Any) -> Any:
        return tree.map(lambda a: a / (1 - eta / 10), x)


BROKEN: list[tuple[Regulariser, str]] = [
    (Listed(), "'structure': prox returns PyTreeDef"),
    (Flat(), r"'structure': prox returns float32\[12\] for 'weight', which is float32\[4, 3\]"),
    (Narrow(), r"'structure': prox returns float32\[3\] for 'bias', which is float64\[3\]"),
    (Outside(), r"'finite value': g\(prox\(x\)\) is inf"),
    (Vector(), r"'finite value': value returns shape \(2,\)"),
    (Branching(), "'compiled': jax.jit refuses it, TracerBoolConversionError"),
    (KnowsTheCompiler(), r"'compiled': .* is [\d.]+, at most"),
    (TooFar(), r"'optimality': with p = prox\(x, 0.1\), .* is [\d.e-]+, at most"),
    (IgnoresEta(), r"'small steps': .* is [\d.e-]+, at most"),
]


@pytest.mark.parametrize(("g", "message"), BROKEN, ids=[type(g).__name__ for g, _ in BROKEN])
def test_a_broken_law_is_named(g: Regulariser, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_regulariser(g)


def test_expansion_is_named() -> None:
    """Which of the two laws is met first depends on the points."""
    with pytest.raises(AssertionError, match=r"'(optimality|non-expansiveness)': .* is [\d.e-]+, at most"):
        check_regulariser(Concave())
