"""The bookkeeping law: xtilde is the weighted mean of the xhat_i, whoever takes part."""

import numpy as np
import pytest

import feddr
from feddr import certify, sampling, tree
from feddr.engines.shared.state import Progress
from feddr.sampling import Sampling

SCHEMES: list[Sampling] = [
    sampling.Full(),
    sampling.Uniform(2),
    sampling.Independent((0.3, 0.9, 0.5, 0.2, 0.7)),
    sampling.Partitioned(2),
    sampling.DoublyUniform((0.2, 0.3, 0.3, 0.1, 0.1, 0.0)),
    sampling.Systematic((0.3, 0.9, 0.4, 0.2, 0.2)),
]


def gaps(problem: feddr.Problem, algorithm: feddr.FedDR, scheme: Sampling, precision: str, rounds: int) -> list[float]:
    found: list[float] = []

    def audit(progress: Progress) -> None:
        size = 1.0 + tree.norm(progress.state.server.xtilde)
        found.append(certify.bookkeeping_gap(problem, algorithm, progress.state) / size)

    feddr.simulate(
        problem,
        algorithm,
        local=feddr.local.SGD(lr=0.05, epochs=1, batch_size=4),
        sampling=scheme,
        rounds=rounds,
        seed=5,
        precision=precision,
        evaluate_every=rounds,
        callback=audit,
    )
    return found


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_xtilde_is_the_mean_of_xhat(
    regression_data: feddr.FederatedData, scheme: Sampling, init: str, weights: str
) -> None:
    model = feddr.models.linear(6)
    problem = feddr.Problem.regression(model, regression_data, g=feddr.prox.L1(0.05), weights=weights)
    for eta in (0.7, [0.2, 3.0, 0.7, 0.5, 1.1]):
        for mean in ("all", "active"):
            algorithm = feddr.FedDR(eta=eta, alpha=1.4, init=init, mean=mean)
            found = gaps(problem, algorithm, scheme, "float64", rounds=25)
            assert len(found) == 26
            assert max(found) < 1e-12


def test_float32_increments_do_not_drift(regression_data: feddr.FederatedData) -> None:
    """Clients compute in float32, but what the server adds up is exact: no drift beyond float64 rounding."""
    problem = feddr.Problem.regression(feddr.models.linear(6), regression_data, weights="samples")
    found = gaps(problem, feddr.FedDR(eta=0.7, alpha=1.4), sampling.Uniform(2), "float32", rounds=400)
    assert max(found) < 1e-13


def test_joining_counts_members_only(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem.regression(feddr.models.linear(6), regression_data, weights="samples")
    result = feddr.simulate(
        problem,
        feddr.FedDR(eta=0.7, init="joining"),
        local=feddr.local.SGD(lr=0.05),
        sampling=sampling.Uniform(1),
        rounds=2,
        seed=1,
    )
    members = sorted(result.state.clients)
    assert result.state.server.weight == pytest.approx(float(problem.client_weights[members].sum()), abs=1e-15)


def test_first_joining_round_with_everybody_is_the_full_start(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem.regression(feddr.models.linear(6), regression_data)
    local = feddr.local.SGD(lr=0.05)
    full = feddr.simulate(problem, feddr.FedDR(eta=0.7, init="full"), local=local, rounds=3)
    joining = feddr.simulate(problem, feddr.FedDR(eta=0.7, init="joining"), local=local, rounds=4)
    assert np.array_equal(full.params["weight"], joining.params["weight"])
