"""SCAFFOLD: FedAvg with control variates (Karimireddy, Kale, Mohri, Reddi, Stich and Suresh 2020)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from feddr import limits, tree
from feddr.algorithms.algorithm import Prox, Uploads
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


class Client(NamedTuple):
    """State of a client: its control variate c_i."""

    control: Tree


class Message(NamedTuple):
    """What travels in both directions: a model, or a change of one, and a control variate, or a change of one."""

    x: Tree
    control: Tree


class Server(NamedTuple):
    """State of the server: the model and the control variate c = sum_i w_i c_i."""

    xbar: Tree
    control: Tree


@dataclass(frozen=True)
class Scaffold:
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

    References
    ----------
    S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh. SCAFFOLD: Stochastic Controlled
    Averaging for Federated Learning. ICML 2020. For plain SGD, option II's c_i - c + (xbar - x_i) / (K lr) is the mean
    of the K gradients; taking the mean itself makes the rule fit every local solver.
    """

    server_lr: float = 1.0

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    mean_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        limits.positive(self, "server_lr")

    def server(self, x0: Tree) -> Server:
        return Server(x0, tree.zeros_like(x0))

    def broadcast(self, s: Server) -> Message:
        return Message(s.xbar, s.control)

    def client(self, x0: Tree, message: Message) -> Client:
        return Client(tree.zeros_like(x0))

    def subproblem(self, c: Client, message: Message) -> Subproblem:
        return Subproblem(start=message.x, linear=tree.sub(message.control, c.control))

    def finish(
        self,
        c: Client,
        message: Message,
        sub: Subproblem,
        solution: Solution,
    ) -> tuple[Client, Message]:
        change = tree.increment(solution.x, message.x)
        return Client(solution.gradient), Message(change, tree.increment(solution.gradient, c.control))

    def counted(self, c: Client, x: Tree) -> Message:
        return Message(x, c.control)

    def upload(self, counted: Message, before: Message, message: Message) -> Message:
        return Message(tree.increment(counted.x, message.x), tree.increment(counted.control, before.control))

    def rejoin(self, message: Message) -> Client:
        return Client(message.control)  # then c - c_i = 0, and the client begins as in FedAvg

    def drift(self, s: Server, total: Message) -> float:
        return tree.norm(tree.sub(s.control, total.control))

    def aggregate(self, s: Server, uploads: Uploads, prox: Prox) -> Server:
        change: Message = uploads.sum
        xbar = tree.axpy(self.server_lr / uploads.weight, change.x, s.xbar)
        return Server(xbar, tree.add(s.control, change.control))
