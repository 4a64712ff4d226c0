"""Regularisers at random points of every size, type and container, against the same formulas in long doubles."""

import functools
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from feddr import prox
from tests.fuzz.api import REFUSED, Case

Long = np.longdouble
"""Its exponents reach far beyond those of float64, so that no square overflows."""

SHAPES: list[Any] = [(), (1,), (3,), (2, 3), {"a": (2,), "b": (2, 3)}, [(3,), ()]]
FLOATS = [np.float64, np.float32, np.float16, jnp.bfloat16]
WHOLE = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.bool_]
ODD_STEPS: list[Any] = [-1.0, np.nan, np.inf, -np.inf, "1", None, 1j, np.ones(2), [0.5]]
ODD_NUMBERS: list[Any] = [-1.0, np.nan, np.inf, "1", None, 1j, np.ones(2), [0.5], 10**400]


def drawn(rng: random.Random) -> Case:
    """Draw a regulariser, a point and a step; one in ten has something that is to be refused."""
    odd = rng.randrange(10)
    dtype = rng.choice(FLOATS if rng.randrange(3) else WHOLE)
    x = _tree(rng, rng.choice(SHAPES), dtype)
    largest = max((float(np.max(np.abs(leaf.astype(Long)))) for leaf in jax.tree.leaves(x)), default=0.0)
    name = rng.choice(sorted(FORMULAS))
    t = float(np.ldexp(largest or 1.0, rng.randint(-8, 3)))  # how far an entry may move, or the size of a set
    t = min(t, 3e38 if dtype is not np.float64 else 1e308)
    strength = float(np.ldexp(1.0, rng.randint(-20, 20))) if name not in SETS else 1.0
    if odd == 0 and name not in ("Box", "NonNegative"):
        bad = rng.choice(ODD_NUMBERS)
        return Case("prox", f"{name} with {bad!r}", lambda: MAKES[name](bad).prox(x, 1.0), REFUSED, _never)
    if odd == 1 and name not in SETS:
        step = rng.choice(ODD_STEPS)
        g = MAKES[name](1.0)
        return Case("prox", f"{g} at a step {step!r}", lambda: g.prox(x, step), REFUSED, _never)
    g, eta = MAKES[name](t if name in SETS else strength), t / strength
    put = rng.choice(CONTAINERS)
    wide = jax.tree.map(lambda leaf: np.asarray(leaf).astype(Long), x)
    if name in ("GroupL2", "Nuclear") and not any(leaf.ndim == 2 for leaf in jax.tree.leaves(x)):
        expected: Any = REFUSED
    else:
        expected = functools.partial(_expected, name, wide, Long(t), Long(strength))

    def call() -> Any:
        with jax.enable_x64(True):
            given = jax.tree.map(put, x)
            return g.prox(given, eta), g.value(given)

    text = f"{g} at {x!r} in {put.__name__}s, eta={eta!r}"
    return Case("prox", text, call, expected, _close(dtype, largest, t, name))


def _tree(rng: random.Random, shape: Any, dtype: Any) -> Any:
    low, high = {np.float64: (-1060, 1020), np.float32: (-140, 124)}.get(dtype, (-10, 8))
    scale = rng.choice([0, 0, 0, rng.randint(low, high)])

    def leaf(shape: tuple[int, ...]) -> Any:
        eighths = np.array([rng.randint(-63, 63) for _ in range(int(np.prod(shape)))]).reshape(shape)
        if dtype in WHOLE:
            return (np.abs(eighths) // 8 if np.dtype(dtype).kind in "ub" else eighths // 8).astype(dtype)
        return np.ldexp(eighths / 8, scale).astype(dtype)

    return jax.tree.map(leaf, shape, is_leaf=lambda part: isinstance(part, tuple))


def _plain(leaf: Any) -> Any:
    return leaf


def _jax_array(leaf: Any) -> Any:
    return jnp.asarray(leaf)


def _swapped(leaf: Any) -> Any:
    return leaf.astype(leaf.dtype.newbyteorder()) if leaf.dtype.kind in "iuf" else leaf


def _view(leaf: Any) -> Any:
    return np.repeat(leaf, 2, axis=-1)[..., ::2] if leaf.ndim else leaf


def _series(leaf: Any) -> Any:
    return pd.Series(leaf) if leaf.ndim == 1 and leaf.dtype.kind in "iufb" else leaf


def _python(leaf: Any) -> Any:
    return leaf if leaf.ndim or (leaf.dtype.kind not in "iub" and leaf.dtype != np.float64) else leaf.item()


CONTAINERS: list[Callable[[Any], Any]] = [_plain, _plain, _jax_array, _swapped, _view, _series, _python]


def _flat(x: Any) -> Any:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])


