"""FedPD: a primal-dual method (Zhang, Hong, Dhople, Yin and Liu 2021), communicating in every round."""

from dataclasses import dataclass
from typing import NamedTuple

from feddr import tree
from feddr.algorithms.splitting import Splitting
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


class FedPDClient(NamedTuple):
    """State of a client: its model x_i, its multiplier lambda_i; what the server counts, if uploads are compressed."""

    x: Tree
    dual: Tree
    counted: Tree | None = None


@dataclass(frozen=True, repr=False)
class FedPD(Splitting):
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
    upload
        How clients compress what they send (``feddr.compress``), the difference to what the server has counted.

    References
    ----------
    X. Zhang, M. Hong, S. Dhople, W. Yin, Y. Liu. FedPD: A Federated Learning Framework with Adaptivity to Non-IID Data.
    IEEE Transactions on Signal Processing 2021. With communication in every round it is FedDR with alpha = 1 and g = 0.

    Examples
    --------
    >>> FedPD(eta=10.0)
    FedPD(eta=10.0, start='xbar')
    >>> FedPD(eta=10.0).partial
    False
    """

    def client(self, x0: Tree, xbar: Tree) -> FedPDClient:
        return FedPDClient(x0, tree.zeros_like(x0), None if self.upload is None else x0)

    def subproblem(self, c: FedPDClient, xbar: Tree) -> Subproblem:
        return Subproblem(start=self.start_point(c, xbar), center=xbar, eta=self.eta, linear=c.dual)

    def finish(self, c: FedPDClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedPDClient, Tree]:
        x = solution.x
        dual = tree.axpy(1.0 / self.eta, tree.sub(x, xbar), c.dual)
        upload = feedback(self.upload, tree.axpy(self.eta, dual, x), c.counted, solution.draw)
        return FedPDClient(x, dual, None if self.upload is None else upload), upload

    def absolute_upload(self, c: FedPDClient, x: Tree) -> Tree:
        return tree.axpy(self.eta, c.dual, c.x) if c.counted is None else c.counted

    def recover(self, xbar: Tree) -> FedPDClient:
        return self.client(xbar, xbar)
