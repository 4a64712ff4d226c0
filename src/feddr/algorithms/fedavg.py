"""FedAvg: local training and averaging (McMahan, Moore, Ramage, Hampson and Aguera y Arcas 2017)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree


class FedAvgServer(NamedTuple):
    """State of the server: the model."""

    xbar: Tree


@dataclass(frozen=True)
class FedAvg:
    """Each active client minimises f_i from xbar; xbar := sum over active of w_i x_i / sum over active of w_i.

    References
    ----------
    H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas. Communication-Efficient Learning of Deep Networks
    from Decentralized Data. AISTATS 2017.

    Examples
    --------
    >>> FedAvg()
    FedAvg()
    >>> FedAvg().composite, FedAvg().partial
    (False, True)
    """

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def server(self, x0: Tree) -> Any:
        return FedAvgServer(x0)

    def broadcast(self, s: Any) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> Any:
        """Return nothing: a client keeps nothing from one round to the next."""

    def subproblem(self, c: Any, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar)

    def finish(self, c: Any, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Any, Tree]:
        return None, solution.x

    def absolute_upload(self, c: Any, x: Tree) -> Tree:
        return x

    def increment(self, x: Tree, before: Tree, xbar: Tree) -> Tree:
        return x

    def recover(self, xbar: Tree) -> Any:
        """Return nothing: there was nothing to lose."""

    def invariant_gap(self, s: Any, total: Tree) -> float:
        return 0.0

    def aggregate(self, s: Any, uploads: Uploads, prox: Prox) -> Any:
        return FedAvgServer(tree.scale(1.0 / uploads.weight, uploads.sum))
