"""From sums over samples to the metrics of a history: at xbar, and at the clients' own models."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from feddr import precision, tree
from feddr.algorithms.algorithm import ProblemLike
from feddr.engines.shared.shards import Vector
from feddr.problem import gradient_mapping
from feddr.prox.regulariser import sparsity
from feddr.tree import Tree

SUMMED = 3
"""Numbers before the gradient in the sum of a shard: weighted loss, loss, right predictions."""


def metrics(
    problem: ProblemLike, x: Tree, train: Vector | None, test: Vector | None, g: Callable[[Tree], Any]
) -> dict[str, float]:
    """Return what every history has of x, given the sums over the training and the test samples."""
    assert train is not None
    n, tested = problem.data.train.num_samples, 0 if problem.data.test is None else problem.data.test.num_samples
    right = getattr(problem, "correct", None) is not None
    dtype = tree.leaves(x)[0].dtype
    with precision.scope(dtype):
        f, value = float(train[0]), float(g(x))
        mapping = gradient_mapping(problem.regulariser, x, tree.cast(tree.unravel(train[SUMMED:], x), dtype), 1.0)
    return {
        "F": f + value,
        "f": f,
        "g": value,
        "train_loss": float(train[1]) / n,
        "train_accuracy": float(train[2]) / n if right else math.nan,
        "test_accuracy": float(test[2]) / tested if right and test is not None else math.nan,
        "gradient_mapping": tree.norm(mapping),
        "sparsity": sparsity(problem.regulariser, x),
    }


class PersonalSums(NamedTuple):
    """What a client's own model does on its own samples: sums, and their numbers."""

    client: int
    loss: float
    correct: float
    samples: int
    test_correct: float
    test_samples: int


def personal_means(problem: ProblemLike, each: Iterable[PersonalSums]) -> dict[str, float]:
    """Return the means over all samples, given the sums of clients in their order."""
    loss = correct = samples = test_correct = test_samples = 0.0
    for one in each:
        loss, correct, samples = loss + one.loss, correct + one.correct, samples + one.samples
        test_correct, test_samples = test_correct + one.test_correct, test_samples + one.test_samples
    accuracy = getattr(problem, "correct", None) is not None
    return {
        "personal_train_loss": loss / samples if samples else math.nan,
        "personal_train_accuracy": correct / samples if accuracy and samples else math.nan,
        "personal_test_accuracy": test_correct / test_samples if accuracy and test_samples else math.nan,
    }
