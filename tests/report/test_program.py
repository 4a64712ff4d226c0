"""The program of "Run it again" is executed, and does what it says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import delays, local, sampling
from feddr.report.gather import gather
from feddr.report.program import program
from tests.engines.test_metrics import SGD, problem, spread

RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (feddr.simulate, {"algorithm": feddr.FedDR(), "rounds": 3, "sampling": sampling.Uniform(2), "seed": 4}),
    "clock": (
        feddr.simulate,
        {"algorithm": feddr.FedDR(eta=1.0), "rounds": 2, "clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0), 1.8)},
    ),
    "asynchronous": (
        feddr.simulate_async,
        {
            "algorithm": feddr.AsyncFedDR(eta=1.0, alpha=1.2),
            "updates": 6,
            "concurrency": 3,
            "clock": feddr.Clock(delays.Combined([delays.LogNormal(0.5), delays.Dropout(0.2, pause=1.5)])),
            "stop_when": "F<=0.01",
        },
    ),
    "reference": (
        feddr.reference,
        {"algorithm": feddr.Scaffold(), "rounds": 2, "precision": "float64", "metrics": ["f1"], "per_client": True},
    ),
    "schedule": (
        feddr.simulate,
        {"algorithm": feddr.FedAvg(), "rounds": 2, "local": local.SGD(local.schedules.Cosine(0.1, 5, 0.01))},
    ),
}


@pytest.mark.parametrize(
    "name", ["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS if name != "plain")]
)
def test_it_repeats_the_run(name: str, tmp_path: Path) -> None:
    engine, arguments = RUNS[name]
    result = engine(problem(), **{"local": SGD, **arguments})
    result.save(tmp_path)
    (command,) = gather([tmp_path])["runs"][0]["commands"]
    names: dict[str, Any] = {}
    exec(compile(command, "again.py", "exec"), names)
    again = names["run_again"](problem())
    said = {name: value for name, value in result.settings.items() if name != "step_sizes"}  # they are numbers by now
    assert again.settings == said
    for one, other in zip(result.params.values(), again.params.values(), strict=True):
        assert np.array_equal(one, other)
    rows = [[row.to_dict() | {"wall_time": 0.0} for row in found.history.rows] for found in (result, again)]
    assert repr(rows[0]) == repr(rows[1])


def test_what_has_no_words_is_an_argument() -> None:
    rate = local.SGD(lr=lambda k: 0.1 / k)
    result = feddr.simulate(problem(), feddr.FedAvg(), local=rate, rounds=1, metrics=["f1", spread])
    text = program(result.settings)
    assert "def run_again(problem, local, spread):" in text
    names: dict[str, Any] = {}
    exec(compile(text, "again.py", "exec"), names)
    again = names["run_again"](problem(), rate, spread)
    assert again.history.last.metrics == result.history.last.metrics


@pytest.mark.parametrize("wrong", ["__import__('os')", "FedDR(eta=print(1))", "x if", "()" * 200, "FedDR\nimport os"])
def test_settings_of_others_become_no_program_of_theirs(wrong: str) -> None:
    text = program({"algorithm": wrong, "local": "SGD(lr=0.1)", "metrics": ["f1", "a); import os"], "seed": 0})
    assert "def run_again(problem, algorithm):" in text
    assert "import os" not in text
