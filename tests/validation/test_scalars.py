"""Counts are whole numbers: half a round is refused, not rounded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from tests.conftest import make_regression

SGD = feddr.local.SGD(lr=0.05)
COUNTS: list[Any] = [2.5, 2.0, True, "2", None]


def problem() -> feddr.Problem:
    return feddr.Problem.regression(feddr.models.linear(2), make_regression((3, 4), 2, seed=0))


@pytest.mark.parametrize("value", COUNTS)
@pytest.mark.parametrize(
    ("engine", "algorithm", "name"),
    [
        *((feddr.simulate, feddr.FedAvg(), name) for name in ("rounds", "seed", "evaluate_every")),
        *((feddr.reference, feddr.FedAvg(), name) for name in ("rounds", "seed", "evaluate_every")),
        *((feddr.simulate_async, feddr.FedAsync(), name) for name in ("updates", "seed", "evaluate_every")),
        *((feddr.simulate_async, feddr.FedAsync(), name) for name in ("concurrency", "threads")),
        (feddr.simulate, feddr.FedAvg(), "threads"),
    ],
)
def test_engines_refuse_what_is_not_a_whole_number(engine: Any, algorithm: Any, name: str, value: Any) -> None:
    length = "updates" if engine is feddr.simulate_async else "rounds"
    if value is None and name in ("concurrency", "threads"):
        return  # their default
    with pytest.raises(ValueError, match=f"^{name} must be a whole number, got {value!r}"):
        engine(problem(), algorithm, **{"local": SGD, length: 1, name: value})


@pytest.mark.parametrize("value", [2.5, True])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda value: feddr.FedBuff(buffer=value), "buffer"),
        (lambda value: feddr.Clock(max_events=value), "max_events"),
        (lambda value: feddr.AsyncFedDR(buffer=value), "buffer"),
        (lambda value: feddr.AsyncFedDR(tau=value), "tau"),
        (lambda value: feddr.local.SGD(lr=0.1, epochs=value), "epochs"),
        (lambda value: feddr.local.SGD(lr=0.1, batch_size=value), "batch_size"),
        (lambda value: feddr.local.Accelerated(max_steps=value), "max_steps"),
        (lambda value: feddr.local.Epochs(value), "epochs"),
    ],
)
def test_parts_refuse_what_is_not_a_whole_number(make: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be a whole number, got {value}"):
        make(value)


def test_whole_numbers_of_numpy_are_as_good(tmp_path: Path) -> None:
    counts: dict[str, Any] = {"rounds": np.int64(2), "seed": np.int32(3), "evaluate_every": np.uint8(1)}
    result = feddr.simulate(problem(), feddr.FedAvg(), local=SGD, **counts)
    result.save(tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert (settings["rounds"], settings["seed"], settings["evaluate_every"]) == (2, 3, 1)


def test_whole_numbers_of_other_libraries_become_pythons() -> None:
    counts: dict[str, Any] = {"epochs": np.int8(2), "batch_size": np.uint64(2)}
    solver = feddr.local.SGD(lr=0.1, **counts)
    assert [type(count) for count in (solver.epochs, solver.batch_size)] == [int, int]
    assert solver.num_steps(5) == 6


@pytest.mark.parametrize("value", ["0.1", None, [0.1], float("nan"), float("inf"), 0, -1])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda value: feddr.FedBuff(server_lr=value), "server_lr"),
        (lambda value: feddr.local.SGD(lr=value), "lr"),
        (lambda value: feddr.local.Accelerated(tol=value), "tol"),
        (lambda value: feddr.local.Tolerance(value), "tol"),
        (lambda value: feddr.local.Absolute(value), "M"),
        (lambda value: feddr.local.Relative(value), "theta_hat"),
        (lambda value: feddr.local.Relative(0.1, start=value), "start"),
        (lambda value: feddr.AsyncFedDR(alpha=value), "alpha"),
    ],
)
def test_parts_refuse_what_is_not_a_positive_number(make: Any, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        make(value)


def test_numbers_of_numpy_become_pythons_own() -> None:
    values: list[Any] = [np.float32(0.5), np.array(0.5)]
    for value in values:
        assert type(feddr.local.Accelerated(tol=value).tol) is float
