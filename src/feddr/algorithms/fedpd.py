"""FedPD: a primal-dual method (Zhang, Hong, Dhople, Yin and Liu 2021), communicating in every round."""

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


class FedPDClient(NamedTuple):
    """State of a client: its model x_i and its multiplier lambda_i."""

    x: Tree
    dual: Tree


@dataclass(frozen=True)
class FedPD:
    """The primal-dual method with communication in every round.

    Every client, and then the server, compute

        x_i      ~= argmin f_i(x) + <lambda_i, x> + ||x - xbar||^2 / (2 eta),   started at xbar, or at x_i
        lambda_i := lambda_i + (x_i - xbar) / eta
        xbar     := sum_i w_i (x_i + eta lambda_i)

    Parameters
    ----------
    eta
        Inverse of the penalty.
    start
        Where the local solver starts: at ``"xbar"``, or at the client's ``"own"`` last model.

    References
    ----------
    X. Zhang, M. Hong, S. Dhople, W. Yin, Y. Liu. FedPD: A Federated Learning Framework with Adaptivity to Non-IID Data.
    IEEE Transactions on Signal Processing 2021. With communication in every round it is FedDR with alpha = 1 and g = 0.

    Examples
    --------
    >>> FedPD(eta=10.0)
    FedPD(eta=10.0, start='xbar')
    >>> FedPD(eta=10.0).partial
    False
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

    def client(self, x0: Tree, xbar: Tree) -> FedPDClient:
        return FedPDClient(x=x0, dual=tree.zeros_like(x0))

    def subproblem(self, c: FedPDClient, xbar: Tree) -> Subproblem:
        start = xbar if self.start == "xbar" else c.x
        return Subproblem(start=start, center=xbar, eta=self.eta, linear=c.dual)

    def finish(self, c: FedPDClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedPDClient, Tree]:
        x = solution.x
        dual = tree.axpy(1.0 / self.eta, tree.sub(x, xbar), c.dual)
        return FedPDClient(x, dual), tree.axpy(self.eta, dual, x)

    def absolute_upload(self, c: FedPDClient, x: Tree) -> Tree:
        return tree.axpy(self.eta, c.dual, c.x)

    def increment(self, counted: Tree, before: Tree, xbar: Tree) -> Tree:
        return counted

    def recover(self, xbar: Tree) -> FedPDClient:
        return FedPDClient(x=xbar, dual=tree.zeros_like(xbar))

    def invariant_gap(self, s: FedAvgServer, total: Tree) -> float:
        return tree.norm(tree.sub(s.xbar, total))

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(uploads.sum)
