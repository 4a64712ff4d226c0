"""FedPD: a primal-dual method (Zhang, Hong, Dhople, Yin and Liu 2021), communicating in every round."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import limits, tree
from feddr.algorithms.algorithm import Prox, Uploads
from feddr.algorithms.fedavg import Server
from feddr.algorithms.stepsizes import check_start
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


class Client(NamedTuple):
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
    """

    eta: float
    start: str = "xbar"

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    full_start: ClassVar[bool] = False
    mean_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        limits.positive(self, "eta")
        check_start(self.start)

    def server(self, x0: Tree) -> Server:
        return Server(x0)

    def broadcast(self, s: Server) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> Client:
        return Client(x=x0, dual=tree.zeros_like(x0))

    def subproblem(self, c: Client, xbar: Tree) -> Subproblem:
        start = xbar if self.start == "xbar" else c.x
        return Subproblem(start=start, center=xbar, eta=self.eta, linear=c.dual)

    def finish(self, c: Client, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Client, Tree]:
        x = solution.x
        dual = tree.axpy(1.0 / self.eta, tree.sub(x, xbar), c.dual)
        return Client(x, dual), tree.axpy(self.eta, dual, x)

    def counted(self, c: Client, x: Tree) -> Tree:
        return tree.axpy(self.eta, c.dual, c.x)

    def upload(self, counted: Tree, before: Tree, xbar: Tree) -> Tree:
        return counted

    def rejoin(self, xbar: Tree) -> Client:
        return Client(x=xbar, dual=tree.zeros_like(xbar))

    def drift(self, s: Server, total: Tree) -> float:
        return tree.norm(tree.sub(s.xbar, total))

    def aggregate(self, s: Server, uploads: Uploads, prox: Prox) -> Server:
        return Server(uploads.sum)
