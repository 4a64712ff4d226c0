"""A client's local update as one compiled call, the same one for clients of every size."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from feddr import precision, tree
from feddr.local import Curvature, Facts, LocalSolver, Solution, Subproblem, solve
from feddr.local.curvature import lanczos
from feddr.problem import PerSample, Problem
from feddr.tree import Tree

CHUNK = 256
"""Rows in a step of a pass over all samples of a client."""


class Rows(NamedTuple):
    """A client's samples: ``size`` rows from ``start`` on; step t takes the first ``used[t]`` of ``batch[t]``."""

    start: Any
    size: Any
    batch: Any = None
    used: Any = None


class CompiledClients:
    """Solves the subproblems of a problem's clients.

    All samples stay on the device. A step gathers its rows by index; the number of steps is an argument of the compiled
    loop, not a part of it, and index matrices come in a few capacities, so nothing is recompiled from client to client.

    Parameters
    ----------
    samples
        The training samples of all clients, on the device.
    mean_gradient
        Whether solutions carry the mean of the gradients.
    """

    def __init__(self, problem: Problem, samples: Tree, local: LocalSolver, dtype: Any, mean_gradient: bool) -> None:
        self.problem, self.samples, self.local, self.dtype = problem, samples, local, np.dtype(dtype)
        self.offsets = problem.data.train.offsets

        def run(samples: Tree, sub: Subproblem, rows: Rows, steps: Any, facts: Facts) -> Solution:
            oracle = _full_gradient if rows.batch is None else _batch_gradient
            return solve(local, sub, oracle(problem.loss, samples, rows), steps, facts, mean_gradient)

        def hessian(samples: Tree, x: Tree, v: Tree, rows: Rows) -> Tree:
            oracle = _full_gradient(problem.loss, samples, rows)
            return jax.jvp(lambda x: oracle(x, 0), (x,), (v,))[1]

        # Clients run side by side, one on each thread; threads within a client would only get in each other's way, and
        # would make the order of a sum, and so its last bit, depend on their number.
        options = {"xla_cpu_multi_thread_eigen": False} if jax.default_backend() == "cpu" else None
        self._solve = jax.jit(run, compiler_options=options)
        self._hessian = jax.jit(hessian, compiler_options=options)
        self._curvature: dict[int, Curvature] = {}

    def __call__(
        self, client: int, sub: Subproblem, rng: np.random.Generator, round_: int = 0, probability: float = 1.0
    ) -> Solution:
        """Solve the subproblem of a client, which takes part with a probability; the result is in NumPy arrays."""
        rows = self._rows(client)
        steps = self.local.num_steps(int(rows.size))
        curvature = self.curvature(client, sub.eta) if self.local.certified else Curvature()
        facts = Facts(curvature, round_, float(probability))
        batches = self.local.batches(int(rows.size), rng)
        if batches is not None:
            capacity = _capacity(steps)
            batch = np.zeros((capacity, batches.rows.shape[1]), np.int32)
            used = np.ones(capacity, np.int32)
            np.add(batches.rows, rows.start, out=batch[:steps])
            used[:steps] = batches.used
            rows = rows._replace(batch=batch, used=used)
        with precision.scope(self.dtype):
            return tree.map(np.asarray, self._solve(self.samples, sub, rows, np.int32(steps), facts))

    def curvature(self, client: int, eta: float) -> Curvature:
        """Return bounds on the Hessian of f_i, the problem's own or an estimate at x^0, that make phi convex."""
        if client not in self._curvature:
            known = self.problem.known_curvature(client)
            self._curvature[client] = (
                self.curvature_at(client, self.problem.init) if known is None else Curvature(*known)
            )
        found = self._curvature[client]
        if not 1.0 / eta + min(found.lower, 0.0) > 0:
            remedy = f"take eta below {-1.0 / found.lower:.3g}" if found.lower < 0 else "add a proximal term"
            raise ValueError(
                f"{type(self.local).__name__} certifies strongly convex subproblems only: f_{client} has Hessian "
                f"eigenvalues from {found.lower:.3g} to {found.upper:.3g}, got eta={eta:.3g}; {remedy}, or use SGD."
            )
        return found

    def curvature_at(self, client: int, x: Tree) -> Curvature:
        """Return the least and the largest eigenvalue of the Hessian of f_i at x."""
        x, rows = tree.cast(x, self.dtype), self._rows(client)

        def product(v: Tree) -> Tree:
            with precision.scope(self.dtype):
                return tree.map(np.asarray, self._hessian(self.samples, x, v, rows))

        return lanczos(product, x)

    def _rows(self, client: int) -> Rows:
        start, stop = self.offsets[client], self.offsets[client + 1]
        return Rows(np.int32(start), np.int32(stop - start))


def _capacity(steps: int) -> int:
    """Return the next of 64, 1024, 16384, ...: unused rows cost little beside the steps, new shapes a compilation."""
    capacity = 64
    while capacity < steps:
        capacity *= 16
    return capacity


def _batch_gradient(loss: PerSample, samples: Tree, rows: Rows) -> Callable[[Tree, Any], Tree]:
    """Return the oracle for the mean loss over the rows of step t."""
    width = rows.batch.shape[1]

    def mean_loss(x: Tree, t: Any) -> jax.Array:
        losses = loss(x, tree.map(lambda a: a[rows.batch[t]], samples))
        used = rows.used[t]
        return jnp.sum(jnp.where(jnp.arange(width) < used, losses, 0)) / used.astype(losses.dtype)

    return jax.grad(mean_loss)


def _full_gradient(loss: PerSample, samples: Tree, rows: Rows) -> Callable[[Tree, Any], Tree]:
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
