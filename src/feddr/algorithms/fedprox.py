"""FedProx: FedAvg with a proximal term (Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith 2020)."""

from dataclasses import dataclass
from typing import Any

from feddr.algorithms.fedavg import FedAvg
from feddr.local import Subproblem
from feddr.tree import Tree
from feddr.validation import scalars


@dataclass(frozen=True, repr=False)
class FedProx(FedAvg):
    """Each active client minimises f_i(x) + mu/2 ||x - xbar||^2 from xbar; the server averages as in FedAvg.

    Parameters
    ----------
    mu
        Strength of the proximal term. FedAvg is the limit mu = 0.

    References
    ----------
    T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith. Federated Optimization in Heterogeneous Networks.
    MLSys 2020.

    Examples
    --------
    >>> import numpy as np
    >>> FedProx(mu=0.5)
    FedProx(mu=0.5)
    >>> FedProx(mu=0.5).subproblem(None, np.zeros(2)).eta
    2.0
    """

    mu: float

    def __post_init__(self) -> None:
        scalars.numbers(self, "mu")
        if not 0 < self.mu < float("inf"):
            raise ValueError(f"mu must be positive, got {self.mu}; mu = 0 is FedAvg.")

    def subproblem(self, c: Any, xbar: Tree) -> Subproblem:
        return Subproblem(start=xbar, center=xbar, eta=1.0 / self.mu)
