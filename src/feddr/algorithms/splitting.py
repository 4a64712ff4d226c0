"""The rules that FedPD and FedSplit share: every client in every round, and xbar the weighted mean of their uploads."""

from dataclasses import dataclass
from typing import Any, ClassVar

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvgServer
from feddr.algorithms.step_sizes import check_start
from feddr.algorithms.uploading import Uploading
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


@dataclass(frozen=True, repr=False)
class Splitting(Uploading):
    """Rules of the server, and the two numbers that both methods have; the methods describe them."""

    eta: float
    start: str = "xbar"

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "eta")
        check_start(self.start)

    def server(self, x0: Tree) -> FedAvgServer:
        return FedAvgServer(x0)

    def broadcast(self, s: FedAvgServer) -> Tree:
        return s.xbar

    def start_point(self, c: Any, xbar: Tree) -> Tree:
        """Return where the local solver of a client in state c starts."""
        return xbar if self.start == "xbar" else c.x

    def increment(self, upload: Tree, before: Tree, xbar: Tree) -> Tree:
        return upload

    def invariant_gap(self, s: FedAvgServer, total: Tree) -> float:
        return tree.norm(tree.sub(s.xbar, total))

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(uploads.sum)
