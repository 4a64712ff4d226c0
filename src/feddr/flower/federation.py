"""``Federation``: what the server must know of the problem, without any data of the clients."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from feddr.flower import site_metrics
from feddr.flower.description import ModelDescription
from feddr.flower.shared_table import SharedTable
from feddr.metrics.metric import Metric, MetricFunction, choose
from feddr.preparation import Preparation
from feddr.problem import Problem
from feddr.problem.initial import start
from feddr.problem.weights import scaled
from feddr.prox import Regulariser, Zero
from feddr.tree import Tree


@dataclass(frozen=True, eq=False)
class Federation:
    """minimise sum_i w_i f_i(x) + g(x), where the f_i stay with the nodes.

    Parameters
    ----------
    init
        The start x^0: any pytree of arrays. Or a ``SharedTable``: then the nodes agree on how to prepare their tables
        before the first update, and the run begins with the start of its model.
    clients
        Their number n. They are 0 to n - 1, each named by the ``partition-id`` of its node.
    g
        A regulariser of ``feddr.prox``; None for g = 0.
    weights
        ``"uniform"``, ``"samples"``, for which nodes report how many samples they have and the run waits until all
        have, or one positive number for each client.
    evaluation
        How xbar is evaluated. A Problem, on data that the server has of its own; ``"nodes"``, where each node reports
        its mean loss and accuracies and the numbers of its samples; or None, and the history holds only what the
        server knows: bytes, steps, g, sparsity and staleness.
    metrics
        Further metrics, as in ``simulate``. With ``evaluation="nodes"`` those that follow from a few sums of each site:
        loss, accuracy, f1, log_loss, r2 and calibration_error, equal to those over the samples of all sites; AUC needs
        the order of all scores, which sites do not tell.
    description
        What the model is, so that ``feddr.load`` and ``feddr predict`` read the run's folder; known already where there
        is a ``SharedTable``, or a Problem for ``evaluation``.
    preparation
        What the nodes of a ``SharedTable`` have agreed on; filled in by the run.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> federation = feddr.flower.Federation(init=np.zeros(13), clients=4, g=feddr.prox.L1(0.01))
    >>> federation.known_weights()
    [0.25, 0.25, 0.25, 0.25]
    """

    init: Tree
    clients: int
    g: Regulariser | None = None
    weights: str | Sequence[float] = "uniform"
    evaluation: Problem | Literal["nodes"] | None = None
    metrics: Sequence[str | Metric | MetricFunction] = ()
    description: ModelDescription | None = None
    preparation: Preparation | None = None

    def __post_init__(self) -> None:
        if type(self.clients) is not int or self.clients < 1:
            raise ValueError(f"A federation needs at least one client, got clients={self.clients!r}.")
        if not isinstance(self.init, SharedTable):
            object.__setattr__(self, "init", start(self.init))
        if isinstance(self.weights, str):
            if self.weights not in ("uniform", "samples"):
                raise ValueError(f'weights must be "uniform", "samples" or one number a client, got {self.weights!r}.')
        elif len(self.weights) != self.clients or not all(0 < w < float("inf") for w in self.weights):
            raise ValueError(f"weights must be {self.clients} positive numbers, got {list(self.weights)}.")
        if not (self.evaluation is None or self.evaluation == "nodes" or isinstance(self.evaluation, Problem)):
            raise ValueError(f'evaluation must be a Problem, "nodes" or None, got {self.evaluation!r}.')
        chosen = choose(self.metrics)
        if self.evaluation == "nodes":
            site_metrics.check(chosen)
        elif chosen and self.evaluation is None:
            raise ValueError(
                f"Further metrics need an evaluation, got metrics={list(self.metrics)} and evaluation=None; give "
                'evaluation a Problem or "nodes", or leave the metrics out.'
            )

    @property
    def regulariser(self) -> Regulariser:
        """The regulariser g, which is Zero where none was given."""
        return Zero() if self.g is None else self.g

    def known_weights(self) -> list[float] | None:
        """Return the weights, None where nodes have to report their samples first."""
        if self.weights == "samples":
            return None
        weights = np.ones(self.clients) if self.weights == "uniform" else np.asarray(self.weights, np.float64)
        return [float(w) for w in scaled(weights)]

    def sample_weights(self, counts: dict[int, int]) -> list[float]:
        """Return w_i = n_i / N."""
        total = sum(counts.values())
        return [counts[i] / total for i in range(self.clients)]

    @cached_property
    def preparation_text(self) -> str:
        """The preparation of a shared table as nodes receive it; empty without one."""
        return "" if self.preparation is None else json.dumps(self.preparation.to_dict(), allow_nan=False)

    def prepared(self, preparation: Preparation) -> "Federation":
        """Return the federation of a shared table after its sites have agreed: with a start, and a description."""
        assert isinstance(self.init, SharedTable)
        table, model = self.init, self.init.build(preparation)
        task: Literal["regression", "classification"] = "regression" if table.regression else "classification"
        described = ModelDescription(model, task, preparation.features, preparation.classes, preparation=preparation)
        return replace(self, init=model.init(table.init_seed), description=described, preparation=preparation)
