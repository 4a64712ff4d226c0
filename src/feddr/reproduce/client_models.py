"""Client models for methods whose clients keep none: a wrapper that stores the model that each client computed last.

FedDR and FedPD have a model for each client, which the published curves of these two show; FedAvg and FedProx have one,
too, at the end of a round, and discard it. Storing it changes no other number, and makes all of them comparable.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from feddr.algorithms import FedAvg, FedProx
from feddr.algorithms.algorithm import Algorithm, Uploads
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree


class KeptClient(NamedTuple):
    """State of a client: the method's own, and the model x that it computed last."""

    own: Any
    x: Tree


@dataclass(frozen=True)
class KeepsClientModels:
    """The rules of another method, in whose clients' states the model stays.

    Parameters
    ----------
    rules
        The method.
    """

    rules: Algorithm

    @property
    def composite(self) -> bool:
        """As the method."""
        return self.rules.composite

    @property
    def partial(self) -> bool:
        """As the method."""
        return self.rules.partial

    @property
    def full_start(self) -> bool:
        """As the method."""
        return self.rules.full_start

    @property
    def needs_gradient(self) -> bool:
        """As the method."""
        return self.rules.needs_gradient

    def server(self, x0: Tree) -> Any:
        """Return the server's first state."""
        return self.rules.server(x0)

    def broadcast(self, s: Any) -> Tree:
        """Return what the server sends."""
        return self.rules.broadcast(s)

    def client(self, x0: Tree, message: Tree) -> KeptClient:
        """Return a client's first state."""
        return KeptClient(self.rules.client(x0, message), x0)

    def subproblem(self, c: KeptClient, message: Tree) -> Subproblem:
        """Return what the client has to solve."""
        return self.rules.subproblem(c.own, message)

    def finish(self, c: KeptClient, message: Tree, sub: Subproblem, solution: Solution) -> tuple[KeptClient, Tree]:
        """Return the client's next state, with its model, and what it sends."""
        own, upload = self.rules.finish(c.own, message, sub, solution)
        return KeptClient(own, solution.x), upload

    def aggregate(self, s: Any, uploads: Uploads, prox: Prox) -> Any:
        """Return the server's next state."""
        return self.rules.aggregate(s, uploads, prox)


def keeping(algorithm: Algorithm) -> Algorithm:
    """Return the method with clients that have a model of their own, if it can be given them."""
    return KeepsClientModels(algorithm) if type(algorithm) in (FedAvg, FedProx) else algorithm
