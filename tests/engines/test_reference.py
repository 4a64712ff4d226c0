"""The reference engine takes what the simulator takes, and ends where the simulator ends."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import certify
from feddr.engines.shared.state import Progress
from tests.nonconvex_problems import make

SGD = feddr.local.SGD(lr=0.05)
ENGINES: tuple[Any, Any] = (feddr.reference, feddr.simulate)


def test_a_callback_that_returns_true_ends_the_run() -> None:
    seen: list[tuple[int, int]] = []

    def stop_after_three(progress: Progress) -> bool:
        seen.append((progress.round, progress.asked))
        return progress.round == 3

    arguments: dict[str, Any] = {"local": SGD, "rounds": 20, "callback": stop_after_three, "precision": "float64"}
    arguments |= {"sampling": feddr.sampling.Uniform(2)}
    ours, theirs = (engine(make(0), feddr.FedDR(eta=0.5), **arguments) for engine in (feddr.reference, feddr.simulate))
    assert seen == [(0, 0), (1, 2), (2, 2), (3, 2)] * 2
    assert [row.round for row in ours.history.rows] == [row.round for row in theirs.history.rows] == [0, 3]
    assert ours.settings["rounds"] == theirs.settings["rounds"] == 3
    assert np.max(np.abs(ours.params - theirs.params)) < 1e-12


def test_what_is_measured_of_a_run_needs_its_step_sizes() -> None:
    problem = make(0)
    result = feddr.reference(problem, feddr.FedDR(), local=SGD, rounds=1)
    assert isinstance(result.algorithm, feddr.FedDR)
    assert certify.bookkeeping_gap(problem, result.algorithm, result.state) < 1e-12
    for measure in (certify.bookkeeping_gap, certify.lyapunov):
        with pytest.raises(ValueError, match=r"needs the step sizes of a run, got FedDR\(eta='auto'.*result.algorithm"):
            measure(problem, feddr.FedDR(), result.state)
    with pytest.raises(ValueError, match=r"got FedDR\(eta=0.1, alpha='auto', init='lazy'"):
        certify.bookkeeping_gap(problem, feddr.FedDR(eta=0.1, init="lazy"), result.state)


def test_a_certificate_of_the_reference_says_what_is_missing() -> None:
    result = feddr.reference(make(0), feddr.FedDR(eta=0.02, alpha=1.0), local=feddr.local.Accelerated(), rounds=1)
    assert "the rounds were not measured" in certify.certificate(result).refusals[0]
