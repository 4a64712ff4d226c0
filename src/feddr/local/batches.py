"""Random batches over epochs: each sample once in an epoch, the last batch holding what is left."""

import functools
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from feddr.local.solver import Batches
from feddr.validation import scalars


class InBatches(Protocol):
    """A solver that works on batches."""

    @property
    def batch_size(self) -> int | None: ...


def check(solver: InBatches) -> None:
    """Refuse a solver whose epochs or batch size are not whole, or below one."""
    scalars.count(solver, "epochs", 1)
    if solver.batch_size is not None:
        scalars.count(solver, "batch_size", 1, "None takes all samples in every step")


def num_steps(size: int, epochs: int, batch_size: int | None) -> int:
    """Return the number of batches in ``epochs`` passes over ``size`` samples."""
    return epochs * (1 if batch_size is None else -(-size // batch_size))


def shuffled(size: int, epochs: int, batch_size: int | None, rng: np.random.Generator) -> Batches | None:
    """Return the rows of each batch: a new random order in each epoch."""
    if batch_size is None:
        return None
    in_order, used = _template(size, epochs, batch_size)
    rows = np.zeros((epochs, len(used) // epochs * batch_size), np.int32)
    rows[:, :size] = rng.permuted(in_order, axis=1)
    return Batches(rows.reshape(-1, batch_size), used)


@functools.lru_cache(maxsize=256)
def _template(size: int, epochs: int, batch_size: int) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Return what the batches of clients of one size have in common: the rows in order, and how many a step uses.

    NumPy shuffles entries of the size of a pointer almost twice as fast as smaller ones, into the same order.
    """
    per_epoch = num_steps(size, 1, batch_size)
    used = np.full(per_epoch, batch_size, np.int32)
    used[-1] = size - (per_epoch - 1) * batch_size
    used = np.tile(used, epochs)
    used.flags.writeable = False
    return np.broadcast_to(np.arange(size, dtype=np.intp), (epochs, size)), used
