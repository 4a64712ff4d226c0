"""Deployed runs against simulated ones: the same rules, the same numbers."""

from pathlib import Path
from typing import Any

import optax
import pytest

import feddr
from feddr import flower
from feddr.algorithms import Algorithm
from feddr.compress import Quantised, RandomK, TopK
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import app_for, classes, deploy, distance, federation_of, populated, xbar_of

ALGORITHMS = [
    feddr.FedDR(eta=0.8, alpha=1.6),
    feddr.FedDR(eta=0.8, alpha=1.2, init="full"),
    feddr.FedDR(eta=0.8, alpha=1.2, init="joining"),
    feddr.FedAvg(),
    feddr.FedProx(mu=0.5),
    feddr.FedPD(eta=0.8),
    feddr.FedSplit(eta=0.8),
    feddr.Scaffold(server_lr=0.9),
    feddr.FedAvgM(),
    feddr.FedAdam(),
    feddr.FedYogi(),
    feddr.FedAdagrad(),
    feddr.FedOpt(optax.nadam(0.01), name="nadam(0.01)"),
    feddr.FedDR(eta=0.8, alpha=1.6, upload=Quantised(4)),
    feddr.FedDR(eta=0.8, alpha=1.2, init="full", mean="all", upload=TopK(0.2, Quantised(6, stochastic=True))),
    feddr.FedDR(eta=0.8, alpha=1.2, init="lazy", upload=RandomK(0.3)),
    feddr.FedAvg(upload=Quantised(4)),
    feddr.FedPD(eta=0.8, upload=Quantised(4)),
    feddr.FedSplit(eta=0.8, upload=Quantised(4)),
    feddr.Scaffold(server_lr=0.9, upload=Quantised(4, stochastic=True)),
    feddr.FedAdam(upload=TopK(0.3)),
]
LOCAL = feddr.local.SGD(lr=0.05, epochs=1, batch_size=8)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_rounds_equal_the_reference(tmp_path: Path, algorithm: Algorithm) -> None:
    problem = classes()
    sampling = feddr.sampling.Uniform(2) if algorithm.partial else feddr.sampling.Full()
    arguments: dict[str, Any] = {"rounds": 4, "seed": 2, "precision": "float64", "evaluate_every": 2}
    plain = feddr.reference(problem, algorithm, local=LOCAL, sampling=sampling, **arguments)
    grid = populated(FakeGrid(), app_for(problem, algorithm, LOCAL), range(4), tmp_path)
    federation = federation_of(problem)
    history = deploy(grid, federation, algorithm, tmp_path, sampling, **arguments)
    assert distance(xbar_of(tmp_path), plain.state.server.xbar) < 1e-12
    assert [row.round for row in history.rows] == [0, 2, 4]
    assert history.last.local_steps == plain.history.last.local_steps
    assert flower.read_run(tmp_path / "server" / "feddr").numbers == plain.state.updates
    assert flower.audit(tmp_path / "server" / "feddr", algorithm, federation) <= 1e-12
