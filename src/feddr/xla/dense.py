"""A fully connected layer, with a gradient that compiles well for the small batches of local steps."""

import functools
import operator

import jax
import jax.numpy as jnp

FEW_ROWS = 16
SOME_ROWS, FEW_WEIGHTS = 32, 8192
"""Where the gradient is a sum of outer products: batches of few rows, or of some rows in layers of few weights."""

LARGE_WEIGHT = 2**20
"""Entries of a weight beyond which the library that XLA calls for products rearranges it in every step, slowly."""


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def dense(x: jax.Array, weight: jax.Array, by_output: bool = False) -> jax.Array:
    """Return ``x @ weight``, for rows x; or ``x @ weight.T``, for a weight with a row for each output.

    The gradient in the weight is x^T d. Automatic differentiation writes it as a matrix product in an order that XLA
    runs slowly on a CPU; and a product is an operation of its own, which writes the gradient to memory and lets the
    step read it back. A sum of a few outer products instead is fused with the step, if its entries are in the order
    of the weight's. docs/PERFORMANCE.md has figures.
    """
    return _product(x, weight, by_output)


def _product(x: jax.Array, weight: jax.Array, by_output: bool) -> jax.Array:
    """Return the product; the library that XLA calls does not take one over the first axis of both."""
    rows = x.shape[0]  # a symbol, not a number, where a model is written for any number of rows
    if by_output:
        return x @ weight.T
    if weight.size > LARGE_WEIGHT and isinstance(rows, int) and rows <= FEW_ROWS:
        return jax.lax.dot_general(in_memory(x.T), weight, (((0,), (0,)), ((), ())))
    return x @ weight


def _forward(x: jax.Array, weight: jax.Array, by_output: bool) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _product(x, weight, by_output), (x, weight)


def _backward(by_output: bool, saved: tuple[jax.Array, jax.Array], d: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = saved
    rows = x.shape[0]
    few = rows <= FEW_ROWS or (rows <= SOME_ROWS and weight.size <= FEW_WEIGHTS)
    d = in_memory(d) if few else d
    left, right = (d, in_memory(x) if few else x) if by_output else (x, d)
    if few:
        outer = _sum_in_pairs([left[row][:, None] * right[row][None, :] for row in range(rows)])
    else:
        outer = _across(left, right)
    return d @ (weight if by_output else weight.T), outer


def _across(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a^T b.

    Where a is the wider one and rows are more still, b^T a is computed in half the time; XLA would turn that round
    again, if it knew the rows of the result.
    """
    rows, width = a.shape
    return in_memory(b.T @ a).T if rows > width > b.shape[1] else a.T @ b


def in_memory(d: jax.Array) -> jax.Array:
    """Return d as an array in memory; XLA would fuse what makes its entries into each use, and compute them each time.

    It takes an optimisation barrier away before it fuses, but does not fuse the gather of rows that it does not know.
    """
    rows: jax.Array = jax.lax.optimization_barrier(jnp.arange(d.shape[0]))  # type: ignore[no-untyped-call]
    return d[rows]


def _sum_in_pairs(terms: list[jax.Array]) -> jax.Array:
    while len(terms) > 2:
        odd = terms[len(terms) // 2 * 2 :]
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)] + odd
    return functools.reduce(operator.add, terms)


dense.defvjp(_forward, _backward)
