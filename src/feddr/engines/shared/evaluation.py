"""Evaluation: metrics at xbar, and personalised metrics of the clients' own models, in compiled passes."""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.data import ClientSamples
from feddr.engines.shared.means import SUMMED, PersonalSums, metrics, personal_means
from feddr.engines.shared.pieces import Layout, Part, RowRange, division
from feddr.engines.shared.shards import ROOT, TreeNode, Vector, fold
from feddr.problem import Problem
from feddr.tree import Tree
from feddr.xla import batching, rewrite
from feddr.xla.thread_pool import ThreadPool

GATHERED = 2**30
"""Bytes of outputs that a metric may gather."""

Kind = Literal["outputs", "loss", "correct"]
"""What is wanted of each sample."""

CALLS = 4
"""Calls for each thread whose gradients are in memory at a time."""

TOGETHER, PLACES = 2**18, 16
"""Numbers of gradients that a call returns, about, and the most pieces that share one."""


class Sums(NamedTuple):
    """Sums over samples: weighted loss, loss, right predictions."""

    weighted: Any
    loss: Any
    correct: Any


class Evaluator:
    """Evaluates models on a problem: sums over each shard in compiled passes, then over shards in a fixed order.

    Parameters
    ----------
    problem
        The problem; its samples are put on the device once.
    dtype
        Precision of the passes.
    pool
        Threads that go through the samples, a piece for each; None for this one, and those of XLA.
    layout
        That of the whole problem, where the samples are those of some shards.
    """

    def __init__(
        self, problem: Problem, dtype: Any, pool: ThreadPool | None = None, layout: Layout | None = None
    ) -> None:
        self.problem, self.dtype, self.pool = problem, np.dtype(dtype), pool
        self.layout = Layout.of(problem.data) if layout is None else layout
        train, test = problem.data.train, problem.data.test
        self._train = self._load(train, problem.sample_weights)
        self._test = None if test is None else self._load(test, np.zeros(test.num_samples))
        self._validation: tuple[Tree, Any] | None = None
        parameters = tree.size(problem.init)
        self._together = min(max(TOGETHER // max(parameters, 1), 1), PLACES)
        options = batching.evaluation_options() if pool is None else batching.compiler_options(parameters)
        compiled = functools.partial(jax.jit, static_argnames=("rows", "gradient"), compiler_options=options)
        self._pass = compiled(functools.partial(_sums, problem))
        self._passes = compiled(functools.partial(_several_sums, problem))
        self._g = jax.jit(problem.regulariser.value)
        self._each = jax.jit(
            functools.partial(_each, problem), static_argnames=("rows", "kind"), compiler_options=options
        )

    @property
    def samples(self) -> Tree:
        """The training samples on the device."""
        return self._train[0]

    def at(self, xbar: Tree) -> dict[str, float]:
        """Return F, f, g, the losses and accuracies, the gradient mapping and the sparsity at xbar."""
        x = tree.cast(xbar, self.dtype)
        return metrics(self.problem, x, self._total(x, "train", True), self._total(x, "test", False), self._g)

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        """Return f(x) and its gradient in float64."""
        total = self._total(tree.cast(x, self.dtype), "train", True)
        assert total is not None
        return float(total[0]), tree.unravel(total[SUMMED:], x)

    def _total(self, x: Tree, part: Part, gradient: bool) -> Vector | None:
        for _, total in fold([ROOT], self.shard_sums(x, part, gradient)):
            return total
        return None

    def shard_sums(self, x: Tree, part: Part, gradient: bool) -> Iterator[tuple[TreeNode, Vector]]:
        """Yield the sums over the samples of each shard of a part, and the gradient of f, in float64, in order."""
        for shard, some in itertools.groupby(self._piece_sums(x, part, gradient), key=lambda entry: entry[0].shard):
            yield TreeNode(0, shard), functools.reduce(np.add, (sums for _, sums in some))

    def _piece_sums(self, x: Tree, part: Part, gradient: bool) -> Iterator[tuple[RowRange, Vector]]:
        """Yield the sums over each piece, in order; some calls at a time, so that few gradients are in memory."""
        loaded, data, rows = self._part(part)
        if data is None or loaded is None:
            return
        pieces = division(data, self.problem.data.panel, self.layout.clients)
        calls = [pieces[j : j + self._together] for j in range(0, len(pieces), self._together)]
        some = 1 if self.pool is None else CALLS * self.pool.threads
        sums: dict[RowRange, Vector] = {}

        def go_through(call: list[RowRange]) -> None:
            places = np.zeros((2, self._together), np.int32)
            places[:, : len(call)] = np.array([(piece.start, piece.stop) for piece in call]).T
            with precision.scope(self.dtype):
                leaves = tree.leaves(self._passes(x, *loaded, *places, rows=rows, gradient=gradient))
                flat = [np.asarray(leaf).reshape(self._together, -1) for leaf in leaves]
            sums.update(zip(call, np.concatenate(flat, axis=1, dtype=np.float64), strict=False))

        for first in range(0, len(calls), some):
            begun = calls[first : first + some]
            if self.pool is None:
                go_through(*begun)
            else:
                self.pool.each(go_through, begun)
            yield from ((piece, sums.pop(piece)) for call in begun for piece in call)

    def _part(self, part: Part) -> tuple[tuple[Tree, Any] | None, ClientSamples | None, int]:
        """Return the samples of a part on the device and in memory, and the rows in a step of a pass."""
        data = self.problem.data.part(part)
        if part == "validation" and self._validation is None and data is not None:  # only if somebody asks for it
            self._validation = self._load(data, np.zeros(data.num_samples))
        loaded = {"train": self._train, "validation": self._validation, "test": self._test}[part]
        return loaded, data, self.layout.rows[part]

    def personal(self, models: Iterable[tuple[int, Tree]]) -> dict[str, float]:
        """Return the means over (client, its own model) on the client's own samples, of the clients on the panel."""
        return personal_means(self.problem, self.personal_sums(models))

    def personal_sums(self, models: Iterable[tuple[int, Tree]]) -> Iterator[PersonalSums]:
        """Yield the sums over the own samples of each client on the panel, at its own model."""
        position = {int(i): j for j, i in enumerate(self.problem.data.panel)}
        for i, model in models:
            client = position.get(i)
            if client is not None:
                x = tree.cast(model, self.dtype)
                sums, size = self._over(x, "train", client)
                test, tested = self._over(x, "test", client)
                yield PersonalSums(i, sums.loss, sums.correct, size, test.correct, tested)

    def each(self, xbar: Tree, part: Part, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions at xbar of each sample of a part of the data.

        Computed some rows of a shard at a time; what is gathered must not exceed ``GATHERED`` bytes.
        """
        x = tree.cast(xbar, self.dtype)
        loaded, data, rows = self._part(part)
        n = 0 if data is None else data.num_samples
        per_sample: NDArray[Any] | None = None
        for piece in [] if data is None else division(data, self.problem.data.panel, self.layout.clients):
            for first in range(piece.start, piece.stop, rows):
                with precision.scope(self.dtype):
                    assert loaded is not None
                    values = np.asarray(self._each(x, loaded[0], first, piece.stop, rows=rows, kind=kind))
                if per_sample is None:
                    check_gathered(n, values)
                    per_sample = np.empty((n, *values.shape[1:]), values.dtype)
                stop = min(first + rows, piece.stop)
                per_sample[first:stop] = values[: stop - first]
        return np.zeros(0) if per_sample is None else per_sample

    def _over(self, x: Tree, part: Part, client: int) -> tuple[Sums, int]:
        """Return the sums over the samples of a client, given by its place on the panel, and their number."""
        loaded, data, rows = self._part(part)
        if loaded is None or data is None:
            return Sums(0.0, 0.0, 0.0), 0
        start, stop = map(int, data.offsets[client : client + 2])
        with precision.scope(self.dtype):
            sums, _ = self._pass(x, *loaded, start, stop, rows=rows)
            return Sums(*(float(value) for value in sums)), stop - start

    def _load(self, part: ClientSamples, weights: Any) -> tuple[Tree, Any]:
        with precision.scope(self.dtype):
            samples = jax.device_put(precision.samples(part.samples, self.dtype))
            return samples, jax.device_put(np.asarray(weights, self.dtype))


def check_gathered(samples: int, rows: NDArray[Any]) -> None:
    """Refuse to gather more than memory should be spent on, given the values of some samples."""
    needed = samples * rows.itemsize * math.prod(rows.shape[1:])
    if needed > GATHERED:
        raise ValueError(
            f"Metrics gather the outputs of all samples, at most {GATHERED / 1e9:.2g} GB, got {needed / 1e9:.2g} GB "
            f"for {samples:,} samples with {math.prod(rows.shape[1:]):,} numbers each; give the problem smaller "
            "outputs=..., or fewer test samples."
        )


def _each(problem: Problem, x: Tree, samples: Tree, first: Any, stop: Any, rows: int, kind: Kind) -> jax.Array:
    """Return what is wanted of each sample of a chunk; rows after the last sample repeat it."""
    row = jnp.minimum(first + jnp.arange(rows, dtype=jnp.int32), stop - 1)
    batch = tree.map(lambda a: a[row], samples)
    return problem.each(x, batch, kind)


def _several_sums(
    problem: Problem, x: Tree, samples: Tree, weights: Any, starts: Any, stops: Any, rows: int, gradient: bool
) -> tuple[Sums, Tree | None]:
    """Return the sums over several pieces, one after the other, each an entry of each array."""

    def one(piece: Any) -> tuple[Sums, Tree | None]:
        return _sums(problem, x, samples, weights, piece[0], piece[1], rows, gradient)

    return jax.lax.map(one, (starts, stops))


def _sums(
    problem: Problem, x: Tree, samples: Tree, weights: Any, start: Any, stop: Any, rows: int, gradient: bool = False
) -> tuple[Sums, Tree | None]:
    """Return the sums over the rows from start to stop and, if wanted, the gradient of the weighted loss."""
    loss = rewrite.faster(problem.loss)
    correct = None if problem.correct is None else rewrite.faster(problem.correct)
    rows = rewrite.rows_at_a_time(problem.loss, x, samples, rows)

    def chunk(x: Tree, first: Any) -> tuple[jax.Array, Sums]:
        row = first + jnp.arange(rows, dtype=jnp.int32)
        used, row = row < stop, jnp.minimum(row, stop - 1)
        batch = tree.map(lambda a: a[row], samples)
        losses = jnp.where(used, loss(x, batch), 0)
        right = used & correct(x, batch) if correct is not None else jnp.zeros(rows)
        weighted = jnp.dot(weights[row], losses)
        return weighted, Sums(weighted, jnp.sum(losses), jnp.sum(right, dtype=losses.dtype))

    def step(j: Any, total: tuple[Sums, Tree | None]) -> tuple[Sums, Tree | None]:
        first = start + j * rows
        if gradient:
            (_, sums), slope = jax.value_and_grad(chunk, has_aux=True)(x, first)
            return tree.add(total, (sums, slope))
        return tree.add(total, (chunk(x, first)[1], None))

    zero = jnp.zeros((), weights.dtype)
    total = (Sums(zero, zero, zero), tree.map(jnp.zeros_like, x) if gradient else None)
    return jax.lax.fori_loop(0, -(-(stop - start) // rows), step, total)
