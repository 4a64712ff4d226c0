"""Learning rates over rounds: constant within an update, the same in both engines, and compiled once."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

import feddr
from feddr.local import SGD, Optax
from feddr.local.schedules import Cosine, Step
from feddr.theory import fixed_work

DATA = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}, {"x": 2 * np.eye(2), "y": np.ones(2)}])
PROBLEM = feddr.Problem.regression(feddr.models.linear(2), DATA)


def run(local: Any, rounds: int, engine: Any = feddr.simulate, algorithm: Any = None) -> Any:
    algorithm = feddr.FedAvg() if algorithm is None else algorithm
    return engine(PROBLEM, algorithm, local=local, rounds=rounds, precision="float64").params["weight"]


def test_a_round_has_the_rate_that_the_schedule_says() -> None:
    """Two rounds with rates 0.5 and 0.1, as a run of one round with each."""
    scheduled = run(SGD(lr=lambda k: 0.5 - 0.4 * (k - 1), batch_size=None), 2)
    first = feddr.simulate(PROBLEM, feddr.FedAvg(), local=SGD(0.5, batch_size=None), rounds=1, precision="float64")
    on = feddr.Problem(PROBLEM.loss, DATA, first.params)
    second = feddr.simulate(on, feddr.FedAvg(), local=SGD(0.1, batch_size=None), rounds=1, precision="float64")
    assert scheduled == pytest.approx(second.params["weight"], abs=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_constant_schedule_is_a_constant(momentum: float) -> None:
    constant = run(SGD(0.1, 2, batch_size=1, momentum=momentum), 3)
    assert run(SGD(lambda _: 0.1, 2, 1, momentum), 3) == pytest.approx(constant, abs=1e-15)
    assert run(Optax(optax.sgd(1.0, momentum), 2, 1, schedule=lambda _: 0.1), 3) == pytest.approx(constant, abs=1e-12)


@pytest.mark.parametrize("algorithm", [feddr.FedAvg(), feddr.FedDR(), feddr.FedMid(), feddr.FedDualAvg()], ids=repr)
def test_engines_agree(algorithm: Any) -> None:
    local = SGD(Cosine(lr=0.3, rounds=4, end=0.01), epochs=2, batch_size=1)
    ours, theirs = (run(local, 5, engine, algorithm) for engine in (feddr.simulate, feddr.reference))
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_no_round_compiles_anything_again() -> None:
    traced: list[Any] = []

    def schedule(k: Any) -> Any:
        traced.append(k)
        return 0.1 / k

    run(SGD(schedule, batch_size=1), 2)
    before = len(traced)
    traced.clear()
    run(SGD(schedule, batch_size=1), 9)
    assert len(traced) <= before
    assert any(isinstance(k, jax.core.Tracer) for k in traced)


def test_auto_step_sizes_follow_the_first_rate() -> None:
    local = SGD(Step(lr=0.1, every=5), epochs=4, batch_size=1)
    plain = SGD(0.1, epochs=4, batch_size=1)
    assert local.step_size == plain.step_size == 0.1
    assert fixed_work.work(local, DATA.sizes).tolist() == fixed_work.work(plain, DATA.sizes).tolist()
    result = feddr.simulate(PROBLEM, feddr.FedDR(), local=local, rounds=1)
    assert result.settings["step_sizes"].endswith("lr is that of the first round.")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SGD(lr=lambda k: 1 - k), "lr must be a positive number in every round, .* is 0.0 in round 1"),
        (lambda: SGD(lr=lambda k: [k, k]), r"is \[1.0, 1.0\] in round 1"),
        (lambda: Cosine(lr=0.1, rounds=1, end=0.01), "rounds must be at least 2, got 1"),
        (lambda: Cosine(lr=0.1, rounds=5, end=0.0), "end must be positive and finite, got 0.0"),
        (lambda: Step(lr=-0.1, every=5), "lr must be positive and finite, got -0.1"),
    ],
)
def test_wrong_schedules_are_refused(make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()
