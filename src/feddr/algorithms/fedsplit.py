"""FedSplit: Peaceman-Rachford splitting (Pathak and Wainwright 2020)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvgServer
from feddr.algorithms.step_sizes import check_start
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class FedSplitClient(NamedTuple):
    """State of a client: the splitting variable z_i, and the last local model x_i."""

    z: Tree
    x: Tree


@dataclass(frozen=True)
class FedSplit:
    """Peaceman-Rachford splitting.

    Every client, and then the server, compute

        x_i  ~= argmin f_i(x) + ||x - (2 xbar - z_i)||^2 / (2 eta),   started at xbar, or at x_i
        z_i  := z_i + 2 (x_i - xbar)
        xbar := sum_i w_i z_i

    Parameters
    ----------
    eta
        Step size of the proximal step.
    start
        Where the local solver starts: at ``"xbar"``, or at the client's ``"own"`` last model.

    References
    ----------
    R. Pathak, M. J. Wainwright. FedSplit: An Algorithmic Framework for Fast Federated Optimization. NeurIPS 2020.
    It is FedDR with alpha = 2 and g = 0.

    Examples
    --------
    >>> FedSplit(eta=10.0)
    FedSplit(eta=10.0, start='xbar')
    """

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

    def client(self, x0: Tree, xbar: Tree) -> FedSplitClient:
        return FedSplitClient(z=x0, x=x0)

    def subproblem(self, c: FedSplitClient, xbar: Tree) -> Subproblem:
        reflected = tree.map(lambda a, z: 2 * a - z, xbar, c.z)
        start = xbar if self.start == "xbar" else c.x
        return Subproblem(start=start, center=reflected, eta=self.eta)

    def finish(self, c: FedSplitClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedSplitClient, Tree]:
        z = tree.axpy(2.0, tree.sub(solution.x, xbar), c.z)
        return FedSplitClient(z, solution.x), z

    def absolute_upload(self, c: FedSplitClient, x: Tree) -> Tree:
        return c.z

    def increment(self, z: Tree, before: Tree, xbar: Tree) -> Tree:
        return z

    def recover(self, xbar: Tree) -> FedSplitClient:
        return FedSplitClient(z=xbar, x=xbar)

    def invariant_gap(self, s: FedAvgServer, total: Tree) -> float:
        return tree.norm(tree.sub(s.xbar, total))

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(uploads.sum)
