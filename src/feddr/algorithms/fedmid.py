"""FedMid: federated mirror descent, proximal steps and averaging (Yuan, Zaheer and Reddi 2021, Algorithm 2)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvgServer
from feddr.algorithms.uploading import LeftOut, Uploading, remembering
from feddr.local import Solution, Subproblem
from feddr.local.descent import Plain, Proximal
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars

PROXIMAL = ("both", "server", "clients")


class FedMidUpload(NamedTuple):
    """What a client sends: its model and the length of its steps together, lr K_i."""

    x: Tree
    length: Any


@dataclass(frozen=True, repr=False)
class FedMid(Uploading):
    """FedAvg with proximal steps on the clients and on the server.

    Each active client i takes K_i steps from xbar with the step size lr of its local solver, and then the server one:

        x_i  := prox_{lr g}(x_i - lr grad f_i(x_i)),   K_i times, started at xbar
        xbar := prox_{s T g}(xbar + s (x - xbar))

    where s = server_lr, and x and T are the means over the active clients of x_i and lr K_i, weighted by w_i.

    Parameters
    ----------
    server_lr
        Step size s of the server.
    proximal
        ``"both"``: as above and as published.
        ``"server"``: the clients leave g out, x_i := x_i - lr grad f_i(x_i) (the paper's only-server-proximal variant).
        One step of everybody is then a step of the proximal gradient method.
        ``"clients"``: the server leaves g out, xbar := xbar + s (x - xbar).
    upload
        How clients compress x_i - xbar (``feddr.compress``); lr K_i travels as it is. They then keep what was left out,
        and add it the next time. None for every bit, and clients without a state.

    Notes
    -----
    With ``"both"``, g counts twice unless it is the indicator of a set: equal clients that take one step each compute
    prox_{lr g}(prox_{lr g}(xbar - lr grad f(xbar))), which for the l1 norm solves the problem with twice its strength.
    With ``"clients"``, xbar is a mean of sparse models with different zeros and so is not sparse. Several steps on
    clients that differ lead elsewhere than to the joint solution, whatever the choice, as with FedAvg.

    The mirror map is the Euclidean one. It needs ``local.SGD`` without momentum: the server must know lr.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi. Federated Composite Optimization. ICML 2021.

    Examples
    --------
    >>> FedMid(proximal="server")
    FedMid(server_lr=1.0, proximal='server')
    """

    server_lr: float = 1.0
    proximal: Literal["both", "server", "clients"] = "both"

    composite: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        scalars.positive(self, "server_lr")
        if self.proximal not in PROXIMAL:
            raise ValueError(f"proximal must be one of {', '.join(PROXIMAL)}, got {self.proximal!r}.")

    def server(self, x0: Tree) -> FedAvgServer:
        return FedAvgServer(x0)

    def broadcast(self, s: FedAvgServer) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> LeftOut | None:
        """Return nothing, unless uploads are compressed: a client keeps nothing else from one round to the next."""
        return None if self.upload is None else LeftOut(tree.zeros_like(x0))

    def subproblem(self, c: LeftOut | None, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar, descent=Plain() if self.proximal == "server" else Proximal())

    def finish(
        self, c: LeftOut | None, xbar: Tree, sub: Subproblem, solution: Solution
    ) -> tuple[LeftOut | None, FedMidUpload]:
        x = solution.x
        if self.upload is not None:
            change, c = remembering(self.upload, tree.sub(x, xbar), c, solution.draw)
            x = tree.add(xbar, change)
        return c, FedMidUpload(x, np.asarray(solution.length, np.float64))

    def parts(self, upload: FedMidUpload) -> tuple[Tree, ...]:
        return (upload.x,)

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        mean: FedMidUpload = tree.scale(1.0 / uploads.weight, uploads.sum)
        x = tree.map(lambda old, new: (1.0 - self.server_lr) * old + self.server_lr * new, s.xbar, mean.x)
        return FedAvgServer(x if self.proximal == "clients" else prox(x, self.server_lr * float(mean.length)))
