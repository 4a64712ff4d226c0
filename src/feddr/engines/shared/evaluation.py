"""Evaluation: metrics at xbar, and personalised metrics of the clients' own models, in compiled passes."""

import functools
import itertools
import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.data import ClientSamples
from feddr.problem import Problem, gradient_mapping
from feddr.prox.regulariser import sparsity
from feddr.tree import Tree
from feddr.xla import batching, rewrite
from feddr.xla.thread_pool import ThreadPool

CHUNK = 1024
"""Samples in a step of a pass, at most; fewer where what is computed for them would not fit into a cache."""

GATHERED = 2**30
"""Bytes of outputs that a metric may gather."""

Kind = Literal["outputs", "loss", "correct"]
"""What is wanted of each sample."""

PIECES = 8
"""Passes, at most, into which one over all samples is divided; however many threads there are, so are the sums."""


class Sums(NamedTuple):
    """Sums over samples: weighted loss, loss, right predictions."""

    weighted: Any
    loss: Any
    correct: Any


class Evaluator:
    """Evaluates models on a problem.

    Parameters
    ----------
    problem
        The problem; its samples are put on the device once.
    dtype
        Precision of the passes.
    pool
        Threads that go through the samples, a piece for each; None for this one, and those of XLA.
    """

    def __init__(self, problem: Problem, dtype: Any, pool: ThreadPool | None = None) -> None:
        self.problem, self.dtype, self.pool = problem, np.dtype(dtype), pool
        train, test = problem.data.train, problem.data.test
        self._train = self._load(train, problem.sample_weights)
        self._test = None if test is None else self._load(test, np.zeros(test.num_samples))
        self._validation: tuple[Tree, Any] | None = None
        options = batching.evaluation_options() if pool is None else batching.compiler_options(tree.size(problem.init))
        self._pass = jax.jit(functools.partial(_sums, problem), static_argnames="gradient", compiler_options=options)
        self._g = jax.jit(problem.regulariser.value)
        self._each = jax.jit(functools.partial(_each, problem), static_argnames="kind", compiler_options=options)

    @property
    def samples(self) -> Tree:
        """The training samples on the device."""
        return self._train[0]

    def at(self, xbar: Tree) -> dict[str, float]:
        """Return F, f, g, the losses and accuracies, the gradient mapping and the sparsity at xbar."""
        x = tree.cast(xbar, self.dtype)
        n = self.problem.data.train.num_samples
        sums, gradient = self._all(x)
        with precision.scope(self.dtype):
            f, g = float(sums.weighted), float(self._g(x))
            mapping = gradient_mapping(self.problem.regulariser, x, tree.cast(gradient, self.dtype), 1.0)
        return {
            "F": f + g,
            "f": f,
            "g": g,
            "train_loss": float(sums.loss) / n,
            "train_accuracy": self._share(sums, n),
            "test_accuracy": self._test_accuracy(x),
            "gradient_mapping": tree.norm(mapping),
            "sparsity": sparsity(self.problem.regulariser, x),
        }

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        """Return f(x) and its gradient in float64."""
        sums, gradient = self._all(tree.cast(x, self.dtype))
        return float(sums.weighted), gradient

    def _all(self, x: Tree) -> tuple[Sums, Tree]:
        """Return the sums over all training samples and the gradient of f, added up in float64 in a fixed order."""
        n = self.problem.data.train.num_samples
        chunks = -(-n // CHUNK)
        bounds = [min(n, CHUNK * (j * chunks // PIECES)) for j in range(PIECES + 1)]
        pieces = [piece for piece in itertools.pairwise(bounds) if piece[0] < piece[1]]
        found: dict[tuple[int, int], tuple[Sums, Tree]] = {}

        def go_through(piece: tuple[int, int]) -> None:
            with precision.scope(self.dtype):
                sums, gradient = self._pass(x, *self._train, *piece, gradient=True)
                found[piece] = tree.map(lambda a: np.asarray(a, np.float64), (sums, gradient))

        if self.pool is None:
            for piece in pieces:
                go_through(piece)
        else:
            self.pool.each(go_through, pieces)
        return functools.reduce(tree.add, (found[piece] for piece in pieces))

    def personal(self, models: Iterable[tuple[int, Tree]]) -> dict[str, float]:
        """Return the means over (client, its own model) on the client's own samples, of the clients on the panel."""
        train, test = self.problem.data.train, self.problem.data.test
        loss = correct = samples = test_correct = test_samples = 0.0
        position = {int(i): j for j, i in enumerate(self.problem.data.panel)}
        for i, model in models:
            client = position.get(i)
            if client is None:
                continue
            x = tree.cast(model, self.dtype)
            sums = self._over(x, self._train, train, client)
            loss, correct, samples = loss + sums.loss, correct + sums.correct, samples + train.sizes[client]
            if test is not None and self._test is not None:
                test_correct += self._over(x, self._test, test, client).correct
                test_samples += test.sizes[client]
        accuracy = self.problem.correct is not None
        return {
            "personal_train_loss": float(loss / samples) if samples else np.nan,
            "personal_train_accuracy": float(correct / samples) if accuracy and samples else np.nan,
            "personal_test_accuracy": float(test_correct / test_samples) if accuracy and test_samples else np.nan,
        }

    def each(self, xbar: Tree, part: str, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions at xbar of each sample of a part of the data.

        Computed a chunk at a time; what is gathered must not exceed ``GATHERED`` bytes.
        """
        x, loaded, data = tree.cast(xbar, self.dtype), self._loaded(part), self.problem.data.part(part)
        n = 0 if data is None else data.num_samples
        found: NDArray[Any] | None = None
        for first in range(0, n, CHUNK):
            with precision.scope(self.dtype):
                assert loaded is not None
                values = np.asarray(self._each(x, loaded[0], first, n, kind=kind))
            if found is None:
                check_gathered(n, values)
                found = np.empty((n, *values.shape[1:]), values.dtype)
            found[first : first + CHUNK] = values[: n - first]
        return np.zeros(0) if found is None else found

    def _loaded(self, part: str) -> tuple[Tree, Any] | None:
        """Return a part on the device; validation samples are put there when somebody first asks for them."""
        if part == "validation" and self._validation is None and (data := self.problem.data.validation) is not None:
            self._validation = self._load(data, np.zeros(data.num_samples))
        return {"train": self._train, "validation": self._validation, "test": self._test}[part]

    def _test_accuracy(self, x: Tree) -> float:
        test = self.problem.data.test
        if test is None or self._test is None or not test.num_samples:
            return float("nan")
        with precision.scope(self.dtype):
            sums, _ = self._pass(x, *self._test, 0, test.num_samples)
            return self._share(sums, test.num_samples)

    def _share(self, sums: Sums, n: int) -> float:
        return float("nan") if self.problem.correct is None else float(sums.correct) / n

    def _over(self, x: Tree, loaded: tuple[Tree, Any], part: ClientSamples, client: int) -> Sums:
        with precision.scope(self.dtype):
            sums, _ = self._pass(x, *loaded, int(part.offsets[client]), int(part.offsets[client + 1]))
            return Sums(*(float(value) for value in sums))

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


def _each(problem: Problem, x: Tree, samples: Tree, first: Any, stop: Any, kind: Kind) -> jax.Array:
    """Return what is wanted of each sample of a chunk; rows after the last sample repeat it."""
    row = jnp.minimum(first + jnp.arange(CHUNK, dtype=jnp.int32), stop - 1)
    batch = tree.map(lambda a: a[row], samples)
    return problem.each(x, batch, kind)


def _sums(
    problem: Problem, x: Tree, samples: Tree, weights: Any, start: Any, stop: Any, gradient: bool = False
) -> tuple[Sums, Tree | None]:
    """Return the sums over the rows from start to stop and, if wanted, the gradient of the weighted loss."""
    loss = rewrite.faster(problem.loss)
    correct = None if problem.correct is None else rewrite.faster(problem.correct)
    rows = rewrite.rows_at_a_time(problem.loss, x, samples, CHUNK)

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
