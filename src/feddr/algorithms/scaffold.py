"""SCAFFOLD: FedAvg with control variates (Karimireddy, Kale, Mohri, Reddi, Stich and Suresh 2020)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.uploading import Uploading, sent
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class ScaffoldClient(NamedTuple):
    """State of a client: its control variate c_i; if uploads are compressed, what was counted and what was left out."""

    control: Tree
    counted: Tree | None = None
    error: Tree | None = None


class ScaffoldMessage(NamedTuple):
    """What travels in both directions: a model, or a change of one, and a control variate, or a change of one."""

    x: Tree
    control: Tree


class ScaffoldServer(NamedTuple):
    """State of the server: the model and the control variate c = sum_i w_i c_i."""

    xbar: Tree
    control: Tree


@dataclass(frozen=True, repr=False)
class Scaffold(Uploading):
    """Local training with control variates.

    Each active client i, and then the server, compute

        x_i  ~= argmin f_i(x) + <c - c_i, x>,   started at xbar
        c_i  := mean of the gradients of f_i along the way (the paper's option II)
        xbar := xbar + lr * sum over active of w_i (x_i - xbar) / sum over active of w_i
        c    := c + sum over active of w_i (c_i - its previous value)

    Parameters
    ----------
    server_lr
        Step size of the server.
    upload
        How clients compress both x_i - xbar and the change of c_i (``feddr.compress``), each on its own. c_i is then
        what the server counts, so that c = sum_i w_i c_i stays exact.

    References
    ----------
    S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh. SCAFFOLD: Stochastic Controlled
    Averaging for Federated Learning. ICML 2020. For plain SGD, option II's c_i - c + (xbar - x_i) / (K lr) is the mean
    of the K gradients; taking the mean itself makes the rule fit every local solver.

    Examples
    --------
    >>> import numpy as np
    >>> Scaffold(server_lr=0.5)
    Scaffold(server_lr=0.5)
    >>> Scaffold().server(np.zeros(2))
    ScaffoldServer(xbar=array([0., 0.]), control=array([0., 0.]))
    """

    server_lr: float = 1.0

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scalars.positive(self, "server_lr")

    def server(self, x0: Tree) -> ScaffoldServer:
        return ScaffoldServer(x0, tree.zeros_like(x0))

    def broadcast(self, s: ScaffoldServer) -> ScaffoldMessage:
        return ScaffoldMessage(s.xbar, s.control)

    def client(self, x0: Tree, message: ScaffoldMessage) -> ScaffoldClient:
        zero = tree.zeros_like(x0)
        return ScaffoldClient(zero) if self.upload is None else ScaffoldClient(zero, message.x, zero)

    def subproblem(self, c: ScaffoldClient, message: ScaffoldMessage) -> Subproblem:
        return Subproblem(start=message.x, linear=tree.sub(message.control, c.control))

    def finish(
        self,
        c: ScaffoldClient,
        message: ScaffoldMessage,
        sub: Subproblem,
        solution: Solution,
    ) -> tuple[ScaffoldClient, ScaffoldMessage]:
        x, error = None, None
        if self.upload is not None:
            change, error = sent(self.upload, tree.sub(solution.x, message.x), c.error, solution.draw)
            x = tree.add(message.x, change)
        state = ScaffoldClient(feedback(self.upload, solution.gradient, c.control, solution.draw), x, error)
        counted = self.absolute_upload(state, solution.x)
        return state, self.increment(counted, ScaffoldMessage(message.x, c.control), message)

    def parts(self, upload: ScaffoldMessage) -> tuple[Tree, ...]:
        return tuple(upload)

    def base(self, before: ScaffoldMessage, message: ScaffoldMessage) -> ScaffoldMessage:
        return ScaffoldMessage(message.x, before.control)

    def absolute_upload(self, c: ScaffoldClient, x: Tree) -> ScaffoldMessage:
        return ScaffoldMessage(x if c.counted is None else c.counted, c.control)

    def increment(self, counted: ScaffoldMessage, before: ScaffoldMessage, message: ScaffoldMessage) -> ScaffoldMessage:
        return ScaffoldMessage(tree.increment(counted.x, message.x), tree.increment(counted.control, before.control))

    def recover(self, message: ScaffoldMessage) -> ScaffoldClient:
        return self.client(message.x, message)._replace(
            control=message.control
        )  # then c - c_i = 0, and the client begins as in FedAvg

    def invariant_gap(self, s: ScaffoldServer, total: ScaffoldMessage) -> float:
        return tree.norm(tree.sub(s.control, total.control))

    def aggregate(self, s: ScaffoldServer, uploads: Uploads, prox: Prox) -> ScaffoldServer:
        change: ScaffoldMessage = uploads.sum
        xbar = tree.axpy(self.server_lr / uploads.weight, change.x, s.xbar)
        return ScaffoldServer(xbar, tree.add(s.control, change.control))
