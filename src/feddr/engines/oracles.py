"""The gradients that local solvers ask for: over the rows of a step, or over all rows of a client."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from feddr import tree
from feddr.problem import PerSample
from feddr.tree import Tree

CHUNK = 256
"""Rows in a step of a pass over all samples of a client."""


class Rows(NamedTuple):
    """A client's samples: ``size`` rows from ``start`` on; step t takes the first ``used[t]`` of its ``batch[t]``."""

    start: Any
    size: Any
    batch: Any = None
    used: Any = None


def batch_gradient(loss: PerSample, samples: Tree, rows: Rows) -> Callable[[Tree, Any], Tree]:
    """Return the oracle for the mean loss over the rows of step t."""
    width = rows.batch.shape[1]

    def mean_loss(x: Tree, t: Any) -> jax.Array:
        losses = loss(x, tree.map(lambda a: a[rows.start + rows.batch[t]], samples))
        used = rows.used[t]
        return jnp.sum(jnp.where(jnp.arange(width) < used, losses, 0)) / used.astype(losses.dtype)

    return jax.grad(mean_loss)


def full_gradient(loss: PerSample, samples: Tree, rows: Rows) -> Callable[[Tree, Any], Tree]:
    """Return the oracle for the mean loss over all rows of the client, whatever the step."""

    def chunk_loss(x: Tree, first: Any) -> jax.Array:
        row = first + jnp.arange(CHUNK, dtype=jnp.int32)
        last = rows.start + rows.size - 1
        losses = loss(x, tree.map(lambda a: a[jnp.minimum(row, last)], samples))
        return jnp.sum(jnp.where(row <= last, losses, 0)) / rows.size.astype(losses.dtype)

    def gradient(x: Tree, t: Any) -> Tree:
        del t

        def add_chunk(j: Any, total: Tree) -> Tree:
            return tree.add(total, jax.grad(chunk_loss)(x, rows.start + j * CHUNK))

        return jax.lax.fori_loop(0, -(-rows.size // CHUNK), add_chunk, tree.map(jnp.zeros_like, x))

    return gradient
