"""FedProx: FedAvg with a proximal term (Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from feddr import limits
from feddr.algorithms.algorithm import Prox, Uploads
from feddr.algorithms.fedavg import FedAvg, Server
from feddr.local import Solution, Subproblem
from feddr.tree import Tree

_AVERAGE = FedAvg()


@dataclass(frozen=True)
class FedProx:
    """Each active client minimises f_i(x) + mu/2 ||x - xbar||^2 from xbar; the server averages as in FedAvg.

    Parameters
    ----------
    mu
        Strength of the proximal term. FedAvg is the limit mu = 0.

    References
    ----------
    T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith. Federated Optimization in Heterogeneous Networks.
    MLSys 2020.
    """

    mu: float

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    mean_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        limits.numbers(self, "mu")
        if not 0 < self.mu < float("inf"):
            raise ValueError(f"mu must be positive, got {self.mu}; mu = 0 is FedAvg.")

    def server(self, x0: Tree) -> Server:
        return _AVERAGE.server(x0)

    def broadcast(self, s: Server) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> None:
        """Return nothing: a client keeps nothing from one round to the next."""

    def subproblem(self, c: None, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar, center=xbar, eta=1.0 / self.mu)

    def finish(self, c: None, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[None, Tree]:
        return _AVERAGE.finish(c, xbar, sub, solution)

    def counted(self, c: None, x: Tree) -> Tree:
        return _AVERAGE.counted(c, x)

    def upload(self, x: Tree, before: Tree, xbar: Tree) -> Tree:
        return _AVERAGE.upload(x, before, xbar)

    def rejoin(self, xbar: Tree) -> None:
        """Return nothing: there was nothing to lose."""

    def drift(self, s: Server, total: Tree) -> float:
        return _AVERAGE.drift(s, total)

    def aggregate(self, s: Server, uploads: Uploads, prox: Prox) -> Server:
        return _AVERAGE.aggregate(s, uploads, prox)
