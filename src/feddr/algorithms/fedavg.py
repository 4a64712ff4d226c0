"""FedAvg: local training and averaging (McMahan, Moore, Ramage, Hampson and Aguera y Arcas 2017)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from feddr import tree
from feddr.algorithms.algorithm import ClientWeights, Uploads
from feddr.algorithms.uploading import Uploading, sent
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree


class FedAvgServer(NamedTuple):
    """State of the server: the model."""

    xbar: Tree


class FedAvgClient(NamedTuple):
    """State of a client that compresses: what the server counted for it, and what its uploads have left out so far."""

    counted: Tree
    error: Tree


@dataclass(frozen=True, repr=False)
class FedAvg(Uploading):
    """Each active client minimises f_i from xbar; xbar := sum over active of w_i x_i / sum over active of w_i.

    Parameters
    ----------
    upload
        How clients compress x_i - xbar (``feddr.compress``). They then keep what was left out, and add it the next
        time. None for every bit, and clients without a state.

    References
    ----------
    H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas. Communication-Efficient Learning of Deep Networks
    from Decentralized Data. AISTATS 2017.

    Examples
    --------
    >>> FedAvg()
    FedAvg()
    >>> FedAvg().composite, FedAvg().partial
    (False, True)
    """

    composite: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def server(self, x0: Tree) -> Any:
        return FedAvgServer(x0)

    def broadcast(self, s: Any) -> Tree:
        return s.xbar

    def client(self, x0: Tree, xbar: Tree) -> Any:
        """Return nothing, unless uploads are compressed: a client keeps nothing else from one round to the next."""
        return None if self.upload is None else FedAvgClient(xbar, tree.zeros_like(xbar))

    def subproblem(self, c: Any, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar)

    def finish(self, c: Any, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Any, Tree]:
        if self.upload is None:
            return None, solution.x
        change, error = sent(self.upload, tree.sub(solution.x, xbar), c.error, solution.draw)
        counted = tree.add(xbar, change)
        return FedAvgClient(counted, error), counted

    def absolute_upload(self, c: Any, x: Tree) -> Tree:
        return x if self.upload is None else c.counted

    def base(self, before: Tree, xbar: Tree) -> Tree:
        return xbar

    def increment(self, x: Tree, before: Tree, xbar: Tree) -> Tree:
        return x

    def recover(self, xbar: Tree) -> Any:
        """Return the state of a client that is new or has lost its own; what its uploads left out is lost."""
        return self.client(xbar, xbar)

    def invariant_gap(self, s: Any, total: Tree) -> float:
        return 0.0

    def leave(self, s: Any, counted: Tree | None, member: ClientWeights, prox: Prox) -> Any:
        """Return the server's state as it is: it remembers nobody."""
        return s

    def aggregate(self, s: Any, uploads: Uploads, prox: Prox) -> Any:
        return FedAvgServer(tree.scale(1.0 / uploads.weight, uploads.sum))
