"""Gradients for local solvers: over the rows of a batch, over all rows of a client, or of each row, clipped."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.data import FederatedData
from feddr.problem.losses import PerSample
from feddr.tree import Tree
from feddr.xla import rewrite

CHUNK = 256
"""Rows in a step of a pass over all samples of a client, at most."""

CLIPPED_BYTES = 2**26
"""Memory for the gradients of single rows that are computed side by side; one row takes what it takes."""


class ClientRows(NamedTuple):
    """A client's samples: ``size`` rows from ``start`` on; step t takes the first ``used[t]`` of its ``batch[t]``.

    Where records are private, ``noise`` is a tree like the parameters, whose arrays have an entry for each step.
    """

    start: Any
    size: Any
    batch: Any = None
    used: Any = None
    noise: Tree = None


def batch_gradient(loss: PerSample, samples: Tree, rows: ClientRows) -> Callable[[Tree, Any], Tree]:
    """Return the oracle for the mean loss over the rows of step t."""
    width, loss = rows.batch.shape[1], rewrite.faster(loss)

    def mean_loss(x: Tree, t: Any) -> jax.Array:
        losses = loss(x, tree.map(lambda a: a[rows.start + rows.batch[t]], samples))
        used = rows.used[t]
        return jnp.sum(jnp.where(jnp.arange(width) < used, losses, 0)) / used.astype(losses.dtype)

    return jax.grad(mean_loss)


def full_gradient(loss: PerSample, samples: Tree, rows: ClientRows) -> Callable[[Tree, Any], Tree]:
    """Return the oracle for the mean loss over all rows of the client, whatever the step."""
    faster = rewrite.faster(loss)

    def chunk_loss(x: Tree, first: Any, chunk: int) -> jax.Array:
        row = first + jnp.arange(chunk, dtype=jnp.int32)
        last = rows.start + rows.size - 1
        losses = faster(x, tree.map(lambda a: a[jnp.minimum(row, last)], samples))
        return jnp.sum(jnp.where(row <= last, losses, 0)) / rows.size.astype(losses.dtype)

    def gradient(x: Tree, t: Any) -> Tree:
        del t
        chunk = rewrite.rows_at_a_time(loss, x, samples, CHUNK)

        def add_chunk(j: Any, total: Tree) -> Tree:
            return tree.add(total, jax.grad(chunk_loss)(x, rows.start + j * chunk, chunk))

        return jax.lax.fori_loop(0, -(-rows.size // chunk), add_chunk, tree.map(jnp.zeros_like, x))

    return gradient


def clipped_gradient(loss: PerSample, samples: Tree, rows: ClientRows, clip: float) -> Callable[[Tree, Any], Tree]:
    """Return the oracle of DP-SGD: the sum of the clipped gradients of the rows of step t, and its noise.

    Both are divided by the number of rows of a full batch, which tells nothing of the rows. A gradient whose length is
    not finite counts as zero.
    """
    faster = rewrite.faster(loss)
    width = CHUNK if rows.batch is None else rows.batch.shape[1]

    def clipped(x: Tree, row: Any) -> Tree:
        record = tree.map(lambda a: a[row][None], samples)
        gradient = jax.grad(lambda x: faster(x, record)[0])(x)
        length = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in tree.leaves(gradient)))
        factor = clip / jnp.maximum(length, clip)
        return tree.map(lambda leaf: jnp.where(jnp.isfinite(length), factor * leaf, 0), gradient)

    def oracle(x: Tree, t: Any) -> Tree:
        used = rows.size if rows.batch is None else rows.used[t]
        full = rows.size if rows.batch is None else jnp.minimum(rows.size, width)
        bytes_of_row = sum(leaf.size * leaf.dtype.itemsize for leaf in tree.leaves(x))
        chunk = max(1, min(CHUNK, width, CLIPPED_BYTES // max(bytes_of_row, 1)))

        def add_chunk(j: Any, total: Tree) -> Tree:
            row_of_step = j * chunk + jnp.arange(chunk, dtype=jnp.int32)
            own = jnp.minimum(row_of_step, used - 1)
            each = jax.vmap(clipped, (None, 0))(x, rows.start + (own if rows.batch is None else rows.batch[t][own]))

            def added(total: jax.Array, each: jax.Array) -> jax.Array:
                mask = (row_of_step < used).reshape(-1, *[1] * total.ndim)
                return total + jnp.sum(jnp.where(mask, each, 0), axis=0)

            return tree.map(added, total, each)

        total = jax.lax.fori_loop(0, -(-used // chunk), add_chunk, tree.map(jnp.zeros_like, x))
        return tree.map(lambda a, noise: (a + noise[t]) / full.astype(a.dtype), total, rows.noise)

    return oracle


def capacity(count: int) -> int:
    """Return the next of 64, 256, 1024, ...: unused rows cost little beside the steps, new shapes a compilation."""
    enough = 64
    while enough < count:
        enough *= 4
    return enough


def own_samples(data: FederatedData, client: int, dtype: Any) -> Tree:
    """Return the samples of a client that makes them on demand, padded with zeros up to a capacity."""
    rows = capacity(int(data.sizes[client]))
    return tree.map(lambda a: _padded(a, rows), precision.samples(data.client(client), dtype))


def _padded(rows: NDArray[Any], count: int) -> NDArray[Any]:
    padded = np.zeros((count, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return padded
