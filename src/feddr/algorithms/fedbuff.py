"""FedBuff: buffered asynchronous aggregation (Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba 2022)."""

import math
from dataclasses import dataclass
from typing import Any

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvg, FedAvgServer
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


@dataclass(frozen=True, repr=False)
class FedBuff(FedAvg):
    """The server takes a step when it has heard from ``buffer`` clients.

    Client i minimises f_i from the version xbar^{k-d} that it read and sends how far it went. With K changes in the
    buffer, the server computes

        xbar := xbar + server_lr * sum over the buffer of w_i s(d_i) (x_i - xbar^{k-d_i}) / sum of w_i,
        s(d) = 1 / sqrt(1 + d)

    which for equal weights is the published mean over the buffer.

    Parameters
    ----------
    buffer
        Uploads in a step, K.
    server_lr
        Step size of the server.

    References
    ----------
    J. Nguyen, K. Malik, H. Zhan, A. Yousefpour, M. Rabbat, M. Malek, D. Huba. Federated Learning with Buffered
    Asynchronous Aggregation. AISTATS 2022.

    Examples
    --------
    >>> FedBuff(buffer=5)
    FedBuff(buffer=5, server_lr=1.0)
    >>> FedBuff(buffer=5).factor(staleness=3)
    0.5
    """

    buffer: int = 10
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        scalars.count(self, "buffer", 1)
        scalars.positive(self, "server_lr")

    def factor(self, staleness: int) -> float:
        return 1.0 / math.sqrt(1.0 + staleness)

    def finish(self, c: Any, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Any, Tree]:
        c, x = super().finish(c, xbar, sub, solution)
        return c, tree.increment(x, xbar)

    def increment(self, x: Tree, before: Tree, xbar: Tree) -> Tree:
        return tree.increment(x, xbar)

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(tree.axpy(self.server_lr / uploads.weight, uploads.sum, s.xbar))
