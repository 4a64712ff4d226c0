"""Rewrites a traced loss into one that is faster on a CPU, and the same but for rounding.

Any model gains, whoever wrote it: the rules are about operations of JAX, not about layers of a library. They are
applied before the loss is differentiated, so that JAX differentiates what they have made. What no rule covers stays as
it is, and so does a function with a derivative of its own. docs/PERFORMANCE.md has figures for each rule.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from feddr.xla import convolution
from feddr.xla.dense import dense

SWITCH = "FEDDR_REWRITE"
"""The environment variable that, set to "off", leaves every loss as it is."""

FEW_ENTRIES = 512
"""Rows of a table up to which the gradient of a lookup is a product, and no scatter."""

CACHE, FEWEST, SAMPLE = 2**26, 32, 16
"""Bytes that a step of a pass may compute with, its fewest rows, and the rows of the trial that tells."""


def faster(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that computes the same, rewritten where a CPU computes it.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jax import lax
    >>> loss = lambda weight, x: lax.conv(x, weight, (1, 1), "SAME").sum()
    >>> weight, x = jnp.ones((4, 3, 5, 5)), jnp.ones((2, 3, 8, 8))
    >>> "conv_general_dilated" in str(jax.make_jaxpr(loss)(weight, x))
    True
    >>> "conv_general_dilated" in str(jax.make_jaxpr(faster(loss))(weight, x))
    False
    """
    if os.environ.get(SWITCH) == "off" or jax.default_backend() != "cpu":
        return function

    def rewritten(*arguments: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return rewritten


def rows_at_a_time(function: Callable[..., Any], x: Any, samples: Any, most: int) -> int:
    """Return how many rows of samples a pass over many takes in one step, so that what it computes stays in a cache.

    Parameters
    ----------
    function
        From (x, batch) to one value for each row of the batch.
    samples
        A tree of arrays of shape (samples, ...).
    most
        A power of two, the answer where a row takes little memory.
    """

    def of_shape(a: Any) -> Any:
        return jax.ShapeDtypeStruct((SAMPLE, *a.shape[1:]), a.dtype)  # type: ignore[no-untyped-call]

    jaxpr = jax.make_jaxpr(faster(function))(x, jax.tree.map(of_shape, samples))
    each = _memory(jaxpr.jaxpr) / SAMPLE
    while most > FEWEST and most * each > CACHE:
        most //= 2
    return most


def _memory(jaxpr: Any) -> int:
    """Return the bytes of all that a computation makes, each once."""
    own = sum(out.aval.size * out.aval.dtype.itemsize for equation in jaxpr.eqns for out in equation.outvars)
    return own + sum(_memory(inner) for equation in jaxpr.eqns for inner in _in(equation))


def _evaluate(jaxpr: Any, consts: Any, arguments: Any) -> list[Any]:
    """Compute a jaxpr, by its rule where an equation has one."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.Literal) else values[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        rule = RULES.get(equation.primitive.name)
        outputs = None if rule is None else rule(equation, *operands)
        if outputs is None:
            outputs = _as_it_is(equation, operands)
        several = outputs if isinstance(outputs, list | tuple) else [outputs]
        values.update(zip(equation.outvars, several, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _as_it_is(equation: Any, operands: list[Any]) -> list[Any]:
    """Compute an equation as JAX does; how functions are handed to an operation is its own affair."""
    named = {
        atom: value for atom, value in zip(equation.invars, operands, strict=True) if not isinstance(atom, jex.Literal)
    }
    about = jex.DebugInfo("rewrite", equation.primitive.name, None, None)
    alone = jex.Jaxpr((), [*named], equation.outvars, [equation], equation.effects, about)
    return jax.core.eval_jaxpr(alone, (), *named.values())


def _concerned(jaxpr: Any) -> bool:
    """Return whether a rule may apply to an equation, or to one within it."""
    return any(
        equation.primitive.name in RULES
        and (equation.primitive.name not in NESTED or any(map(_concerned, _in(equation))))
        for equation in jaxpr.eqns
    )


def _in(equation: Any) -> Iterator[Any]:
    return iter(jex.jaxprs_in_params(equation.params))


def _function(closed: Any) -> Callable[..., list[Any]]:
    return lambda *arguments: _evaluate(closed.jaxpr, closed.consts, arguments)


def _inlined(equation: Any, *operands: Any) -> list[Any]:
    return _evaluate(equation.params["jaxpr"].jaxpr, equation.params["jaxpr"].consts, operands)


def _remat(equation: Any, *operands: Any) -> list[Any]:
    jaxpr, settings = equation.params["jaxpr"], equation.params

    def inner(*operands: Any) -> list[Any]:
        return _evaluate(jaxpr, (), operands)

    again: Callable[..., list[Any]] = jax.checkpoint(
        inner, prevent_cse=settings["prevent_cse"], policy=settings["policy"]
    )
    return again(*operands)


def _scan(equation: Any, *operands: Any) -> list[Any] | None:
    settings = equation.params
    if not _concerned(settings["jaxpr"].jaxpr):
        return None
    count, carried = settings["num_consts"], settings["num_carry"]
    consts, body = operands[:count], _function(settings["jaxpr"])

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        outputs = body(*consts, *carry, *x)
        return outputs[:carried], outputs[carried:]

    carry, rows = lax.scan(
        step,
        [*operands[count : count + carried]],
        [*operands[count + carried :]],
        length=settings["length"],
        reverse=settings["reverse"],
        unroll=settings["unroll"],
    )
    return [*carry, *rows]


def _while(equation: Any, *operands: Any) -> list[Any] | None:
    settings = equation.params
    if not any(map(_concerned, _in(equation))):
        return None
    first, second = settings["cond_nconsts"], settings["cond_nconsts"] + settings["body_nconsts"]
    unfinished, body = _function(settings["cond_jaxpr"]), _function(settings["body_jaxpr"])
    outputs: list[Any] = lax.while_loop(
        lambda carry: unfinished(*operands[:first], *carry)[0],
        lambda carry: body(*operands[first:second], *carry),
        [*operands[second:]],
    )
    return outputs


def _cond(equation: Any, index: Any, *operands: Any) -> list[Any] | None:
    if not any(map(_concerned, _in(equation))):
        return None
    outputs: list[Any] = lax.switch(index.astype(jnp.int32), [*map(_function, equation.params["branches"])], *operands)
    return outputs


def _convolution(equation: Any, x: jax.Array, weight: jax.Array) -> jax.Array | None:
    if not convolution.is_product(x, weight, equation.params):
        return None
    return convolution.convolution(x, weight, equation.params)


def _largest(equation: Any, x: jax.Array) -> jax.Array | None:
    return (
        convolution.pooling(x, equation.params, is_largest=True) if convolution.is_apart(x, equation.params) else None
    )


def _sum(equation: Any, x: jax.Array) -> jax.Array | None:
    return (
        convolution.pooling(x, equation.params, is_largest=False) if convolution.is_apart(x, equation.params) else None
    )


def _product(equation: Any, a: jax.Array, b: jax.Array) -> jax.Array | None:
    """Return a product of rows with a weight as ``dense``, whose gradient compiles well; rows are the fewer ones."""
    (over_a, over_b), together = equation.params["dimension_numbers"]
    (out,) = equation.outvars
    if any(together) or len(over_a) != 1 or min(a.ndim, b.ndim) != 2 or not a.dtype == b.dtype == out.aval.dtype:
        return None
    if not jnp.issubdtype(a.dtype, jnp.floating) or a.size * b.size == 0:
        return None
    rows, columns = jnp.moveaxis(a, over_a[0], -1), jnp.moveaxis(b, over_b[0], -1)
    a2, b2 = rows.reshape(-1, rows.shape[-1]), columns.reshape(-1, columns.shape[-1])
    if len(a2) <= len(b2):
        product = _by_weight(a2, b2, b.ndim == 2 and over_b[0] == 1)
    else:
        product = _by_weight(b2, a2, a.ndim == 2 and over_a[0] == 1).T
    return product.reshape(out.aval.shape)


def _by_weight(rows: jax.Array, columns: jax.Array, by_output: bool) -> jax.Array:
    """Return rows @ columns^T, where the weight is stored with a row for each output, or with a column for each."""
    return dense(rows, columns, True) if by_output else dense(rows, columns.T)


def _lookup(equation: Any, table: jax.Array, rows: jax.Array) -> jax.Array | None:
    """Return rows of a small table, with a gradient that is a product instead of a scatter, which is slow."""
    settings = equation.params
    numbers = settings["dimension_numbers"]
    whole_rows = (
        table.ndim == 2
        and tuple(settings["slice_sizes"]) == (1, table.shape[1])
        and tuple(numbers.collapsed_slice_dims) == tuple(numbers.start_index_map) == (0,)
        and tuple(numbers.offset_dims) == (rows.ndim - 1,)
    )
    if not whole_rows or not 1 <= len(table) <= FEW_ENTRIES or not jnp.issubdtype(table.dtype, jnp.floating):
        return None
    if rows.size == 0 or table.size == 0:
        return None

    @jax.custom_vjp
    def lookup(table: jax.Array, rows: jax.Array) -> jax.Array:
        entries: jax.Array = equation.primitive.bind(table, rows, **settings)
        return entries

    def forward(table: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lookup(table, rows), rows

    def backward(rows: jax.Array, d: jax.Array) -> tuple[jax.Array, Any]:
        places = rows.reshape(-1)
        if settings["mode"] == lax.GatherScatterMode.CLIP:
            places = jnp.clip(places, 0, len(table) - 1)
        own = (places[:, None] == jnp.arange(len(table), dtype=places.dtype)).astype(d.dtype)
        return own.T @ d.reshape(len(places), -1), np.zeros(rows.shape, jax.dtypes.float0)

    lookup.defvjp(forward, backward)
    entries: jax.Array = lookup(table, rows)
    return entries


NESTED: dict[str, Callable[..., Any]] = {
    "jit": _inlined,
    "pjit": _inlined,
    "closed_call": lambda equation, *operands: _evaluate(
        equation.params["call_jaxpr"].jaxpr, equation.params["call_jaxpr"].consts, operands
    ),
    "remat2": _remat,
    "checkpoint": _remat,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
RULES: dict[str, Callable[..., Any]] = NESTED | {
    "conv_general_dilated": _convolution,
    "reduce_window_max": _largest,
    "reduce_window_sum": _sum,
    "dot_general": _product,
    "gather": _lookup,
}
"""From the name of an operation to what takes its equation and operands, and returns results, or None to leave it."""
