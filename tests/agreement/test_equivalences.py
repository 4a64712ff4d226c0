"""Methods that must coincide, iterate by iterate."""

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.engines.shared.state import Progress
from feddr.tree import Tree


def iterates(problem: feddr.Problem, algorithm: Algorithm, local: feddr.local.LocalSolver) -> list[Tree]:
    seen: list[Tree] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.state.server.xbar)

    feddr.simulate(problem, algorithm, local=local, rounds=12, seed=3, precision="float64", callback=watch)
    return seen


SOLVERS = [
    feddr.local.Accelerated(tol=1e-13),
    feddr.local.SGD(lr=0.05, epochs=3, batch_size=None),
    feddr.local.SGD(lr=0.05, epochs=2, batch_size=4, momentum=0.5),
]


@pytest.mark.parametrize("local", SOLVERS, ids=["accelerated", "gradient descent", "sgd with momentum"])
@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize(
    ("peer", "feddr_form"),
    [
        (feddr.FedSplit(eta=0.4), feddr.FedDR(eta=0.4, alpha=2.0)),
        (feddr.FedPD(eta=0.4), feddr.FedDR(eta=0.4, alpha=1.0)),
        (feddr.FedDyn(eta=0.4), feddr.FedDR(eta=0.4, alpha=1.0)),
        (feddr.FedSplit(eta=0.4, start="own"), feddr.FedDR(eta=0.4, alpha=2.0, start="own")),
        (feddr.FedPD(eta=0.4, start="own"), feddr.FedDR(eta=0.4, alpha=1.0, start="own")),
    ],
    ids=["FedSplit", "FedPD", "FedDyn", "FedSplit, own start", "FedPD, own start"],
)
def test_feddr_contains_its_peers(
    class_data: feddr.FederatedData,
    peer: Algorithm,
    feddr_form: feddr.FedDR,
    weights: str,
    local: feddr.local.LocalSolver,
) -> None:
    problem = feddr.Problem.classification(feddr.models.softmax(5, 3), class_data, weights=weights)
    for ours, theirs in zip(iterates(problem, feddr_form, local), iterates(problem, peer, local), strict=True):
        assert tree.norm(tree.sub(ours, theirs)) < 1e-10


def test_fedprox_tends_to_fedavg(class_data: feddr.FederatedData) -> None:
    problem = feddr.Problem.classification(feddr.models.softmax(5, 3), class_data, weights="samples")
    local = feddr.local.SGD(lr=0.05, epochs=2, batch_size=4)
    ours, theirs = iterates(problem, feddr.FedProx(mu=1e-12), local), iterates(problem, feddr.FedAvg(), local)
    assert tree.norm(tree.sub(ours[-1], theirs[-1])) < 1e-9


def test_scaffold_without_heterogeneity_is_fedavg() -> None:
    """Equal clients with full batches send equal control variates, so c - c_i vanishes."""
    rng = np.random.default_rng(0)
    client = {"x": rng.normal(size=(8, 3)), "y": rng.normal(size=8)}
    data = feddr.FederatedData.from_clients([client] * 3)
    problem = feddr.Problem.regression(feddr.models.linear(3), data)
    local = feddr.local.SGD(lr=0.05, epochs=4, batch_size=None)
    for ours, theirs in zip(
        iterates(problem, feddr.Scaffold(), local), iterates(problem, feddr.FedAvg(), local), strict=True
    ):
        assert tree.norm(tree.sub(ours, theirs)) < 1e-14
