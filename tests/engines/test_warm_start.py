"""Warm starts: every engine begins at ``init``, which is part of the identity of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import FederatedData, tree
from feddr.checkpoint.folder import CheckpointError

LOCAL = feddr.local.SGD(lr=0.05, batch_size=None)


def problem(data: FederatedData) -> feddr.Problem:
    return feddr.Problem.regression(feddr.models.linear(6), data, g=feddr.prox.L1(0.01))


def start() -> tree.Tree:
    return {"weight": np.arange(6.0), "bias": np.array(2.0)}


@pytest.mark.parametrize("engine", ["simulate", "simulate_async", "reference"])
def test_a_run_begins_where_it_is_told(engine: str, regression_data: FederatedData) -> None:
    given = problem(regression_data)
    algorithm = feddr.AsyncFedDR(eta=1.0, tau=4) if engine == "simulate_async" else feddr.FedDR(eta=1.0)
    length = {"updates" if engine == "simulate_async" else "rounds": 3}
    settings: dict[str, Any] = {"local": LOCAL, "precision": "float64", **length}
    warm = getattr(feddr, engine)(given, algorithm, init=start(), **settings)
    assert pytest.approx(given.F(start()), rel=1e-12) == warm.history.rows[0].F
    same = getattr(feddr, engine)(given.starting_at(start()), algorithm, **settings)
    np.testing.assert_array_equal(warm.params["weight"], same.params["weight"])
    cold = getattr(feddr, engine)(given, algorithm, **settings)
    assert np.any(cold.params["weight"] != warm.params["weight"])


def test_a_warm_start_at_the_solution_stays_there(regression_data: FederatedData) -> None:
    given = problem(regression_data)
    settings: dict[str, Any] = {"local": feddr.local.Accelerated(tol=1e-12), "precision": "float64"}
    rules = feddr.FedDR(eta=1.0, alpha=1.5)
    first = feddr.simulate(given, rules, rounds=100, **settings)
    assert first.history.last.gradient_mapping < 1e-6 < first.history.rows[0].gradient_mapping
    second = feddr.simulate(given, rules, rounds=1, init=first.params, **settings)
    assert pytest.approx(first.history.last.F, rel=1e-12) == second.history.rows[0].F


def test_a_checkpoint_belongs_to_its_start(regression_data: FederatedData, tmp_path: Path) -> None:
    given = problem(regression_data)

    def run(rounds: int, folder: str, init: Any = None) -> feddr.Result:
        kept = feddr.Checkpoint(tmp_path / folder, every=1, resume=True)
        return feddr.simulate(given, feddr.FedDR(eta=1.0), local=LOCAL, rounds=rounds, init=init, checkpoint=kept)

    run(2, "cut", start())
    resumed, whole = run(4, "cut", start()), run(4, "whole", start())
    np.testing.assert_array_equal(resumed.params["weight"], whole.params["weight"])
    with pytest.raises(CheckpointError, match="problem"):
        run(4, "cut")


def test_another_model_is_no_start(regression_data: FederatedData) -> None:
    message = (
        r"init needs the parameters of the problem, bias of shape \(\), weight of shape \(6,\), "
        r"got bias of shape \(\), weight of shape \(5,\)"
    )
    with pytest.raises(ValueError, match=message):
        feddr.simulate(
            problem(regression_data),
            feddr.FedDR(),
            local=LOCAL,
            rounds=1,
            init={"weight": np.zeros(5), "bias": np.zeros(())},
        )