def _expected(name: str, x: Any, t: Any, strength: Any) -> Any:
    new, value = FORMULAS[name](_flat(x), t, x)
    leaves, structure = jax.tree.flatten(x)
    pieces = np.split(new, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(
        structure, [p.reshape(a.shape) for p, a in zip(pieces, leaves, strict=True)]
    ), strength * value


def _soft(v: Any, t: Any, _: Any = None) -> Any:
    return np.sign(v) * np.maximum(np.abs(v) - t, 0), np.sum(np.abs(v))


def _shrink(v: Any, t: Any, _: Any = None) -> Any:
    norm = np.sqrt(np.sum(v * v))
    return (v * (1 - t / norm) if norm > t else 0 * v), norm


def _simplex(v: Any, radius: Any, _: Any = None) -> Any:
    down = np.sort(v)[::-1]
    sums = (np.cumsum(down) - radius) / np.arange(1, v.size + 1)
    t = sums[np.flatnonzero(down > sums)[-1]] if v.size else 0
    inside = np.all(v >= 0) and np.sum(v) == radius
    return np.maximum(v - t, 0), 0 if inside else np.inf


def _l1_ball(v: Any, radius: Any, _: Any = None) -> Any:
    inside = np.sum(np.abs(v)) <= radius
    return (v if inside else np.sign(v) * _simplex(np.abs(v), radius)[0]), 0 if inside else np.inf


def _l2_ball(v: Any, radius: Any, _: Any = None) -> Any:
    norm = np.sqrt(np.sum(v * v))
    return (v if norm <= radius else v * (radius / norm)), 0 if norm <= radius else np.inf


def _largest(v: Any, t: Any, _: Any = None) -> Any:
    return v - _l1_ball(v, t)[0], np.max(np.abs(v))


def _lines(leaf: Any, t: Any) -> Any:
    return np.array([_shrink(line, t)[0] for line in leaf]), sum(_shrink(line, t)[1] for line in leaf)


def _low_rank(leaf: Any, t: Any) -> Any:
    scale = np.ldexp(Long(1), -int(np.frexp(np.max(np.abs(leaf)) or Long(1))[1]))
    u, s, v = np.linalg.svd((leaf * scale).astype(np.float64), full_matrices=False)
    return (u * np.maximum(s - float(t * scale), 0)) @ v / scale, np.sum(s) / scale


def _matrices(each: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def formula(_: Any, t: Any, x: Any) -> Any:
        pairs = [each(leaf, t) if leaf.ndim == 2 else (leaf, 0) for leaf in jax.tree.leaves(x)]
        return np.concatenate([np.ravel(new) for new, _ in pairs]), sum(value for _, value in pairs)

    return formula


FORMULAS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "L1": _soft,
    "L2": _shrink,
    "SquaredL2": lambda v, t, _: (v / (1 + t), np.sum(v * v) / 2),
    "ElasticNet": lambda v, t, _: (_soft(v, t)[0] / (1 + t), np.sum(np.abs(v)) + np.sum(v * v) / 2),
    "LInf": _largest,
    "GroupL2": _matrices(_lines),
    "Nuclear": _matrices(_low_rank),
    "Scaled": _soft,
    "Box": lambda v, r, _: (np.clip(v, -r, r / 2), 0 if np.all((v >= -r) & (v <= r / 2)) else np.inf),
    "NonNegative": lambda v, _r, _: (np.maximum(v, 0), 0 if np.all(v >= 0) else np.inf),
    "Simplex": _simplex,
    "L1Ball": _l1_ball,
    "L2Ball": _l2_ball,
}
SETS = ("Box", "NonNegative", "Simplex", "L1Ball", "L2Ball")
MAKES: dict[str, Callable[[Any], Any]] = {
    "L1": prox.L1,
    "L2": prox.L2,
    "SquaredL2": prox.SquaredL2,
    "ElasticNet": lambda s: prox.ElasticNet(s, s),
    "LInf": prox.LInf,
    "GroupL2": prox.GroupL2,
    "Nuclear": prox.Nuclear,
    "Scaled": lambda s: prox.Scaled(prox.L1(1.0), s),
    "Box": lambda r: prox.Box(-r, r / 2),
    "NonNegative": lambda _: prox.NonNegative(),
    "Simplex": prox.Simplex,
    "L1Ball": prox.L1Ball,
    "L2Ball": prox.L2Ball,
}
"""From a number to a regulariser."""


def _never(_got: Any, _wanted: Any) -> bool:
    return False


def _close(dtype: Any, largest: float, t: float, name: str) -> Callable[[Any, Any], bool]:
    """Return the comparison to rounding at the size of the entries, or of the set."""
    kind: Any = jnp.finfo(dtype) if dtype in FLOATS else np.finfo(np.float64)  # type: ignore[no-untyped-call]
    size = min(largest, t) if name in ("Simplex", "L1Ball", "L2Ball") else largest

    def close(got: Any, wanted: Any) -> bool:
        limit = float(np.finfo(np.float64 if dtype not in FLOATS or dtype is np.float64 else np.float32).max)
        if wanted.ndim == 0 and name not in SETS and abs(wanted) > limit / 100:
            return True
        if name in SETS and (np.isinf(got).all() or np.isinf(wanted).all()):
            return bool(np.ndim(wanted) == 0)  # a point on the edge, which rounding decides
        room = 100 * float(kind.eps) * (size + np.abs(wanted)) + 100 * float(kind.tiny)
        return bool(np.all(np.abs(got - wanted) <= room))

    return close
