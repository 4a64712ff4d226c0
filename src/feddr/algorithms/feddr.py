"""FedDR: randomised Douglas-Rachford splitting (Tran-Dinh, Pham, Phan and Nguyen 2021, Algorithm 1)."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import Prox, Uploads
from feddr.local import Solution, Subproblem
from feddr.tree import Tree

INITS = ("lazy", "full", "joining")


class Client(NamedTuple):
    """State of a client: its model x_i, its residual y_i, and the reflection xhat_i that the server counts for it."""

    x: Tree
    y: Tree
    xhat: Tree


class Server(NamedTuple):
    """State of the server: the mean xtilde of all xhat_i, the model xbar, and the weight of the clients in the mean."""

    xtilde: Tree
    xbar: Tree
    weight: float


@dataclass(frozen=True)
class FedDR:
    """Randomised Douglas-Rachford splitting for nonconvex federated composite optimisation.

    Each active client i, and then the server, compute

        y_i    := y_i + alpha (xbar - x_i)
        x_i    ~= argmin f_i(x) + ||x - y_i||^2 / (2 eta),   started at x_i
        xhat_i := 2 x_i - y_i
        xtilde := xtilde + sum over active clients of w_i (xhat_i - its previous value)
        xbar   := prox_{eta g}(xtilde)

    so that xtilde = sum_i w_i xhat_i after every round.

    Parameters
    ----------
    eta
        Step size of both proximal steps; the theory asks for eta < (2 - alpha) / (2 L).
    alpha
        Relaxation, in (0, 2]. An engine replaces "auto", for both, by what ``feddr.theory.recommend`` says.
    init
        ``"lazy"``: x_i = y_i = xhat_i = x^0 for everybody, and no start-up round.
        ``"full"``: a start-up round in which every client solves its subproblem at x^0.
        ``"joining"``: a client enters the mean when it is first heard from, starting at the xbar that it was sent, so
        that clients not heard from do not hold xtilde back at x^0. Once everybody has joined it is Algorithm 1.

    References
    ----------
    Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen. FedDR - Randomized Douglas-Rachford Splitting Algorithms for
    Nonconvex Federated Composite Optimization. NeurIPS 2021. As printed, its initialisation breaks the identity for
    xtilde by a constant; the three above keep it.
    """

    eta: float | Literal["auto"]
    alpha: float | Literal["auto"] = 1.0
    init: str = "lazy"

    composite: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    mean_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.eta != "auto" and not 0 < self.eta < float("inf"):
            raise ValueError(f'eta must be positive, or "auto", got {self.eta}.')
        if self.alpha != "auto" and not 0 < self.alpha <= 2:
            raise ValueError(f'alpha must be in (0, 2], or "auto", got {self.alpha}.')
        if self.init not in INITS:
            raise ValueError(f"init must be one of {', '.join(INITS)}, got {self.init!r}.")

    @property
    def full_start(self) -> bool:
        return self.init == "full"

    def server(self, x0: Tree) -> Server:
        return Server(xtilde=x0, xbar=x0, weight=1.0 if self.init == "lazy" else 0.0)

    def broadcast(self, s: Server) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> Client:
        if self.init == "lazy":
            return Client(x=x0, y=x0, xhat=x0)
        return Client(x=xbar, y=xbar, xhat=tree.zeros_like(xbar))  # the server counts nothing for it yet

    def subproblem(self, c: Client, xbar: Tree) -> Subproblem:
        alpha = float(self.alpha)
        y = tree.map(lambda y, xbar, x: alpha * (xbar - x) + y, c.y, xbar, c.x)
        return Subproblem(start=c.x, center=y, eta=float(self.eta))

    def finish(self, c: Client, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Client, Tree]:
        x, y = solution.x, sub.center
        xhat = tree.map(lambda a, b: 2 * a - b, x, y)
        return Client(x, y, xhat), tree.increment(xhat, c.xhat)

    def counted(self, c: Client, x: Tree) -> Tree:
        return c.xhat

    def upload(self, xhat: Tree, before: Tree, xbar: Tree) -> Tree:
        return tree.increment(xhat, before)

    def rejoin(self, xbar: Tree) -> Client:
        return Client(x=xbar, y=xbar, xhat=tree.zeros_like(xbar))

    def drift(self, s: Server, total: Tree) -> float:
        return tree.norm(tree.sub(tree.scale(s.weight, s.xtilde), total))

    def aggregate(self, s: Server, uploads: Uploads, prox: Prox) -> Server:
        weight = s.weight if self.init == "lazy" else s.weight + uploads.joined
        xtilde = tree.map(lambda mean, change: (s.weight * mean + change) / weight, s.xtilde, uploads.sum)
        return Server(xtilde, prox(xtilde, float(self.eta)), weight)
