"""FedAsync: the server mixes in each model as it arrives (Xie, Koyejo and Gupta 2019)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from feddr import tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.fedavg import FedAvg, FedAvgServer
from feddr.local import Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from feddr.validation import scalars

STALENESS = ("constant", "polynomial", "hinge")


@dataclass(frozen=True, repr=False)
class FedAsync(FedAvg):
    """Asynchronous federated optimisation by mixing.

    Client i minimises f_i(x) + rho/2 ||x - xbar^{k-d}||^2 from the version xbar^{k-d}, and the server mixes the
    result in, the less the older it is:

        xbar := (1 - alpha s(d)) xbar + alpha s(d) x_i

        constant      s(d) = 1
        polynomial    s(d) = (d + 1)^-a
        hinge         s(d) = 1 for d <= b, 1 / (a (d - b) + 1) beyond

    The weights w_i play no part: a client counts as often as it is heard from.

    Parameters
    ----------
    alpha
        Mixing weight, in (0, 1].
    staleness
        ``"constant"``, ``"polynomial"`` or ``"hinge"``.
    a, b
        Of the staleness functions.
    rho
        Strength of the proximal term of the clients; 0 for none.

    References
    ----------
    C. Xie, S. Koyejo, I. Gupta. Asynchronous Federated Optimization. arXiv:1903.03934, 2019 (OPT 2020).

    Examples
    --------
    >>> FedAsync(alpha=0.5)
    FedAsync(alpha=0.5, staleness='polynomial', a=0.5, b=4.0, rho=0.0)
    >>> FedAsync(alpha=0.5, a=0.5).factor(staleness=3)
    0.5
    """

    alpha: float = 0.6
    staleness: Literal["constant", "polynomial", "hinge"] = "polynomial"
    a: float = 0.5
    b: float = 4.0
    rho: float = 0.0

    buffer: ClassVar[int] = 1

    def __post_init__(self) -> None:
        scalars.numbers(self, "alpha", "a", "b", "rho")
        if not 0 < self.alpha <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {self.alpha}.")
        if self.staleness not in STALENESS:
            raise ValueError(f"staleness must be one of {', '.join(STALENESS)}, got {self.staleness!r}.")
        for name in ("a", "b", "rho"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}.")

    def factor(self, staleness: int) -> float:
        if self.staleness == "polynomial":
            return float((staleness + 1) ** -self.a)
        if self.staleness == "hinge" and staleness > self.b:
            return 1.0 / (self.a * (staleness - self.b) + 1.0)
        return 1.0

    def subproblem(self, c: Any, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar, center=xbar, eta=1.0 / self.rho) if self.rho else Subproblem(start=xbar)

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        kept, share = 1.0 - self.alpha * uploads.discount, self.alpha / uploads.weight
        return FedAvgServer(tree.map(lambda xbar, x: kept * xbar + share * x, s.xbar, uploads.sum))
