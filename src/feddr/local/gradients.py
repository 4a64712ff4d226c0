"""Gradients for local solvers: over the rows of a batch, or over all rows of a client."""

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


class ClientRows(NamedTuple):
    """A client's samples: ``size`` rows from ``start`` on; step t takes the first ``used[t]`` of its ``batch[t]``."""

    start: Any
    size: Any
    batch: Any = None
    used: Any = None


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
