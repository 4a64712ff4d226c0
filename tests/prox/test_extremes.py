"""At the ends of the number line: huge and tiny numbers, eta = 0, other types than floats, nothing at all, a NaN."""

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddr import prox
from tests.prox.cases import FINITE, KINDS, TREE, Case, N, flat, unflat

pytestmark = pytest.mark.usefixtures("x64")

NORMS: dict[str, Any] = {
    "L1": prox.L1(0.7),
    "L2": prox.L2(1.3),
    "LInf": prox.LInf(2.5),
    "GroupL2": prox.GroupL2(1.1),
    "GroupL2-columns": prox.GroupL2(1.1, "columns", weighted=True),
    "GroupL2-lists": prox.GroupL2(1.1, [[0, 3, 1], [4], [5, 2]]),
    "Nuclear": prox.Nuclear(1.4),
}
SETS: dict[str, Callable[[float], Any]] = {
    "Box": lambda c: prox.Box(-1.5 * c, 0.25 * c),
    "Simplex": lambda c: prox.Simplex(2.5 * c),
    "L1Ball": lambda c: prox.L1Ball(3.0 * c),
    "L2Ball": lambda c: prox.L2Ball(2.0 * c),
}
PENALTIES = [case for case in FINITE if not case.name.endswith("-tree")]
# Powers of two that take numbers below 8 to the largest floats, and those above 1/8 close to the smallest normal ones.
ENDS = [(np.float64, 2.0**1021), (np.float64, 2.0**-1005), (np.float32, 2.0**125), (np.float32, 2.0**-110)]
each_end = pytest.mark.parametrize(
    ("dtype", "c"), ENDS, ids=["float64-up", "float64-down", "float32-up", "float32-down"]
)
matrices = hnp.arrays(np.int64, (2, 3), elements=st.integers(-63, 63)).map(lambda eighths: eighths / 8)
few = settings(deadline=None, max_examples=3)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with np.errstate(all="raise", under="ignore"):
        yield


def point(seed: int, dtype: Any = np.float64) -> Any:
    return unflat(np.random.default_rng(seed).normal(scale=3, size=N).astype(dtype), TREE)


@pytest.mark.parametrize("name", NORMS)
@each_end
@given(x=matrices)
@few
def test_the_prox_of_a_norm_scales_with_its_argument(name: str, dtype: Any, c: float, x: Any) -> None:
    """prox at c x with c eta is c times prox at x, for a power of two to the last digit."""
    g, x = NORMS[name], x.astype(dtype)
    u, tolerance = np.asarray(g.prox(x, 0.5)), 1e-5 if name == "Nuclear" else 0
    np.testing.assert_allclose(np.asarray(g.prox(dtype(c) * x, 0.5 * c)) / dtype(c), u, tolerance, tolerance)
    with np.errstate(over="ignore"):
        value = np.asarray(g.value(dtype(c / 64) * x)) / dtype(c / 64)
    np.testing.assert_allclose(value, g.value(x), np.finfo(dtype).eps * 10)


