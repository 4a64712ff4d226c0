"""FedDualAvg: federated dual averaging (Yuan, Zaheer and Reddi 2021, Algorithm 3)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.uploading import LeftOut, Uploading, remembering
from feddr.local import Solution, Subproblem
from feddr.local.descent import Dual
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars


class FedDualAvgMessage(NamedTuple):
    """What travels in both directions: a dual point, or a change of one, and the weight of g, or a change of it."""

    dual: Tree
    tau: Any


class FedDualAvgServer(NamedTuple):
    """State of the server: the model, the dual point z, and the weight tau of g: xbar = prox_{tau g}(z)."""

    xbar: Tree
    dual: Tree
    tau: float


@dataclass(frozen=True, repr=False)
class FedDualAvg(Uploading):
    """Dual averaging whose clients take several steps, and whose server averages dual points instead of models.

    Each active client i takes K_i steps from the server's (z, tau) with the step size lr of its local solver, and then
    the server one:

        z_i  := z_i - lr grad f_i(prox_{tau_i g}(z_i)),  tau_i := tau_i + lr,   K_i times, started at (z, tau)
        z    := z   + s (mean over the active clients of z_i - z, weighted by w_i)
        tau  := tau + s (mean over the active clients of lr K_i, weighted by w_i)
        xbar := prox_{tau g}(z)

    where s = server_lr. It starts at z = x^0 and tau = 0. With K steps of everybody, tau before step k of round r is
    s lr r K + lr k, as published; the mean over unequal numbers of steps is that of the authors' code.

    Parameters
    ----------
    server_lr
        Step size s of the server.
    upload
        How clients compress z_i - z (``feddr.compress``); lr K_i travels as it is. They then keep what was left out,
        and add it the next time. None for every bit, and clients without a state.

    Notes
    -----
    A mean of dual points goes through the prox once more, so xbar is as sparse as g wants it; a mean of sparse models
    is not. Several steps on clients that differ lead elsewhere than to the joint solution, as with FedAvg.

    The mirror map is the Euclidean one. It needs ``local.SGD`` without momentum: the server must know lr.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi. Federated Composite Optimization. ICML 2021.

    Examples
    --------
    >>> FedDualAvg(server_lr=0.5)
    FedDualAvg(server_lr=0.5)
    """

    server_lr: float = 1.0

    composite: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "server_lr")

    def server(self, x0: Tree) -> FedDualAvgServer:
        return FedDualAvgServer(xbar=x0, dual=x0, tau=0.0)

    def broadcast(self, s: FedDualAvgServer) -> FedDualAvgMessage:
        return FedDualAvgMessage(s.dual, s.tau)

    def client(self, x0: Tree, message: FedDualAvgMessage) -> LeftOut | None:
        """Return nothing, unless uploads are compressed: a client keeps nothing else from one round to the next."""
        return None if self.upload is None else LeftOut(tree.zeros_like(x0))

    def subproblem(self, c: LeftOut | None, message: FedDualAvgMessage) -> Subproblem:
        return Subproblem(start=message.dual, descent=Dual(message.tau))

    def finish(
        self, c: LeftOut | None, message: FedDualAvgMessage, sub: Subproblem, solution: Solution
    ) -> tuple[LeftOut | None, FedDualAvgMessage]:
        if self.upload is None:
            change = tree.increment(solution.x, message.dual)
        else:
            change, c = remembering(self.upload, tree.sub(solution.x, message.dual), c, solution.draw)
        return c, FedDualAvgMessage(change, np.asarray(solution.length, np.float64))

    def parts(self, upload: FedDualAvgMessage) -> tuple[Tree, ...]:
        return (upload.dual,)

    def aggregate(self, s: FedDualAvgServer, uploads: Uploads, prox: Prox) -> FedDualAvgServer:
        step: FedDualAvgMessage = tree.scale(self.server_lr / uploads.weight, uploads.sum)
        dual, tau = tree.add(s.dual, step.dual), s.tau + float(step.tau)
        return FedDualAvgServer(prox(dual, tau), dual, tau)
