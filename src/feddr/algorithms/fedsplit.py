"""FedSplit: Peaceman-Rachford splitting (Pathak and Wainwright 2020)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import limits, tree
from feddr.algorithms.algorithm import Prox, Uploads
from feddr.algorithms.fedavg import Server
from feddr.algorithms.stepsizes import check_start
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


class Client(NamedTuple):
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
        return Client(z=x0, x=x0)

    def subproblem(self, c: Client, xbar: Tree) -> Subproblem:
        reflected = tree.map(lambda a, z: 2 * a - z, xbar, c.z)
        start = xbar if self.start == "xbar" else c.x
        return Subproblem(start=start, center=reflected, eta=self.eta)

    def finish(self, c: Client, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Client, Tree]:
        z = tree.axpy(2.0, tree.sub(solution.x, xbar), c.z)
        return Client(z, solution.x), z

    def counted(self, c: Client, x: Tree) -> Tree:
        return c.z

    def upload(self, z: Tree, before: Tree, xbar: Tree) -> Tree:
        return z

    def rejoin(self, xbar: Tree) -> Client:
        return Client(z=xbar, x=xbar)

    def drift(self, s: Server, total: Tree) -> float:
        return tree.norm(tree.sub(s.xbar, total))

    def aggregate(self, s: Server, uploads: Uploads, prox: Prox) -> Server:
        return Server(uploads.sum)
