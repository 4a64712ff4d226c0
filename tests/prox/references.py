"""What the textbooks say of each regulariser, written in NumPy and cvxpy.

A reference knows nothing of trees or masks: it is about the vector v of the entries that are regularised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy
import numpy as np
from numpy.typing import NDArray

cp: Any = cvxpy  # its types do not list its functions
Vector = NDArray[np.float64]
ROUNDING = 1e-13


@dataclass(frozen=True)
class Reference:
    """A convex function of a vector: finite, with a ``dual``, or the indicator of a set, with a ``support``."""

    value: Callable[[Vector], float]
    cvx: Callable[[Any], tuple[Any, list[Any]]]  # expression and constraints
    dual: Callable[[Vector, float], Vector] | None = None  # (y, eta) -> prox_{g*/eta}(y)
    support: Callable[[Vector], float] | None = None  # y -> sup over the set of <y, u>
    point: Callable[[np.random.Generator, int], Vector] | None = None  # a random point of the set


def zero() -> Reference:
    return Reference(lambda _: 0.0, lambda _: (0, []), dual=lambda y, _: np.zeros_like(y))


def l1(s: float | Vector) -> Reference:
    return Reference(
        lambda v: float(np.sum(s * np.abs(v))),
        lambda z: (cp.sum(cp.multiply(s, cp.abs(z))), []),
        dual=lambda y, _: np.clip(y, -s, s),
    )


def ball(y: Vector, radius: float) -> Vector:
    norm = np.sqrt(y @ y)
    return y if norm <= radius else radius / norm * y


def l1_ball(y: Vector, radius: float) -> Vector:
    """Project onto the l1 ball: sum (|y| - t)_+ falls with t, so bisect for t."""
    low, high = 0.0, float(np.max(np.abs(y)))
    if np.sum(np.abs(y)) <= radius:
        return y
    for _ in range(200):
        t = (low + high) / 2
        low, high = (t, high) if np.sum(np.maximum(np.abs(y) - t, 0)) > radius else (low, t)
    return np.sign(y) * np.maximum(np.abs(y) - high, 0)


def l2(s: float) -> Reference:
    return Reference(
        lambda v: s * float(np.sqrt(v @ v)), lambda z: (s * cp.norm(z, 2), []), dual=lambda y, _: ball(y, s)
    )


def elastic_net(a: float, b: float) -> Reference:
    # g*(y) = sum (|y| - a)_+^2 / (2 b)
    def dual(y: Vector, eta: float) -> Vector:
        return np.where(np.abs(y) <= a, y, np.sign(y) * (b * eta * np.abs(y) + a) / (b * eta + 1))

    return Reference(
        lambda v: float(a * np.sum(np.abs(v)) + b / 2 * v @ v),
        lambda z: (a * cp.norm(z, 1) + b / 2 * cp.sum_squares(z), []),
        dual=dual,
    )


def linf(s: float) -> Reference:
    return Reference(
        lambda v: s * float(np.max(np.abs(v))), lambda z: (s * cp.norm(z, "inf"), []), dual=lambda y, _: l1_ball(y, s)
    )


def group_l2(s: float, groups: Sequence[Any], weighted: bool = False) -> Reference:
    """Take the groups as positions in v; entries in no group have g = 0 and so a zero dual."""
    weights = [s * np.sqrt(len(group)) if weighted else s for group in groups]

    def dual(y: Vector, _: float) -> Vector:
        u = np.zeros_like(y)
        for group, w in zip(groups, weights, strict=True):
            u[group] = ball(y[group], w)
        return u

    return Reference(
        lambda v: float(sum(w * np.linalg.norm(v[group]) for group, w in zip(groups, weights, strict=True))),
        lambda z: (sum(w * cp.norm(z[group], 2) for group, w in zip(groups, weights, strict=True)), []),
        dual=dual,
    )


def nuclear(s: float, matrices: Sequence[NDArray[np.int64]]) -> Reference:
    """Take each matrix as the positions of its entries in v."""

    def dual(y: Vector, _: float) -> Vector:
        u = np.zeros_like(y)
        for at in matrices:
            left, values, right = np.linalg.svd(y[at], full_matrices=False)
            u[at] = left @ np.diag(np.minimum(values, s)) @ right
        return u

    return Reference(
        lambda v: s * float(sum(np.linalg.svd(v[at], compute_uv=False).sum() for at in matrices)),
        lambda z: (s * sum(cp.normNuc(cp.reshape(z[at.ravel()], at.shape, order="C")) for at in matrices), []),
        dual=dual,
    )


def within(inside: Callable[[Vector], Any], **rest: Any) -> Reference:
    return Reference(lambda v: 0.0 if inside(v) else np.inf, **rest)


def box(low: Any, high: Any) -> Reference:
    return within(
        lambda v: np.all((v >= low - ROUNDING) & (v <= high + ROUNDING)),
        cvx=lambda z: (0, [z >= low, z <= high]),
        support=lambda y: float(np.sum(np.maximum(low * y, high * y))),
        point=lambda rng, n: rng.uniform(np.broadcast_to(low, n), high),
    )


def non_negative() -> Reference:
    return within(
        lambda v: np.all(v >= -ROUNDING),
        cvx=lambda z: (0, [z >= 0]),
        support=lambda y: 0.0 if np.all(y <= 0) else np.inf,
        point=lambda rng, n: rng.exponential(5, n) * rng.integers(0, 2, n),
    )


def simplex(r: float) -> Reference:
    return within(
        lambda v: np.all(v >= -ROUNDING) and abs(v.sum() - r) <= ROUNDING,
        cvx=lambda z: (0, [z >= 0, cp.sum(z) == r]),
        support=lambda y: r * float(np.max(y)),
        point=lambda rng, n: r * rng.dirichlet(np.full(n, 0.3)),
    )


def norm_ball(r: float, p: int) -> Reference:
    dual_norm: float = {1: np.inf, 2: 2}[p]

    def point(rng: np.random.Generator, n: int) -> Vector:
        v = rng.normal(size=n)
        return np.asarray(v * r * rng.random() / np.linalg.norm(v, p))

    return within(
        lambda v: np.linalg.norm(v, p) <= r + ROUNDING,
        cvx=lambda z: (0, [cp.norm(z, p) <= r]),
        support=lambda y: r * float(np.linalg.norm(y, dual_norm)),
        point=point,
    )


def translated(base: Reference, shift: Any) -> Reference:
    """Translate: the conjugate gains <shift, y>, which shifts its prox and raises the support function."""
    dual, support, point = base.dual, base.support, base.point
    return Reference(
        lambda v: base.value(v - shift),
        lambda z: base.cvx(z - shift),
        dual=dual and (lambda y, eta: dual(y - shift / eta, eta)),
        support=support and (lambda y: support(y) + float(np.sum(shift * y))),
        point=point and (lambda rng, n: shift + point(rng, n)),
    )


def side_by_side(parts: Sequence[tuple[NDArray[np.int64], Reference]]) -> Reference:
    def dual(y: Vector, eta: float) -> Vector:
        u = np.zeros_like(y)
        for at, part in parts:
            assert part.dual is not None
            u[at] = part.dual(y[at], eta)
        return u

    return Reference(
        lambda v: sum(part.value(v[at]) for at, part in parts),
        lambda z: (sum(part.cvx(z[at])[0] for at, part in parts), []),
        dual=dual,
    )
