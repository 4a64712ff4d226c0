"""Every prox solves its minimisation: the optimality condition, Moreau's identity, firm nonexpansiveness, cvxpy."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import hypothesis.extra.numpy as hnp
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.prox.cases import CASES, FINITE, SETS, TREE, Case, N, flat, unflat
from tests.prox.references import Vector, cp

TOLERANCE = 1e-9
etas = st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.05, 20))
seeds = st.integers(0, 2**32 - 1)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_set = pytest.mark.parametrize("case", SETS, ids=lambda case: case.name)
each_finite = pytest.mark.parametrize("case", FINITE, ids=lambda case: case.name)
moderate = settings(deadline=None, max_examples=12)


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@st.composite
def points(draw: st.DrawFn) -> Vector:
    """Draw multiples of 1/8, which give ties and entries exactly at a threshold, in half the cases out of scale."""
    eighths = draw(hnp.arrays(np.int64, N, elements=st.integers(-80, 80)))
    return eighths / 8 * draw(st.one_of(st.just(1.0), st.floats(0.1, 2)))


@cache
def compiled(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    case = next(case for case in CASES if case.name == name)
    return jax.jit(case.g.prox), jax.jit(jax.vmap(case.g.value))


def prox(case: Case, x: Vector, eta: float) -> Vector:
    return flat(compiled(case.name)[0](unflat(x, TREE), eta))


def values(case: Case, points: Vector) -> Vector:
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *(unflat(v, TREE) for v in points))
    return np.asarray(compiled(case.name)[1](batch))


def neighbours(case: Case, u: Vector, seed: int) -> Vector:
    """Return points where g is finite: far away, and near u in a random direction."""
    rng = np.random.default_rng(seed)
    far = rng.normal(scale=5, size=(6, u.size))
    if case.reference.point is not None:
        far[:, case.inside] = [case.reference.point(rng, int(case.inside.sum())) for _ in far]
    return np.concatenate([far, u + 1e-3 * (far - u)])


@each_case
@given(x=points(), eta=etas, seed=seeds)
@moderate
def test_residual_is_a_subgradient(case: Case, x: Vector, eta: float, seed: int) -> None:
    """u = prox(x) if and only if g(v) >= g(u) + <(x - u) / eta, v - u> for all v."""
    u = prox(case, x, eta)
    y = (x - u) / eta
    v = neighbours(case, u, seed)
    g = values(case, np.concatenate([u[None], v]))
    assert np.all(np.isfinite(g)), "g is finite at its prox and at the points of its domain"
    scale = 1 + abs(g[0]) + np.linalg.norm(y) * np.linalg.norm(v - u, axis=1)
    assert np.all(g[1:] - g[0] - (v - u) @ y >= -TOLERANCE * scale)


@each_case
@given(x=points(), seed=seeds)
@moderate
def test_value_is_the_formula(case: Case, x: Vector, seed: int) -> None:
    v = np.concatenate([x[None], neighbours(case, x, seed)])
    np.testing.assert_allclose(values(case, v), [case.reference.value(a) for a in v[:, case.inside]], TOLERANCE)


@each_finite
@given(x=points(), eta=etas)
@moderate
def test_moreau(case: Case, x: Vector, eta: float) -> None:
    """x = prox_{eta g}(x) + eta prox_{g* / eta}(x / eta), with the second prox from the reference."""
    assert case.reference.dual is not None
    u = prox(case, x, eta)
    v = x[case.inside]
    np.testing.assert_allclose(u[case.inside] + eta * case.reference.dual(v / eta, eta), v, 0, TOLERANCE)
    np.testing.assert_array_equal(u[~case.inside], x[~case.inside])


@each_set
@given(x=points(), eta=etas)
@moderate
def test_projection(case: Case, x: Vector, eta: float) -> None:
    """u = P(x) is in the set, attains the support function at x - u, and stays where it is."""
    assert case.reference.support is not None
    u = prox(case, x, eta)
    v = u[case.inside]
    y = x[case.inside] - v
    assert case.reference.value(v) == 0
    np.testing.assert_allclose(y @ v, case.reference.support(y), TOLERANCE, TOLERANCE)
    np.testing.assert_array_equal(u[~case.inside], x[~case.inside])
    np.testing.assert_allclose(prox(case, u, 3 * eta), u, 0, 1e-12)


@each_case
@given(x=points(), y=points(), eta=etas)
@moderate
def test_firmly_nonexpansive(case: Case, x: Vector, y: Vector, eta: float) -> None:
    """||P x - P y||^2 <= <P x - P y, x - y>, and so ||P x - P y|| <= ||x - y||."""
    d, e = prox(case, x, eta) - prox(case, y, eta), x - y
    assert d @ d <= d @ e + TOLERANCE * (1 + e @ e)
    assert np.linalg.norm(d) <= np.linalg.norm(e) + TOLERANCE


@each_case
@pytest.mark.parametrize(("seed", "eta"), [(0, 0.4), (1, 2.0)])
def test_agrees_with_cvxpy(case: Case, seed: int, eta: float) -> None:
    x = np.random.default_rng(seed).normal(scale=3, size=N)
    z = cp.Variable(int(case.inside.sum()))
    g, constraints = case.reference.cvx(z)
    problem = cp.Problem(cp.Minimize(g + cp.sum_squares(z - x[case.inside]) / (2 * eta)), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    np.testing.assert_allclose(prox(case, x, eta)[case.inside], z.value, 0, 1e-6)
