"""AsyncFedDR: FedDR's rules on another schedule (Tran-Dinh, Pham, Phan and Nguyen 2021, Algorithm 2)."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from feddr.algorithms.algorithm import Prox, Uploads
from feddr.algorithms.feddr import Client, FedDR, Server
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


@dataclass(frozen=True)
class AsyncFedDR:
    """Asynchronous FedDR: one client at a time, with an xbar that may be stale.

    When client i, which began with the version xbar^{k-d}, has finished, it and the server compute

        y_i    := y_i + alpha (xbar^{k-d} - x_i)
        x_i    ~= argmin f_i(x) + ||x - y_i||^2 / (2 eta),   started at x_i
        xhat_i := 2 x_i - y_i
        xtilde := xtilde + w_i (xhat_i - its previous value)
        xbar   := prox_{eta g}(xtilde)

    which is FedDR with one active client and a delay d. At most one update of a client is under way, so a client's own
    variables are never stale, and xtilde = sum_i w_i xhat_i after every update.

    Parameters
    ----------
    eta
        Step size of both proximal steps.
    alpha
        Relaxation; the theory asks for alpha < 1, and for less where updates are stale
        (``theory.asynchronous.alpha_max``).
    init
        As in ``FedDR``.
    buffer
        Uploads that the server waits for before it aggregates: the general form with more than one client a step.
    tau
        The staleness that eta and alpha were chosen for. The engine warns once when an update is older.

    References
    ----------
    Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen. FedDR - Randomized Douglas-Rachford Splitting Algorithms for
    Nonconvex Federated Composite Optimization. NeurIPS 2021. As printed, its start xtilde = 0 breaks the identity for
    xtilde by a constant; FedDR's three starts keep it.
    """

    eta: float | Literal["auto"]
    alpha: float | Literal["auto"] = 1.0
    init: str = "lazy"
    buffer: int = 1
    tau: int | None = None

    composite: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    mean_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        assert self.rules is not None  # FedDR refuses what is wrong
        if self.buffer < 1:
            raise ValueError(f"buffer must be at least 1, got {self.buffer}.")
        if self.tau is not None and self.tau < 0:
            raise ValueError(f"tau must be at least 0, got {self.tau}; None for no warning.")

    @cached_property
    def rules(self) -> FedDR:
        """The synchronous method with these step sizes."""
        return FedDR(self.eta, self.alpha, self.init)

    @property
    def full_start(self) -> bool:
        return self.rules.full_start

    def factor(self, staleness: int) -> float:
        """Return 1: an increment that counted for less would break the identity for xtilde."""
        return 1.0

    def server(self, x0: Tree) -> Server:
        return self.rules.server(x0)

    def broadcast(self, s: Server) -> Tree:
        return self.rules.broadcast(s)

    def client(self, x0: Tree, xbar: Tree) -> Client:
        return self.rules.client(x0, xbar)

    def subproblem(self, c: Client, xbar: Tree) -> Subproblem:
        return self.rules.subproblem(c, xbar)

    def finish(self, c: Client, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Client, Tree]:
        return self.rules.finish(c, xbar, sub, solution)

    def counted(self, c: Client, x: Tree) -> Tree:
        return self.rules.counted(c, x)

    def upload(self, xhat: Tree, before: Tree, xbar: Tree) -> Tree:
        return self.rules.upload(xhat, before, xbar)

    def rejoin(self, xbar: Tree) -> Client:
        return self.rules.rejoin(xbar)

    def drift(self, s: Server, total: Tree) -> float:
        return self.rules.drift(s, total)

    def aggregate(self, s: Server, uploads: Uploads, prox: Prox) -> Server:
        return self.rules.aggregate(s, uploads, prox)
