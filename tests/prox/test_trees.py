"""A regulariser sees one vector, whatever the tree: structure, masks, types and compilation change nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from feddr import prox
from feddr.prox import Regulariser, leave, soft_threshold
from tests.prox.cases import KINDS, LISTS, NO_BIAS, SOME, TREE, Case, N, flat, unflat

pytestmark = pytest.mark.usefixtures("x64")
each_kind = pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
WHOLE: list[Any] = [
    prox.Zero(),
    prox.L1(0.7),
    prox.L2(1.3),
    prox.SquaredL2(0.8),
    prox.ElasticNet(0.5, 0.3),
    prox.LInf(2.5),
    prox.GroupL2(1.1, LISTS, weighted=True),
    prox.Box(-1.0, 0.5),
    prox.NonNegative(),
    prox.Simplex(2.0),
    prox.L1Ball(3.0),
    prox.L2Ball(2.0),
]
each_whole = pytest.mark.parametrize("g", WHOLE, ids=repr)
SEPARABLE: list[Regulariser] = [
    prox.L1(0.7),
    prox.L1(0.7, mask=leave("bias")),
    prox.L1(unflat(np.ones(N), TREE), mask=unflat(SOME, TREE)),
    prox.SquaredL2(0.8),
    prox.ElasticNet(0.5, 0.3),
    prox.Box(-1.0, 0.5),
    prox.NonNegative(),
]


def random(seed: int, dtype: type = np.float64) -> Any:
    return unflat(np.random.default_rng(seed).normal(scale=3, size=N).astype(dtype), TREE)


@each_whole
def test_prox_and_value_do_not_depend_on_the_tree(g: Any) -> None:
    x = random(0)
    u = g.prox(x, 0.7)
    np.testing.assert_allclose(flat(u), g.prox(flat(x), 0.7), 0, 1e-14)
    np.testing.assert_allclose(g.value(u), g.value(flat(u)), 1e-14)


@each_whole
def test_masks_of_every_kind_agree(g: Any) -> None:
    x = random(1)
    named = replace(g, mask=leave("bias")).prox(x, 0.7)
    by_leaf = {"layer0": {"bias": False, "weight": True}, "layer1": [True], "scale": True}
    for mask in (by_leaf, unflat(NO_BIAS, TREE), lambda name: name != "layer0.bias"):
        np.testing.assert_array_equal(flat(replace(g, mask=mask).prox(x, 0.7)), flat(named))
    np.testing.assert_allclose(flat(named), replace(g, mask=NO_BIAS).prox(flat(x), 0.7), 0, 1e-14)


@pytest.mark.parametrize("g", [g for g in WHOLE if not isinstance(g, prox.GroupL2)], ids=repr)
def test_mask_restricts_to_the_vector_of_what_it_includes(g: Any) -> None:
    x = random(2)
    h = replace(g, mask=unflat(SOME, TREE))
    u = flat(h.prox(x, 0.7))
    np.testing.assert_allclose(u[SOME], g.prox(flat(x)[SOME], 0.7), 0, 1e-14)
    np.testing.assert_array_equal(u[~SOME], flat(x)[~SOME])
    wild = np.where(SOME, u, 1e6)
    np.testing.assert_allclose(h.value(unflat(wild, TREE)), g.value(u[SOME]), 1e-14)


@each_kind
def test_jit_equals_eager(case: Case) -> None:
    x = random(3)
    value, u = jax.jit(lambda x, eta: (case.g.value(x), case.g.prox(x, eta)))(x, 0.4)
    np.testing.assert_allclose(flat(u), flat(case.g.prox(x, 0.4)), 0, 1e-13)
    np.testing.assert_allclose(value, case.g.value(x), 1e-13)


@each_kind
def test_float32_is_accurate(case: Case) -> None:
    """Also when the same arrays served in float64 before; and the prox of a constraint is in its set."""
    exact = flat(case.g.prox(random(4), 0.4))
    with jax.enable_x64(False):
        u, value = jax.jit(lambda x: (u := case.g.prox(x, 0.4), case.g.value(u)))(random(4, np.float32))
    assert np.isfinite(value)
    np.testing.assert_allclose(flat(u), exact, 1e-5, 1e-5)


@each_kind
@pytest.mark.parametrize(
    ("given", "wide", "kept"),
    [(np.float32, False, np.float32), (np.float32, True, np.float32), (np.float64, True, np.float64)],
)
def test_types_and_shapes_are_kept(case: Case, given: type, wide: bool, kept: type) -> None:
    """Also float32 ones when 64-bit mode is on and eta is a float64 array."""
    with jax.enable_x64(wide):
        x = random(5, given)
        u = jax.eval_shape(case.g.prox, x, np.float64(0.4))
        jax.tree.map(lambda new, old: np.testing.assert_equal((new.dtype, new.shape), (kept, old.shape)), u, x)
        assert jax.eval_shape(case.g.value, x).shape == ()


def test_leaves_of_different_types_keep_theirs() -> None:
    x = {"a": np.ones(3, np.float32), "b": np.ones(4, np.float64)}
    for g in WHOLE:
        if not isinstance(g, prox.GroupL2):
            u = jax.eval_shape(g.prox, x, 0.4)
            assert (u["a"].dtype, u["b"].dtype) == (np.float32, np.float64)


@pytest.mark.parametrize("g", SEPARABLE, ids=repr)
def test_separable_prox_does_not_ravel(g: Regulariser) -> None:
    """These sit in compiled loops, so they must stay entry by entry, for the compiler to fuse."""
    text = str(jax.make_jaxpr(g.prox)(random(6), 0.4))
    assert not any(word in text for word in ("concatenate", "reshape", "gather", "scatter", "slice"))


@pytest.mark.parametrize(
    "make",
    [prox.L1, prox.L2, prox.SquaredL2, prox.LInf, prox.GroupL2, prox.Nuclear, lambda s: prox.ElasticNet(s, s)],
)
def test_no_strength_and_no_signal(make: Callable[[float], Regulariser]) -> None:
    """Strength 0 leaves x alone, and 0 is a fixed point; neither is a division by zero."""
    x, origin = random(7), unflat(np.zeros(N), TREE)
    np.testing.assert_allclose(flat(make(0.0).prox(x, 0.4)), flat(x), 0, 1e-14)
    for strength in (0.0, 1.0):
        np.testing.assert_array_equal(flat(make(strength).prox(origin, 0.4)), 0)
        assert make(strength).value(origin) == 0


@pytest.mark.parametrize("make", [prox.L1Ball, prox.L2Ball, lambda radius: prox.Box(-radius, radius)])
def test_a_point_inside_is_left_as_it_is(make: Callable[[float], Regulariser]) -> None:
    """Bit by bit, also in float32, where the square of a radius and the radius are rounded apart."""
    x = np.random.default_rng(0).uniform(-0.2, 0.2, 5).astype(np.float32)
    with jax.enable_x64(False):
        for radius in np.linspace(1.01, 4.93, 20).tolist():
            np.testing.assert_array_equal(np.asarray(make(radius).prox(x, 1.0)), x)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_simplex_keeps_its_digits_far_away(offset: float) -> None:
    """A common shift does not change the projection: (1/2, 1/4, 1/4, -9) goes to (1/2, 1/4, 1/4, 0) from anywhere."""
    u = prox.Simplex().prox(offset + np.array([0.5, 0.25, 0.25, -9.0]), 1.0)
    np.testing.assert_allclose(u, [0.5, 0.25, 0.25, 0.0], 0, 1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_indicators_forgive_rounding_and_nothing_else(dtype: type) -> None:
    eps = float(np.finfo(dtype).eps)
    unit: Any = np.array([0.0, 1.0], dtype)
    for g in (prox.Simplex(), prox.L1Ball(1.0), prox.L2Ball(1.0), prox.Box(0.0, 1.0)):
        assert g.value(unit) == 0
        assert g.value(unit * dtype(1 + 20 * eps)) == 0
        assert g.value(unit * dtype(1 + 500 * eps)) == np.inf
        assert g.value(unit * dtype(np.nan)) == np.inf
    assert prox.NonNegative().value(np.array([1, -20 * eps], dtype)) == 0
    assert prox.NonNegative().value(np.array([1, -500 * eps], dtype)) == np.inf
    assert prox.Simplex().value(unit * dtype(1 - 500 * eps)) == np.inf


def test_leave() -> None:
    mask = leave("bias", "scale")
    assert [mask(name) for name in ("layer0.weight", "layer0.bias", "scale")] == [True, False, False]
    assert repr(mask) == "leave('bias', 'scale')"
    assert mask == leave("bias", "scale")


def test_parts_give_a_leaf_to_the_longest_name() -> None:
    x = random(8)
    g = prox.Parts({"layer0": prox.L2(1.2, mask=leave("layer0.bias")), "layer1": prox.L1(0.3)})
    u = g.prox(x, 0.5)
    np.testing.assert_array_equal(u["layer0"]["bias"], x["layer0"]["bias"])
    np.testing.assert_array_equal(u["layer0"]["weight"], prox.L2(1.2).prox(x["layer0"]["weight"], 0.5))
    np.testing.assert_array_equal(u["layer1"][0], soft_threshold(x["layer1"][0], 0.15))
    np.testing.assert_array_equal(u["scale"], x["scale"])
    longer = prox.Parts({**g.parts, "layer0.bias": prox.Box(0.0, 0.0)}).prox(x, 0.5)
    np.testing.assert_array_equal(longer["layer0"]["bias"], 0)
    np.testing.assert_array_equal(longer["layer0"]["weight"], u["layer0"]["weight"])


def test_translated_returns_exactly_to_its_shift() -> None:
    """A coordinate that the threshold catches is the shift itself, bit by bit, and one in no part is itself."""
    x, shift = random(9), random(10)
    u = prox.Translated(prox.L1(100.0, mask=leave("bias")), shift).prox(x, 1.0)
    np.testing.assert_array_equal(flat(u), np.where(NO_BIAS, flat(shift), flat(x)))


@pytest.mark.parametrize(
    ("g", "text"),
    [
        (prox.Zero(), "Zero()"),
        (prox.L1(0.01), "L1(strength=0.01)"),
        (prox.L1(0.01, mask=leave("bias")), "L1(strength=0.01, mask=leave('bias'))"),
        (prox.L1({"w": np.ones((3, 2))}), "L1(strength={'w': float64[3, 2]})"),
        (prox.Simplex(), "Simplex(radius=1.0)"),
        (prox.Scaled(prox.L2(1.0), 2.0), "Scaled(g=L2(strength=1.0), factor=2.0)"),
        (prox.Parts({"a": prox.L2(1.0)}), "Parts(parts={'a': L2(strength=1.0)})"),
    ],
)
def test_repr(g: Regulariser, text: str) -> None:
    assert repr(g) == text
    assert isinstance(g, Regulariser)


def test_equal_regularisers_are_equal_and_hash_alike() -> None:
    """So that one may be a static argument of a compiled function."""
    assert prox.GroupL2(0.1, [[0, 1], [2]], mask=leave("a")) == prox.GroupL2(0.1, ((0, 1), (2,)), mask=leave("a"))
    assert len({prox.L1(0.1), prox.L1(0.1), prox.GroupL2(0.1, [[0]]), prox.GroupL2(0.1, [[0]])}) == 2
