"""Step sizes of the clients' own: Douglas-Rachford splitting in the metric with weights w_i / eta_i.

With eta = 1 / sum_i (w_i / eta_i), v_i = eta w_i / eta_i and h_i = (eta_i / eta) f_i,

    sum_i w_i f_i = sum_i v_i h_i    and    prox_{eta_i f_i} = prox_{eta h_i}

so FedDR with step sizes eta_i on the problem (w_i, f_i) is FedDR with the one step size eta on (v_i, h_i), which has
the same F. All that is known of the second holds for the first, with v_i for w_i and (eta_i / eta) L_i for L_i.
"""

import dataclasses
import hashlib
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr.validation import scalars

STARTS = ("xbar", "own")
SHOWN = 8
"""Step sizes that are written out, at most."""


class StepSizes(tuple[float, ...]):
    """One step size for each client."""

    def __new__(cls, etas: Iterable[float]) -> "StepSizes":
        sizes = super().__new__(cls, (float(scalars.number("eta", eta)) for eta in etas))
        for i, eta in enumerate(sizes):
            if not 0 < eta < float("inf"):
                raise ValueError(f"eta must be positive for every client, got {eta} for client {i}.")
        return sizes

    def __repr__(self) -> str:
        if len(self) <= SHOWN:
            return super().__repr__()
        # Runs are told apart by what they look like.
        digest = hashlib.sha256(np.array(self).tobytes()).hexdigest()[:8]
        return f"<{len(self)} step sizes from {min(self):.4g} to {max(self):.4g}, {digest}>"


@dataclasses.dataclass(frozen=True, eq=False)
class Roles:
    """An algorithm as the server runs it and as each client does, with the step size of each.

    Parameters
    ----------
    algorithm
        Any; all of this is the algorithm itself where it has one step size for everybody, or none.
    weights
        The weights w_i of the problem.

    Examples
    --------
    >>> import feddr, numpy as np
    >>> roles = Roles(feddr.FedDR(eta=[1.0, 3.0], alpha=1.0), np.array([0.5, 0.5]))
    >>> roles.server.eta, roles.client(1).eta, roles.mean_weights
    (1.5, 3.0, array([0.75, 0.25]))
    """

    algorithm: Any
    weights: NDArray[np.float64]

    @cached_property
    def server(self) -> Any:
        """The server's rules, with eta = 1 / sum_i (w_i / eta_i)."""
        if self.etas is None:
            return self.algorithm
        return dataclasses.replace(self.algorithm, eta=1.0 / float(np.sum(self.weights / self.etas)))

    def client(self, i: int) -> Any:
        """Return the rules of client i, with its eta_i."""
        if self.etas is None:
            return self.algorithm
        if i not in self._clients:
            self._clients[i] = dataclasses.replace(self.algorithm, eta=float(self.etas[i]))
        return self._clients[i]

    @cached_property
    def _clients(self) -> dict[int, Any]:
        """The rules of clients that have been asked for: making them takes as long as a tiny client's work."""
        return {}

    @cached_property
    def mean_weights(self) -> NDArray[np.float64]:
        """The weights v_i of the server's mean."""
        if self.etas is None:
            return self.weights
        v = self.weights / self.etas
        return v / v.sum()

    @cached_property
    def etas(self) -> NDArray[np.float64] | None:
        """The step sizes of the clients, None where they have no own ones."""
        eta = getattr(self.algorithm, "eta", None)
        return np.array(eta) if isinstance(eta, StepSizes) else None

    def eta(self, i: int) -> float:
        """Return the step size of client i."""
        return float(self.algorithm.eta if self.etas is None else self.etas[i])


def check(algorithm: Any, clients: int) -> None:
    """Refuse step sizes that are not one for each client."""
    eta = getattr(algorithm, "eta", None)
    if isinstance(eta, StepSizes) and len(eta) != clients:
        raise ValueError(f"eta must be one number, or one for each of the {clients} clients, got {len(eta)} of them.")


def check_start(start: str) -> None:
    """Refuse an unknown start of the local solver."""
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {start!r}.")
