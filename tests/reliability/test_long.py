"""Long runs: memory, the bookkeeping law and the time of a round after very many of them."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import certify, delays, tree
from feddr.algorithms import Algorithm
from feddr.engines.shared.state import Progress
from tests.checkpoint.small_runs import go
from tests.conftest import make_regression
from tests.reliability.faults import record

GROWTH = 32 * 2**20
"""Bytes that resident memory may grow by, from a tenth of the run on; the histories are counted in."""

DRIFT = 1e-9
"""How far xtilde may be from sum_i w_i xhat_i, relative to 1 + ||xtilde||."""


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * 4096


class Observer:
    """Measures rounds as they pass, in processor time, which does not depend on who else is there."""

    def __init__(self, problem: feddr.Problem, rules: feddr.FedDR, length: int) -> None:
        self.problem, self.rules, self.every = problem, rules, max(1, length // 100)
        self.times = np.zeros(length + 1)
        self.memory: list[int] = []
        self.drift: list[float] = []

    def __call__(self, progress: Progress) -> None:
        if progress.round % self.every == 0:
            gap = certify.bookkeeping_gap(self.problem, self.rules, progress.state)
            self.drift.append(gap / (1.0 + tree.norm(progress.state.server.xtilde)))
            self.memory.append(resident())
        self.times[progress.round] = time.process_time()

    def slowdown(self) -> float:
        """Return the median time of a round in the last tenth, relative to that in the first."""
        rounds = np.diff(self.times)
        tenth = len(rounds) // 10
        return float(np.median(rounds[-tenth:]) / np.median(rounds[:tenth]))

    def growth(self) -> int:
        """Return the bytes by which memory has grown since a tenth of the run."""
        return max(self.memory) - self.memory[len(self.memory) // 10]


def observe(algorithm: Algorithm, rules: feddr.FedDR, length: int, kept: Path, **more: Any) -> Observer:
    data = make_regression((3, 4, 3, 5, 3), 4, seed=2)
    problem = feddr.Problem.regression(feddr.models.linear(4), data, g=feddr.prox.L1(0.01), weights="samples")
    observer = Observer(problem, rules, length)
    more = {"evaluate_every": max(1, length // 100), "checkpoint": feddr.Checkpoint(kept, every="5s"), **more}
    go(problem, algorithm, length, callback=observer, **more)
    return observer


FEDDR = feddr.FedDR(eta=0.7, alpha=1.4)
ASYNC = feddr.AsyncFedDR(eta=0.7, alpha=1.2)


@pytest.mark.parametrize("engine", ["rounds", "clock"])
def test_three_thousand_rounds(engine: str, tmp_path: Path) -> None:
    if engine == "rounds":
        seen = observe(FEDDR, FEDDR, 3000, tmp_path / "kept", sampling=feddr.sampling.Uniform(2))
    else:
        seen = observe(ASYNC, ASYNC, 3000, tmp_path / "kept", clock=feddr.Clock(delays.LogNormal(0.5), max_events=1000))
    assert max(seen.drift) < DRIFT
    assert seen.growth() < GROWTH


@pytest.mark.reliability
def test_a_hundred_thousand_rounds(tmp_path: Path) -> None:
    seen = observe(FEDDR, FEDDR, 100_000, tmp_path / "kept", sampling=feddr.sampling.Uniform(2))
    told = (
        f"memory grew by {seen.growth() / 2**20:.1f} MB, (INV) drifted to {max(seen.drift):.1e}, a round of the last "
        f"tenth took {seen.slowdown():.2f} times one of the first"
    )
    record(40, "100,000 rounds", 1, 1, told)
    assert max(seen.drift) < DRIFT
    assert seen.growth() < GROWTH
    assert seen.slowdown() < 1.5


@pytest.mark.reliability
def test_thirty_thousand_updates_on_the_clock(tmp_path: Path) -> None:
    seen = observe(ASYNC, ASYNC, 30_000, tmp_path / "kept", clock=feddr.Clock(delays.LogNormal(0.5)))
    told = (
        f"memory grew by {seen.growth() / 2**20:.1f} MB, (INV) drifted to {max(seen.drift):.1e}, an update of the last "
        f"tenth took {seen.slowdown():.2f} times one of the first"
    )
    record(41, "30,000 asynchronous updates", 1, 1, told)
    assert max(seen.drift) < DRIFT
    assert seen.growth() < 2 * GROWTH  # events are kept, up to max_events
    assert seen.slowdown() < 1.5
