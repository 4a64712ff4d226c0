"""FedSplit: Peaceman-Rachford splitting (Pathak and Wainwright 2020)."""

from dataclasses import dataclass
from typing import NamedTuple

from feddr import tree
from feddr.algorithms.splitting import Splitting
from feddr.compress import feedback
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


class FedSplitClient(NamedTuple):
    """State of a client: the variable z_i, its last model x_i; what the server counts, if uploads are compressed."""

    z: Tree
    x: Tree
    counted: Tree | None = None


@dataclass(frozen=True, repr=False)
class FedSplit(Splitting):
    """Peaceman-Rachford splitting.

    Every client, and then the server, compute

        x_i  ~= argmin f_i(x) + ||x - (2 xbar - z_i)||^2 / (2 eta),   started at xbar, or at x_i
        z_i  := z_i + 2 (x_i - xbar)
        xbar := sum_i w_i z_i

    Parameters
    ----------
    eta
        Step size of the proximal step.
    start
        Where the local solver starts: at ``"xbar"``, or at the client's ``"own"`` last model.
    upload
        How clients compress what they send (``feddr.compress``), the difference to what the server has counted.

    References
    ----------
    R. Pathak, M. J. Wainwright. FedSplit: An Algorithmic Framework for Fast Federated Optimization. NeurIPS 2020.
    It is FedDR with alpha = 2 and g = 0.

    Examples
    --------
    >>> FedSplit(eta=10.0)
    FedSplit(eta=10.0, start='xbar')
    """

    def client(self, x0: Tree, xbar: Tree) -> FedSplitClient:
        return FedSplitClient(x0, x0, None if self.upload is None else x0)

    def subproblem(self, c: FedSplitClient, xbar: Tree) -> Subproblem:
        reflected = tree.map(lambda a, z: 2 * a - z, xbar, c.z)
        return Subproblem(start=self.start_point(c, xbar), center=reflected, eta=self.eta)

    def finish(self, c: FedSplitClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedSplitClient, Tree]:
        z = tree.axpy(2.0, tree.sub(solution.x, xbar), c.z)
        upload = feedback(self.upload, z, c.counted, solution.draw)
        return FedSplitClient(z, solution.x, None if self.upload is None else upload), upload

    def absolute_upload(self, c: FedSplitClient, x: Tree) -> Tree:
        return c.z if c.counted is None else c.counted

    def recover(self, xbar: Tree) -> FedSplitClient:
        return self.client(xbar, xbar)
