"""Scaffnew: ProxSkip for federated learning (Mishchenko, Malinovsky, Stich and Richtarik 2022)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvgServer
from feddr.algorithms.uploading import CompressedUploads
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.local.descent import Plain
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class ScaffnewClient(NamedTuple):
    """State of a client: its x_i as counted, its control variate h_i, and the p / lr by which h_i is to follow xbar."""

    x: Tree
    control: Tree
    rate: float


@dataclass(frozen=True, repr=False)
class Scaffnew(CompressedUploads):
    """Local training with control variates that follow from the next model: SCAFFOLD's limit at half of its bytes.

    Each client i takes some steps with the step size lr of its local solver, the server averages, and each client
    corrects h_i as soon as it is sent the mean:

        x_i  := x_i - lr (grad f_i(x_i) - h_i),   several times, started at xbar
        xbar := sum_i w_i x_i
        h_i  := h_i + (p / lr) (xbar - x_i)

    where all h_i begin at 0, so that sum_i w_i h_i = 0 after every round. Where it settles, h_i = grad f_i(xbar).

    Parameters
    ----------
    p
        The probability that clients talk after a step. With ``local.Geometric(lr, p)``, whose number of steps in a
        round is random and the same for everybody, this is the published method: for f_i with curvatures between mu
        and L, lr = 1 / L and p = sqrt(mu / L), the expected error falls by 1 - mu / L with every step, so that
        sqrt(L / mu) rounds do what L / mu rounds of one step each do. With a solver of K steps, as most people run it,
        p = 1 / K; for that there is no theorem with this rate.
    upload
        How clients compress x_i - xbar (``feddr.compress``). x_i in the last two lines is then what the server counts,
        so that sum_i w_i h_i = 0 stays exact, and the limit the same; no theorem has the rate. None for every bit.

    Notes
    -----
    With K steps of everybody and p = 1 / K it is SCAFFOLD with server_lr = 1 and everybody in every round, where
    h_i = c_i - c. Where the numbers of steps differ, p stays one number, or the sum of the h_i would not stay 0; a
    client whose K_i is above 2 / p corrects too much, and may diverge. It needs ``local.SGD`` without momentum, or
    ``local.Geometric``: the rule has lr in it.

    What a compressed upload leaves out stays in grad f_i(x) - h_i, and so in the next upload: h_i is the memory, and a
    second one beside it, as FedAvg has, would count it twice and diverge. There is no ``download``: a mean that clients
    read rounded would move the sum of the h_i in every round, for good.

    References
    ----------
    K. Mishchenko, G. Malinovsky, S. Stich, P. Richtarik. ProxSkip: Yes! Local Gradient Steps Provably Lead to
    Communication Acceleration! Finally! ICML 2022.

    Examples
    --------
    >>> Scaffnew(p=0.1)
    Scaffnew(p=0.1)
    >>> Scaffnew(p=0.1).composite, Scaffnew(p=0.1).partial
    (False, False)
    """

    p: float

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.numbers(self, "p")
        if not 0 < self.p <= 1:
            raise ValueError(f"p must be above 0 and at most 1, got {self.p}; 1 / K for clients that take K steps.")

    def server(self, x0: Tree) -> FedAvgServer:
        return FedAvgServer(x0)

    def broadcast(self, s: FedAvgServer) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> ScaffnewClient:
        return ScaffnewClient(xbar, tree.zeros_like(x0), 0.0)

    def subproblem(self, c: ScaffnewClient, xbar: Tree) -> Subproblem:
        minus = tree.map(lambda h, new, x: -h - float(c.rate) * (new - x), c.control, xbar, c.x)
        return Subproblem(start=xbar, linear=minus, descent=Plain())

    def finish(self, c: ScaffnewClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[ScaffnewClient, Tree]:
        length = float(solution.length)
        rate = self.p * float(solution.steps) / length if length > 0 else 0.0
        x = feedback(self.upload, solution.x, xbar, solution.draw)
        return ScaffnewClient(x, tree.scale(-1.0, sub.linear), rate), x

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(tree.scale(1.0 / uploads.weight, uploads.sum))
