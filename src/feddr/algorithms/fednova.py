"""FedNova: normalised averaging, for clients that take different numbers of steps (Wang, Liu, Liang et al. 2020)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvgServer
from feddr.algorithms.uploading import LeftOut, Uploading, remembering
from feddr.local import Solution, Subproblem
from feddr.local.descent import Plain
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class FedNovaUpload(NamedTuple):
    """What a client sends: how far it went for each unit of length, and the length of its steps together, lr K_i."""

    direction: Tree
    length: Any


@dataclass(frozen=True, repr=False)
class FedNova(Uploading):
    """FedAvg whose server averages directions, so that clients with more steps do not count for more.

    Each active client i takes K_i steps on f_i from xbar with the step size lr of its local solver. The server computes

        d_i  := (x_i - xbar) / (lr K_i)
        xbar := xbar + server_lr T (mean over active of d_i),   T = mean over active of lr K_i

    with both means weighted by w_i. With equal K_i and server_lr = 1 it is FedAvg.

    Parameters
    ----------
    server_lr
        Step size of the server.
    upload
        How clients compress d_i (``feddr.compress``); lr K_i travels as it is. They then keep what was left out, and
        add it the next time, when it counts with the T of that round. None for every bit, and clients without a state.

    Notes
    -----
    For short steps FedAvg minimises sum_i w_i K_i f_i, and FedNova sum_i w_i f_i whatever the K_i are. The drift of
    clients that differ and take several steps, of the order of lr, stays as in FedAvg. T is the effective number of
    steps that the paper recommends, times lr. Its forms for local momentum and proximal terms, in which steps count
    differently, are not here: it needs ``local.SGD`` without momentum.

    References
    ----------
    J. Wang, Q. Liu, H. Liang, G. Joshi, H. V. Poor. Tackling the Objective Inconsistency Problem in Heterogeneous
    Federated Optimization. NeurIPS 2020.

    Examples
    --------
    >>> FedNova(server_lr=0.5)
    FedNova(server_lr=0.5)
    >>> FedNova().composite, FedNova().partial
    (False, True)
    """

    server_lr: float = 1.0

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "server_lr")

    def server(self, x0: Tree) -> FedAvgServer:
        return FedAvgServer(x0)

    def broadcast(self, s: FedAvgServer) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> LeftOut | None:
        """Return nothing, unless uploads are compressed: a client keeps nothing else from one round to the next."""
        return None if self.upload is None else LeftOut(tree.zeros_like(x0))

    def subproblem(self, c: LeftOut | None, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar, descent=Plain())

    def finish(
        self, c: LeftOut | None, xbar: Tree, sub: Subproblem, solution: Solution
    ) -> tuple[LeftOut | None, FedNovaUpload]:
        length = np.asarray(solution.length, np.float64)
        per_length = 1.0 / float(length) if length > 0 else 0.0
        if self.upload is None:
            direction = tree.scale(per_length, tree.increment(solution.x, xbar))
        else:
            taken = tree.scale(per_length, tree.sub(solution.x, xbar))
            direction, c = remembering(self.upload, taken, c, solution.draw)
        return c, FedNovaUpload(direction, length)

    def parts(self, upload: FedNovaUpload) -> tuple[Tree, ...]:
        return (upload.direction,)

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        mean: FedNovaUpload = tree.scale(1.0 / uploads.weight, uploads.sum)
        return FedAvgServer(tree.axpy(self.server_lr * float(mean.length), mean.direction, s.xbar))
