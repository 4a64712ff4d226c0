"""CA2FL: buffered asynchronous aggregation with cached updates (Wang, Cao, Wu, Chen and Chen 2024)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.uploading import Uploading
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class CA2FLClient(NamedTuple):
    """State of a client: its last change h_i of the model, which the server counts for it."""

    change: Tree


class CA2FLServer(NamedTuple):
    """State of the server: the model, and h = sum_i w_i h_i, the mean of the changes that it counts."""

    xbar: Tree
    memory: Tree


@dataclass(frozen=True, repr=False)
class CA2FL(Uploading):
    """FedBuff that lets the clients which are not in the buffer take part with their last change.

    Client i minimises f_i from the version xbar^{k-d} that it read, and sends by how much its change differs from its
    last one. With M of these in the buffer, the server computes

        h_i  := x_i - xbar^{k-d},   which was 0 before the first update
        v    := h + mean over the buffer of the changes of h_i, weighted by w_i
        h    := h + sum over the buffer of w_i times the changes of h_i
        xbar := xbar + server_lr v

    so that h = sum_i w_i h_i. For equal weights it is the published rule. There the server keeps the h_i of all
    clients; here a client keeps its own, and the server their mean alone.

    Parameters
    ----------
    buffer
        Uploads in a step, M.
    server_lr
        Step size of the server.
    upload
        How clients compress the change of h_i (``feddr.compress``). h_i is then what the server counts, so that
        h = sum_i w_i h_i stays exact, and what was left out is in the next difference. None for every bit.

    Notes
    -----
    Clients that are fast do not count for more than their w_i in h, which FedBuff's mean lets them. Several steps on
    clients that differ still lead elsewhere than to the joint solution, as with FedAvg. The first steps are those of
    FedBuff without its factor for stale updates.

    References
    ----------
    Y. Wang, Y. Cao, J. Wu, R. Chen, J. Chen. Tackling the Data Heterogeneity in Asynchronous Federated Learning with
    Cached Update Calibration. ICLR 2024.

    Examples
    --------
    >>> CA2FL(buffer=5)
    CA2FL(buffer=5, server_lr=1.0)
    >>> CA2FL(buffer=5).factor(staleness=3)
    1.0
    """

    buffer: int = 10
    server_lr: float = 1.0

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.count(self, "buffer", 1)
        scalars.positive(self, "server_lr")

    def factor(self, staleness: int) -> float:
        """Return 1: a change that counted for less would break h = sum_i w_i h_i."""
        return 1.0

    def server(self, x0: Tree) -> CA2FLServer:
        return CA2FLServer(x0, tree.zeros_like(x0))

    def broadcast(self, s: CA2FLServer) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> CA2FLClient:
        return CA2FLClient(tree.zeros_like(x0))

    def subproblem(self, c: CA2FLClient, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar)

    def finish(self, c: CA2FLClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[CA2FLClient, Tree]:
        change = feedback(self.upload, tree.sub(solution.x, xbar), c.change, solution.draw)
        return CA2FLClient(change), tree.increment(change, c.change)

    def absolute_upload(self, c: CA2FLClient, x: Tree) -> Tree:
        return c.change

    def increment(self, change: Tree, before: Tree, xbar: Tree) -> Tree:
        return tree.increment(change, before)

    def recover(self, xbar: Tree) -> CA2FLClient:
        return self.client(xbar, xbar)

    def invariant_gap(self, s: CA2FLServer, total: Tree) -> float:
        return tree.norm(tree.sub(s.memory, total))

    def aggregate(self, s: CA2FLServer, uploads: Uploads, prox: Prox) -> CA2FLServer:
        direction = tree.axpy(1.0 / uploads.weight, uploads.sum, s.memory)
        return CA2FLServer(tree.axpy(self.server_lr, direction, s.xbar), tree.add(s.memory, uploads.sum))
