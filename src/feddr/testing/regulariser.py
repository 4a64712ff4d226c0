"""The laws of a regulariser: its prox solves the minimisation that defines it, for trees, in both precisions."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from feddr import precision, tree
from feddr.prox import Regulariser
from feddr.testing.laws import at_most, broken, structure
from feddr.tree import Tree

ETAS = (0.1, 1.0, 5.0)
POINTS = 6
TOLERANCE = 1e-8
TINY = 1e-12


def check_regulariser(g: Regulariser, x: Tree | None = None) -> None:
    """Check that a regulariser keeps the laws that engines and theorems rely on.

    With p = prox(x, eta) at points and for step sizes of the function's own:

    - ``structure``: p is a tree like x, of the same shapes and types, in float32 and in float64;
    - ``finite value``: g(p) is a finite number;
    - ``compiled``: ``jax.jit`` changes neither value nor prox;
    - ``optimality``: (x - p) / eta is a subgradient at p, g(u) >= g(p) + <(x - p) / eta, u - p> for all u, which makes
      p the prox of a closed convex g;
    - ``non-expansiveness``: ||prox(x) - prox(y)|| <= ||x - y||;
    - ``small steps``: prox(x, eta) tends to x with eta, where g(x) is finite.

    Parameters
    ----------
    g
        Any object with ``value`` and ``prox``.
    x
        A tree of arrays like the parameters that g is for, of which only structure and shapes count; by default a
        weight of shape (4, 3) and a bias of shape (3,).

    Raises
    ------
    AssertionError
        At the first law that does not hold, with its name, the value found and the tolerance.

    Examples
    --------
    >>> import feddr
    >>> feddr.testing.check_regulariser(feddr.prox.L1(0.1))
    >>> class Half:
    ...     def value(self, x):
    ...         return abs(x).sum()
    ...     def prox(self, x, eta):
    ...         return x / 2
    >>> feddr.testing.check_regulariser(Half(), np.zeros(3))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: <...Half object at ...> breaks the law 'optimality': ...
    """
    like = {"weight": np.zeros((4, 3)), "bias": np.zeros(3)} if x is None else x
    rng = np.random.default_rng(0)
    points = [tree.map(lambda leaf: rng.normal(scale=2.0, size=np.shape(leaf)), like) for _ in range(POINTS)]
    with precision.scope(np.float32):
        x32 = tree.cast(points[0], np.float32)
        _structure(g, x32, _traced(g, lambda: jax.eval_shape(lambda x: g.prox(x, 1.0), x32)))
    with precision.scope(np.float64):
        prox, value = _compiled(g, points[0])
        for eta in ETAS:
            _optimality(g, prox, value, points, eta)
        _small_steps(g, prox, value, points)


def _traced(g: Regulariser, run: Callable[[], Any]) -> Any:
    """Return the result of a call under jit; where JAX cannot trace the regulariser, report the broken law."""
    try:
        return run()
    except jax.errors.JAXTypeError as error:
        raise broken(g, "compiled", f"jax.jit refuses it, {type(error).__name__}; write it in jax.numpy.") from error


def _structure(g: Regulariser, x: Tree, p: Tree) -> None:
    if structure(p) != structure(x):
        raise broken(g, "structure", f"prox returns {structure(p)}, the parameters are {structure(x)}.")
    for (name, old), new in zip(tree.named(x).items(), tree.leaves(p), strict=True):
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            raise broken(
                g,
                "structure",
                f"prox returns {new.dtype}{list(new.shape)} for {name!r}, which is {old.dtype}{list(old.shape)}.",
            )


def _compiled(g: Regulariser, x: Tree) -> tuple[Callable[[Tree, float], Tree], Callable[[Tree], float]]:
    """Return prox and value, compiled, once they agree with themselves as they are."""
    compiled_prox, compiled_value = jax.jit(g.prox), jax.jit(g.value)

    def prox(x: Tree, eta: float) -> Tree:
        return tree.map(np.asarray, compiled_prox(x, eta))

    def value(x: Tree) -> float:
        computed = np.asarray(compiled_value(x))
        if computed.shape:
            raise broken(g, "finite value", f"value returns shape {computed.shape}, a scalar has ().")
        return float(computed)

    plain = tree.map(np.asarray, g.prox(x, 1.0))
    _structure(g, x, plain)
    p, v = _traced(g, lambda: (prox(x, 1.0), value(x)))
    at_most(g, "compiled", "||jit(prox)(x) - prox(x)||", tree.norm(tree.sub(p, plain)), TOLERANCE * (1 + tree.norm(x)))
    at_p, plain_at_p = value(p), float(g.value(p))
    if not np.isfinite(at_p) or not np.isfinite(plain_at_p):
        raise broken(g, "finite value", f"g(prox(x)) is {at_p:.3g}, a number below infinity is wanted.")
    at_most(g, "compiled", "|jit(value)(p) - value(p)|", abs(at_p - plain_at_p), TOLERANCE * (1 + abs(at_p)))
    if np.isnan(v):
        raise broken(g, "finite value", "g(x) is NaN at a point; infinity says that x is not allowed.")
    return prox, value


def _optimality(g: Regulariser, prox: Any, value: Any, points: list[Tree], eta: float) -> None:
    images = [prox(x, eta) for x in points]
    for p in images:
        if not np.isfinite(value(p)):
            raise broken(g, "finite value", f"g(prox(x, {eta})) is {value(p):.3g}, a number below infinity is wanted.")
    for x, p in zip(points, images, strict=True):
        slope = tree.scale(1 / eta, tree.sub(x, p))
        at_p = value(p)
        # Where g is an indicator, other images of the prox are in its set, and so is what lies between them and p.
        near = [tree.axpy(1e-3, tree.sub(u, p), p) for u in images]
        for u in (*points, *images, *near):
            step = tree.sub(u, p)
            size = 1 + abs(at_p) + tree.norm(slope) * tree.norm(step)
            missing = at_p + _dot(slope, step) - value(u)
            at_most(
                g,
                "optimality",
                f"with p = prox(x, {eta}), g(p) + <(x - p) / {eta}, u - p> - g(u)",
                missing,
                TOLERANCE * size,
            )
        for y, q in zip(points, images, strict=True):
            moved, apart = tree.norm(tree.sub(p, q)), tree.norm(tree.sub(x, y))
            law, what = "non-expansiveness", f"||prox(x, {eta}) - prox(y, {eta})|| - ||x - y||"
            at_most(g, law, what, moved - apart, TOLERANCE * (1 + apart))


def _small_steps(g: Regulariser, prox: Any, value: Any, points: list[Tree]) -> None:
    for x in (*points, *(prox(x, 1.0) for x in points)):
        if np.isfinite(value(x)):
            moved = tree.norm(tree.sub(prox(x, TINY), x))
            at_most(g, "small steps", f"||prox(x, {TINY:g}) - x||", moved, TOLERANCE * (1 + tree.norm(x)))


def _dot(a: Tree, b: Tree) -> float:
    return float(sum(np.sum(p * q) for p, q in zip(tree.leaves(a), tree.leaves(b), strict=True)))