@pytest.mark.parametrize("name", SETS)
@each_end
@given(x=matrices)
@few
def test_a_projection_scales_with_its_set(name: str, dtype: Any, c: float, x: Any) -> None:
    g, larger, x = SETS[name](1.0), SETS[name](c), x.astype(dtype)
    u = np.asarray(larger.prox(dtype(c) * x, 1.0))
    np.testing.assert_array_equal(u / dtype(c), g.prox(x, 1.0))
    assert larger.value(u) == 0
    np.testing.assert_allclose(np.asarray(larger.prox(u, 1.0)) / c, u / c, 0, 4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_floats_end_in_a_small_set(name: str, dtype: Any) -> None:
    """Also where the difference of two entries, and the norm of all, are larger than the largest float."""
    g, top = SETS[name](1.0), np.finfo(dtype).max
    u = np.asarray(g.prox(np.array([[top, -top, top], [0, top, 1]], dtype), 1.0))
    assert g.value(u) == 0
    expected: dict[str, Any] = {
        "Box": [[0.25, -1.5, 0.25], [0, 0.25, 0.25]],
        "Simplex": np.array([[1, 0, 1], [0, 1, 0]]) * 2.5 / 3,
        "L1Ball": np.array([[1, -1, 1], [0, 1, 0]]) * 3 / 4,
        "L2Ball": np.array([[1, -1, 1], [0, 1, 0]]),
    }
    np.testing.assert_allclose(u, expected[name], 1e-6, 1e-30)


@pytest.mark.parametrize("case", PENALTIES, ids=lambda case: case.name)
def test_no_step_moves_nothing(case: Case) -> None:
    """Nor does one that is not a normal float32 any more, compiled or not."""
    x = point(0, np.float32)
    compiled = jax.jit(case.g.prox)
    tolerance = 1e-5 if "Nuclear" in case.name or "Parts" in case.name else 0
    for u in (case.g.prox(x, 0.0), *(compiled(x, np.float32(eta)) for eta in (0.0, 1e-45, 1e-39))):
        np.testing.assert_allclose(flat(u), flat(x), tolerance, tolerance)


@pytest.mark.parametrize("case", PENALTIES, ids=lambda case: case.name)
def test_a_step_without_end_leaves_the_minimum(case: Case) -> None:
    """Also where eta times strength is larger than the largest float; there is no warning."""
    for dtype, eta in ((np.float64, 5e307), (np.float32, np.float64(5e307)), (np.float32, 3e38)):
        u = case.g.prox(point(1, dtype), eta)
        assert np.isfinite(flat(u)).all()
        least = case.g.value(u)
        assert least <= 1e-6 * abs(case.g.value(point(1, dtype)))


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_])
def test_whole_numbers_are_numbers(case: Case, dtype: Any) -> None:
    """Nothing is truncated: neither the result nor the strength, the bounds or the shift."""
    whole = unflat(np.random.default_rng(2).integers(0, 9, N).astype(dtype), TREE)
    real = jax.tree.map(lambda leaf: leaf.astype(np.float64), whole)
    u = case.g.prox(whole, 0.4)
    np.testing.assert_array_equal(flat(u), flat(case.g.prox(real, 0.4)))
    np.testing.assert_array_equal(case.g.value(whole), case.g.value(real))
    np.testing.assert_array_equal(case.g.value(u), case.g.value(case.g.prox(real, 0.4)))


def test_python_numbers_and_lists_of_them_are_numbers() -> None:
    np.testing.assert_allclose(prox.L1(0.5).prox([3, True, -0.25], 1), [2.5, 0.5, 0])
    np.testing.assert_allclose(prox.L2(2.5).prox((3, 4), 1), [1.5, 2])
    swapped = np.array([3, 4], ">f4")
    for x in (swapped, swapped.astype(np.longdouble)):
        np.testing.assert_allclose(prox.L2(2.5).prox(x, 1), [1.5, 2])
    np.testing.assert_allclose(prox.Simplex().prox([2, 2, 0], 1), [0.5, 0.5, 0])
    assert float(prox.SquaredL2(1.0).value([1, 2])) == 2.5


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
def test_halves_are_computed_in_float32(case: Case) -> None:
    dtype: Any = jnp.bfloat16 if case.name.startswith("G") else jnp.float16
    x = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), point(3))
    exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), x)
    u = case.g.prox(x, 0.4)
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(u))
    eps = float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(flat(u).astype(float), flat(case.g.prox(exact, 0.4)), eps, eps)
    np.testing.assert_allclose(case.g.value(u).astype(float), case.g.value(case.g.prox(exact, 0.4)), 4 * eps)


def test_many_halves_have_a_norm() -> None:
    ones = jnp.ones(10**5, jnp.float16)
    np.testing.assert_allclose(prox.L2(1.0).value(ones), np.sqrt(1e5), 1e-3)
    assert prox.L2Ball(400.0).value(ones) == 0
    np.testing.assert_allclose(prox.L2(31.6227766).prox(ones, 1.0)[0].astype(float), 0.9, 1e-3)


@pytest.mark.parametrize(
    "g", [*NORMS.values(), prox.Zero(), prox.SquaredL2(1.0), *(make(1.0) for make in SETS.values())], ids=repr
)
def test_nothing_and_one_entry(g: Any) -> None:
    """An empty leaf beside others changes nothing; where there is no entry at all, a norm is 0, and no sum is 1."""
    x = np.array([[3.0]])
    empty = np.zeros((0, 3))
    lists = prox.GroupL2(1.1, [[0]])
    g = lists if isinstance(g, prox.GroupL2) and not isinstance(g.groups, str) else g
    u = g.prox({"a": empty, "b": x}, 0.5)
    np.testing.assert_array_equal(u["b"], g.prox(x, 0.5))
    assert u["a"].shape == (0, 3)
    assert g.value({"a": empty, "b": x}) == g.value(x)
    if isinstance(g, prox.GroupL2 | prox.Nuclear):
        return
    nothings: list[Any] = [empty, {}]
    for nothing in nothings:
        assert g.value(nothing) == (np.inf if isinstance(g, prox.Simplex) else 0)
    if isinstance(g, prox.Simplex):
        with pytest.raises(ValueError, match=r"^Simplex\(radius=2\.5\) needs one or more parameters, got none;"):
            g.prox(empty, 0.5)
    else:
        assert g.prox(empty, 0.5).shape == (0, 3)


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_visible(case: Case, bad: float) -> None:
    """A box and an orthant have a nearest point to infinity; nothing else makes a number of what is none."""
    v = flat(point(4))
    at = int(np.flatnonzero(case.inside)[0])
    at = 2 if "Nuclear" in case.name or "GroupL2-rows" in case.name or "columns" in case.name else at
    v[at] = bad
    with np.errstate(all="ignore"):
        u, value = flat(case.g.prox(unflat(v, TREE), 0.4)), float(case.g.value(unflat(v, TREE)))
    if case.name.startswith(("Box", "NonNegative")) and np.isinf(bad):
        assert np.isfinite(u).all() or case.name.startswith("NonNegative")
    else:
        assert not np.isfinite(u).all()
    if case.inside[at] and not case.name.startswith(("Zero", "NonNegative")):
        assert not np.isfinite(value)


