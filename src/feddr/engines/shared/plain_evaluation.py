"""Evaluation in plain steps, for problems in any library: what the compiled ``Evaluator`` must agree with."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.algorithms.algorithm import ProblemLike
from feddr.data import Samples
from feddr.engines.shared.evaluation import Kind, check_gathered
from feddr.engines.shared.pieces import Part
from feddr.tree import Tree


class PlainEvaluator:
    """Evaluates models on a problem, with its own methods, all samples of a part at a time."""

    def __init__(self, problem: ProblemLike, dtype: Any) -> None:
        self.problem, self.dtype = problem, np.dtype(dtype)
        self._right = getattr(problem, "correct", None) is not None

    def at(self, xbar: Tree) -> dict[str, float]:
        """Return F, f, g, the losses and accuracies, the gradient mapping and the sparsity at xbar."""
        x, data = tree.cast(xbar, self.dtype), self.problem.data
        f, F = self.problem.f(x), self.problem.F(x)
        return {
            "F": F,
            "f": f,
            "g": F - f,
            "train_loss": float(np.mean(self._of(x, data.train.samples, "loss"), dtype=np.float64)),
            "train_accuracy": self._accuracy(x, data.train.samples),
            "test_accuracy": self._accuracy(x, {} if data.test is None else data.test.samples),
            "gradient_mapping": tree.norm(self.problem.gradient_mapping(x)),
            "sparsity": sum(int(np.sum(leaf == 0)) for leaf in tree.leaves(x)) / tree.size(x),
        }

    def personal(self, models: Iterable[tuple[int, Tree]]) -> dict[str, float]:
        """Return the means over (client, its own model) on the client's own samples, of the clients on the panel."""
        data = self.problem.data
        position = {int(i): j for j, i in enumerate(data.panel)}
        loss, right, tested = [], [], []
        for i, model in models:
            if i in position:
                x, own = tree.cast(model, self.dtype), data.train.client(position[i])
                loss.append(self._of(x, own, "loss"))
                if self._right:
                    right.append(self._of(x, own, "correct"))
                    test = {} if data.test is None else data.test.client(position[i])
                    tested += [self._of(x, test, "correct")] if test else []
        names = {"personal_train_loss": loss, "personal_train_accuracy": right, "personal_test_accuracy": tested}
        return {name: _mean(values) for name, values in names.items()}

    def each(self, xbar: Tree, part: Part, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions at xbar of each sample of a part of the data."""
        samples = self.problem.data.part(part)
        assert samples is not None
        x = tree.cast(xbar, self.dtype)
        if kind == "outputs":
            check_gathered(samples.num_samples, self._of(x, {k: a[:1] for k, a in samples.samples.items()}, kind))
        return self._of(x, samples.samples, kind)

    def _accuracy(self, x: Tree, samples: Samples) -> float:
        return _mean([self._of(x, samples, "correct")]) if self._right and samples else math.nan

    def _of(self, x: Tree, samples: Samples, kind: Kind) -> NDArray[Any]:
        with precision.scope(self.dtype):
            return np.asarray(self.problem.each(x, precision.samples(samples, self.dtype), kind))


def _mean(values: list[NDArray[Any]]) -> float:
    together = np.concatenate(values) if values else np.zeros(0)
    return float(np.mean(together, dtype=np.float64)) if len(together) else math.nan
