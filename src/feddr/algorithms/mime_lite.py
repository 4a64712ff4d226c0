"""MimeLite: local training with the server's momentum (Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh 2021)."""

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


class MimeLiteMessage(NamedTuple):
    """What the server sends: the model and the velocity."""

    x: Tree
    velocity: Tree


class MimeLiteClient(NamedTuple):
    """State of a client that compresses: its gradient as counted, and what its uploads of models have left out."""

    gradient: Tree
    error: Tree


class MimeLiteUpload(NamedTuple):
    """What a client sends: its model, and the gradient of f_i at xbar over all of its samples."""

    x: Tree
    gradient: Tree


class MimeLiteServer(NamedTuple):
    """State of the server: the model and the velocity u."""

    xbar: Tree
    velocity: Tree


@dataclass(frozen=True, repr=False)
class MimeLite(Uploading):
    """FedAvg whose clients move with the momentum of the server, held fixed while they do.

    Each active client i, and then the server, compute

        x_i  ~= argmin f_i(x) + <beta u, x>,   started at xbar
        u    := beta u + mean over the active clients of grad f_i(xbar), weighted by w_i
        xbar := mean over the active clients of x_i, weighted by w_i

    so that a step of ``local.SGD`` is x := x - lr (grad f_i(x) + beta u). With one step of everybody it is gradient
    descent with heavy-ball momentum, u := beta u + grad f(x), x := x - lr u; with beta = 0 it is FedAvg.

    Parameters
    ----------
    beta
        Momentum, at least 0 and below 1.
    upload
        How clients compress x_i - xbar and the change of their gradients, each on its own (``feddr.compress``). They
        then keep what was left out of models, and the gradient that the server counts. None for every bit, and clients
        without a state.

    Notes
    -----
    The paper writes m = (1 - beta) u and eta = lr / (1 - beta): the same steps, where m := beta m + (1 - beta) grad and
    x := x - eta (beta m + (1 - beta) grad). This is the Lite variant with SGD with momentum as its base method: it does
    without the correction of every batch's gradient by the same batch's gradient at xbar, and so, like FedAvg, it leads
    elsewhere than to the joint solution where clients differ and take several steps. The gradient at xbar is one more
    pass over a client's samples, which the history's ``local_steps`` does not count.

    References
    ----------
    S. P. Karimireddy, M. Jaggi, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich, A. T. Suresh. Breaking the Centralized
    Barrier for Cross-Device Federated Learning. NeurIPS 2021.

    Examples
    --------
    >>> MimeLite(beta=0.9)
    MimeLite(beta=0.9)
    """

    beta: float = 0.9

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scalars.numbers(self, "beta")
        if not 0 <= self.beta < 1:
            raise ValueError(f"beta must be at least 0 and below 1, got {self.beta}.")

    def server(self, x0: Tree) -> MimeLiteServer:
        return MimeLiteServer(x0, tree.zeros_like(x0))

    def broadcast(self, s: MimeLiteServer) -> MimeLiteMessage:
        return MimeLiteMessage(s.xbar, s.velocity)

    def client(self, x0: Tree, message: MimeLiteMessage) -> MimeLiteClient | None:
        """Return nothing, unless uploads are compressed: a client keeps nothing else from one round to the next."""
        return None if self.upload is None else MimeLiteClient(tree.zeros_like(x0), tree.zeros_like(x0))

    def subproblem(self, c: MimeLiteClient | None, message: MimeLiteMessage) -> Subproblem:
        return Subproblem(start=message.x, linear=tree.scale(self.beta, message.velocity), probe=message.x)

    def finish(
        self, c: MimeLiteClient | None, message: MimeLiteMessage, sub: Subproblem, solution: Solution
    ) -> tuple[MimeLiteClient | None, MimeLiteUpload]:
        if self.upload is None or c is None:
            return None, MimeLiteUpload(solution.x, solution.gradient)
        change, error = sent(self.upload, tree.sub(solution.x, message.x), c.error, solution.draw)
        gradient = feedback(self.upload, solution.gradient, c.gradient, solution.draw)
        return MimeLiteClient(gradient, error), MimeLiteUpload(tree.add(message.x, change), gradient)

    def parts(self, upload: MimeLiteUpload) -> tuple[Tree, ...]:
        return tuple(upload)

    def aggregate(self, s: MimeLiteServer, uploads: Uploads, prox: Prox) -> MimeLiteServer:
        mean: MimeLiteUpload = tree.scale(1.0 / uploads.weight, uploads.sum)
        return MimeLiteServer(mean.x, tree.axpy(self.beta, s.velocity, mean.gradient))