def test_infinity_is_not_in_a_box() -> None:
    for g, x in ((prox.Box(0.0, 1.0), np.inf), (prox.Box(0.0, 1.0), -np.inf), (prox.NonNegative(), -np.inf)):
        assert g.value(np.array([0.5, x])) == np.inf


@pytest.mark.parametrize("make", [prox.Simplex, prox.L1Ball, prox.L2Ball])
def test_many_float32_entries_end_in_the_set(make: Any) -> None:
    """Also where many small entries add up to what one large entry leaves, beside which they are rounded."""
    rng, many = np.random.default_rng(5), 200_000
    dense = rng.normal(size=many)
    steep = np.concatenate([[0.0], -0.4999995 - 1e-7 * rng.random(many)])
    with jax.enable_x64(False):
        for x, radius in ((dense, 1.0), (dense, many / 2), (1e-6 * dense, 0.1), (steep, 1.0)):
            g = make(radius)
            u = g.prox(x.astype(np.float32), 1.0)
            assert g.value(u) == 0
            assert make is prox.L2Ball or abs(np.sum(np.abs(u), dtype=np.float64) / radius - 1) < 1e-5


def test_a_projection_has_its_jacobian() -> None:
    """On its support S, the projection onto the simplex is x - mean over S, up to a constant."""
    jacobian = jax.jit(jax.jacrev(lambda x: prox.Simplex().prox(x, 1.0)))(np.array([0.9, 0.7, -5.0]))
    np.testing.assert_allclose(jacobian, np.array([[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]]), 0, 1e-15)
    x = np.array([3.0, -4.0])
    slope: Any = jax.jit(jax.jacfwd(lambda x: prox.L2(2.5).prox(x, 1.0)))(x)
    np.testing.assert_allclose(slope, np.asarray(0.5 * np.eye(2) + 0.5 * np.outer(x, x) / 25), 0, 1e-15)


@pytest.mark.parametrize("eta", [-1.0, np.nan, np.inf, np.ones(2), "1", None, 1j])
def test_a_step_that_is_none(eta: Any) -> None:
    for g in (*NORMS.values(), prox.SquaredL2(1.0), prox.ElasticNet(1.0, 1.0)):
        with pytest.raises(ValueError, match="needs a finite eta of 0 or more, got "):
            g.prox(np.ones((2, 3)), eta)


@pytest.mark.parametrize("x", [np.array([1j]), np.array(["a"]), np.array([None])], ids=["complex", "text", "objects"])
def test_what_is_no_number(x: Any) -> None:
    for call in (prox.L1(0.1).value, prox.L2Ball(1.0).value, lambda x: prox.Zero().prox(x, 1.0)):
        with pytest.raises(TypeError, match=rf"^A regulariser acts on real numbers, got {x.dtype};"):
            call(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cast(Any, prox.L1)("0.5"), "L1 needs a finite strength of 0 or more, got 0.5"),
        (lambda: prox.L1(10**400), "L1 needs a finite strength of 0 or more, got 1000"),
        (lambda: prox.L1({"w": 1j}), "L1 needs a finite strength of 0 or more, got 1j"),
        (lambda: cast(Any, prox.L2)(None), "L2 needs a finite strength of 0 or more, got None"),
        (lambda: cast(Any, prox.L1Ball)("1"), "L1Ball needs a finite radius above 0, got 1"),
        (lambda: cast(Any, prox.GroupL2)(1.0, [[0.5, 1.7]]), "lists of whole numbers, got [[0.5, 1.7]]"),
        (lambda: cast(Any, prox.GroupL2)(1.0, [0, 1]), "lists of whole numbers, got [0, 1]"),
    ],
)
def test_settings_that_are_no_numbers(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
