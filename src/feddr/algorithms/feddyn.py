"""FedDyn: dynamic regularisation (Acar, Zhao, Matas Navarro, Mattina, Whatmough and Saligrama 2021)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.uploading import Uploading, sent
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class FedDynClient(NamedTuple):
    """State of a client: its model x_i, its multiplier lambda_i, and what compressed uploads have left out so far."""

    x: Tree
    dual: Tree
    error: Tree | None = None


class FedDynServer(NamedTuple):
    """State of the server: the model, and the memory H = sum_i w_i eta lambda_i."""

    xbar: Tree
    memory: Tree


@dataclass(frozen=True, repr=False)
class FedDyn(Uploading):
    """A multiplier for each client, and a server that remembers their mean when only some take part.

    Each active client i, and then the server, compute

        x_i      ~= argmin f_i(x) + <lambda_i, x> + ||x - xbar||^2 / (2 eta),   started at xbar
        lambda_i := lambda_i + (x_i - xbar) / eta
        H        := H + sum over active of w_i (x_i - xbar)
        xbar     := sum over active of w_i x_i / sum over active of w_i + H

    where all lambda_i and H begin at 0, so that H = sum_i w_i eta lambda_i after every round. Where it settles, all x_i
    are xbar, H is 0 and lambda_i = -grad f_i(xbar): the joint solution, though clients differ and some were missing.

    Parameters
    ----------
    eta
        Inverse of the penalty, 1 / alpha in the paper.
    upload
        How clients compress x_i - xbar (``feddr.compress``); H is then sum_i w_i eta lambda_i up to what was left out.

    Notes
    -----
    With everybody in every round it is FedDR with alpha = 1 and g = 0, and FedPD, if their solves start at xbar, too.
    It cannot be deployed: a client that lost its multiplier would begin again at 0, while H still counts the lost one.

    References
    ----------
    D. A. E. Acar, Y. Zhao, R. Matas Navarro, M. Mattina, P. N. Whatmough, V. Saligrama. Federated Learning Based on
    Dynamic Regularization. ICLR 2021. Its server state h is -H / eta, for equal weights.

    Examples
    --------
    >>> FedDyn(eta=10.0)
    FedDyn(eta=10.0)
    >>> FedDyn(eta=10.0).composite, FedDyn(eta=10.0).partial
    (False, True)
    """

    eta: float

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "eta")

    def server(self, x0: Tree) -> FedDynServer:
        return FedDynServer(x0, tree.zeros_like(x0))

    def broadcast(self, s: FedDynServer) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> FedDynClient:
        zero = tree.zeros_like(x0)
        return FedDynClient(x0, zero, None if self.upload is None else zero)

    def subproblem(self, c: FedDynClient, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar, center=xbar, eta=self.eta, linear=c.dual)

    def finish(self, c: FedDynClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedDynClient, Tree]:
        x = solution.x
        dual = tree.axpy(1.0 / self.eta, tree.sub(x, xbar), c.dual)
        if self.upload is None:
            return FedDynClient(x, dual), tree.increment(x, xbar)
        change, error = sent(self.upload, tree.sub(x, xbar), c.error, solution.draw)
        return FedDynClient(x, dual, error), tree.cast(change, np.float64)

    def aggregate(self, s: FedDynServer, uploads: Uploads, prox: Prox) -> FedDynServer:
        memory = tree.add(s.memory, uploads.sum)
        moved = tree.axpy(1.0 / uploads.weight, uploads.sum, s.xbar)
        return FedDynServer(tree.add(moved, memory), memory)
