"""The theorems on runs over random nonconvex problems; the mean over seeds stands for the expectation."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import local, sampling, theory
from feddr.certify import Certificate, certificate
from feddr.history import Row
from feddr.sampling import Sampling, p_hat
from tests.nonconvex_problems import make

pytestmark = pytest.mark.slow

SCHEMES: list[Sampling] = [sampling.Full(), sampling.Uniform(1), sampling.Independent((0.3, 0.9, 0.5, 0.6))]
SEEDS = range(4)


def run(seed: int, algorithm: feddr.FedDR, scheme: Sampling, stopping: local.Stopping) -> Certificate:
    problem = make(seed, g=feddr.prox.L1(0.02), weights=("uniform", "samples")[seed % 2])
    result = feddr.simulate(
        problem,
        algorithm,
        local=local.Accelerated(stopping=stopping),
        sampling=scheme,
        rounds=25,
        seed=seed,
        precision="float64",
        evaluate_every=25,
        certify=True,
    )
    return certificate(result)


def step_sizes(seed: int, scheme: Sampling, **options: float) -> dict[str, Any]:
    problem = make(seed)
    best = theory.recommend_for(theory.smoothness(problem).L, 4, p_hat(scheme, 4), **options)  # type: ignore[arg-type]
    return {"eta": best.eta, "alpha": best.alpha}


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
@pytest.mark.parametrize("init", ["full", "lazy"])
@pytest.mark.parametrize(
    "stopping", [local.Tolerance(1e-10), local.Absolute(0.2), local.Epochs(3)], ids=["exact", "absolute", "epochs"]
)
def test_theorem_3_1_holds(scheme: Sampling, init: str, stopping: local.Stopping) -> None:
    found = [run(seed, feddr.FedDR(**step_sizes(seed, scheme), init=init), scheme, stopping) for seed in SEEDS]
    assert all(c.theorem.startswith("Theorem 3.1") and c.certified and not c.estimated for c in found)
    assert np.mean([c.measured for c in found]) <= np.mean([c.bound for c in found])


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
def test_the_theorem_on_relative_accuracies_holds(scheme: Sampling) -> None:
    theta = 1e-3
    found = []
    for seed in SEEDS:
        algorithm = feddr.FedDR(**step_sizes(seed, scheme, theta_hat=theta), init="full")
        found.append(run(seed, algorithm, scheme, local.Relative(theta)))
    assert all(c.theorem.startswith("Theorem on relative") and c.certified for c in found)
    assert np.mean([c.measured for c in found]) <= np.mean([c.bound for c in found])


@pytest.mark.parametrize("stopping", [local.Tolerance(1e-10), local.Relative(1e-3)], ids=["exact", "relative"])
def test_v_never_rises_when_everybody_takes_part(stopping: local.Stopping) -> None:
    for seed in SEEDS:
        options = {"theta_hat": 1e-3} if isinstance(stopping, local.Relative) else {"exact": True}
        algorithm = feddr.FedDR(**step_sizes(seed, sampling.Full(), **options), init="full")
        facts = run(seed, algorithm, sampling.Full(), stopping).facts
        assert facts["largest rise of V"] < 1e-12
        assert facts["V at the end"] < facts["V at the start"]


def test_relative_accuracy_needs_fewer_local_steps_than_a_fixed_number() -> None:
    """The same rounds reach the same gradient mapping, with a fraction of the gradients."""

    def last(seed: int, stopping: local.Stopping) -> Row:
        return feddr.simulate(
            make(seed),
            feddr.FedDR(**step_sizes(seed, sampling.Uniform(2), theta_hat=1e-3), init="full"),
            local=local.Accelerated(stopping=stopping),
            sampling=sampling.Uniform(2),
            rounds=80,
            precision="float64",
            evaluate_every=80,
        ).history.last

    saved = []
    for seed in SEEDS:
        fixed, relative = last(seed, local.Epochs(10)), last(seed, local.Relative(1e-3))
        assert relative.gradient_mapping <= 1.05 * fixed.gradient_mapping
        saved.append(relative.local_steps / fixed.local_steps)
    assert np.mean(saved) < 0.6
