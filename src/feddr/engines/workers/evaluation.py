"""Evaluation on workers: each goes through its own samples and sends sums, or a row of outputs for each sample."""

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms.algorithm import ProblemLike
from feddr.certify.clients import ClientTerms
from feddr.engines.shared.evaluation import Kind
from feddr.engines.shared.means import metrics, personal_means
from feddr.engines.shared.pieces import Part
from feddr.engines.shared.shards import Vector
from feddr.tree import Tree

if TYPE_CHECKING:
    from feddr.engines.workers.run import ClusterRun


class ClusterEvaluator:
    """Evaluates the global model on the samples that workers have, each on its own."""

    def __init__(self, run: "ClusterRun", problem: ProblemLike, dtype: Any) -> None:
        self.run, self.problem, self.dtype = run, problem, dtype
        self._g = jax.jit(problem.regulariser.value)

    def at(self, xbar: Tree) -> dict[str, float]:
        """Return F, f, g, the losses and accuracies, the gradient mapping and the sparsity at xbar."""
        x = tree.cast(xbar, self.dtype)
        (train,) = self._sums(x, "train", True)
        tested = self.problem.data.test is not None and self.problem.data.test.num_samples
        test = self._sums(x, "test", False) if tested else []
        return metrics(self.problem, x, train, test[0] if test else None, self._g)

    def personal(self, models: Iterable[tuple[int, Tree]]) -> dict[str, float]:
        """Return the means over the clients' own models, which are where they are."""
        del models
        sums = self._ask("personal")
        return personal_means(self.problem, itertools.chain.from_iterable(sums))

    def each(self, xbar: Tree, part: Part, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions at xbar of each sample of a part."""
        gathered = self._ask("each", self._sent(tree.cast(xbar, self.dtype)), part, kind)
        self.run.fleet.received += sum(values.nbytes for values in gathered)
        return np.concatenate([values for values in gathered if len(values)] or [np.zeros(0)])

    def measure(self, k: int, xbar: Tree, lowers: Any) -> list[ClientTerms]:
        """Return what a certificate needs of all clients after round k, some of them from each worker, in order."""
        terms: list[ClientTerms] = self._ask("measure", k, self._sent(xbar), lowers)
        sums = (vector for one in terms for _, vector in (*one.counted, *one.objective))
        self.run.fleet.received += sum(vector.nbytes for vector in sums)
        return terms

    def _sums(self, x: Tree, part: Part, gradient: bool) -> list[Vector]:
        return self.run.total(self._ask("sums", self._sent(x), part, gradient))

    def _sent(self, x: Tree) -> Any:
        self.run.fleet.sent += len(self.run.fleet.members) * num_bytes(x)
        return self.run.fleet.ray.put(x)

    def _ask(self, method: str, *arguments: Any) -> list[Any]:
        fleet = self.run.fleet
        answers = fleet.ask(dict.fromkeys(range(len(fleet.members)), (method, self.run.through, *arguments)))
        return [answers[j] for j in sorted(answers)]


def num_bytes(a: Tree) -> int:
    """Return the bytes of the arrays of a tree."""
    return sum(np.asarray(leaf).nbytes for leaf in tree.leaves(a))
