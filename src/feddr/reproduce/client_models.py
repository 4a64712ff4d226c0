"""FedAvg and FedProx with clients that store the model that they computed last.

FedDR and FedPD have a model for each client, which the published curves of these two show. Clients of FedAvg and
FedProx have one, too, at the end of a round, and discard it. Storing it changes no other number, and makes all four
comparable in the personalised metrics.
"""

from dataclasses import dataclass
from typing import NamedTuple

from feddr.algorithms import Algorithm, FedAvg, FedProx
from feddr.local import Solution, Subproblem
from feddr.tree import Tree


class ClientModel(NamedTuple):
    """State of a client: the model x that it computed last."""

    x: Tree


def _client(rules: FedAvg, x0: Tree, xbar: Tree) -> ClientModel:  # noqa: ARG001  a rule has these arguments
    return ClientModel(x0)


def _finish(
    rules: FedAvg,  # noqa: ARG001
    c: ClientModel,  # noqa: ARG001
    xbar: Tree,  # noqa: ARG001
    sub: Subproblem,  # noqa: ARG001
    solution: Solution,
) -> tuple[ClientModel, Tree]:
    return ClientModel(solution.x), solution.x


@dataclass(frozen=True)
class FedAvgWithModels(FedAvg):
    """FedAvg whose clients store their models."""

    client = _client
    finish = _finish


@dataclass(frozen=True)
class FedProxWithModels(FedProx):
    """FedProx whose clients store their models."""

    client = _client
    finish = _finish


def with_models(algorithm: Algorithm) -> Algorithm:
    """Return the method with clients that store their models, where it is FedAvg or FedProx and sends every bit."""
    if getattr(algorithm, "upload", None) is not None:
        return algorithm
    if type(algorithm) is FedAvg:
        return FedAvgWithModels()
    return FedProxWithModels(algorithm.mu) if type(algorithm) is FedProx else algorithm
