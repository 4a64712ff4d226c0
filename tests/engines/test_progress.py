"""Progress of runs that are started from Python: a bar where somebody looks, silence elsewhere."""

import dataclasses
import io
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import feddr
from feddr.engines.shared import progress
from feddr.engines.shared.state import Progress, RunState, WorkersLoad
from feddr.history import Row


@pytest.fixture
def problem() -> feddr.Problem:
    rng = np.random.default_rng(0)
    clients = [{"x": rng.normal(size=(4, 2)), "y": rng.normal(size=4)} for _ in range(3)]
    return feddr.Problem.regression(feddr.models.linear(2), feddr.FederatedData.from_clients(clients))


def report(k: int, steps: int, row: Row | None = None) -> Progress:
    return Progress(k, 40, RunState(server=None, local_steps=steps), row)


ENGINES: dict[str, Callable[..., feddr.Result]] = {
    "simulate": lambda p, **more: feddr.simulate(p, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=2, **more),
    "reference": lambda p, **more: feddr.reference(p, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=2, **more),
    "simulate_async": lambda p, **more: feddr.simulate_async(
        p, feddr.FedAsync(), local=feddr.local.SGD(lr=0.1), updates=2, evaluate_every=1, **more
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bar_when_asked_and_silence_in_pipes(
    engine: str, problem: feddr.Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    ENGINES[engine](problem)
    assert capsys.readouterr().err == ""
    ENGINES[engine](problem, progress=True)
    shown = capsys.readouterr().err
    assert "2/2 at 2: F " in shown
    assert ("FedAsync" if engine == "simulate_async" else "FedAvg") in shown


def test_workers_are_shown_beside_the_speed() -> None:
    pace, workers = progress.RoundPace("FedDR"), WorkersLoad((0.5, 1.0, 0.75), 2_500_000)
    words = []
    for k in range(3):
        pace.update(report(k, 100 * k))
        words.append(pace.words(dataclasses.replace(report(k, 100 * k), workers=workers))["speed"])
    assert words[0] == "3 workers 50-100 % busy, 2.5 MB"
    assert re.fullmatch(r"[\d,]+ steps/s, 3 workers 50-100 % busy, 2.5 MB", words[2])
    assert "workers" not in pace.words(report(3, 300))["speed"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_in_terminals_unless_it_is_unwanted(problem: feddr.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    ENGINES["simulate"](problem, progress=False)
    assert terminal.getvalue() == ""
    ENGINES["simulate"](problem)
    assert "2/2" in terminal.getvalue()


def test_a_bar_in_notebooks_without_widgets(problem: feddr.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[str] = []
    kernel = types.SimpleNamespace(kernel=object())

    class Handle:
        def update(self, shown: str) -> None:
            pictures.append(shown)

    def display(shown: str, **_: Any) -> Handle:
        pictures.append(shown)
        return Handle()

    module = types.ModuleType("IPython")
    module.get_ipython = lambda: kernel  # type: ignore[attr-defined]
    inner = types.ModuleType("IPython.display")
    inner.HTML, inner.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    ENGINES["simulate"](problem)
    assert '<progress value="0" max="2">' in pictures[0]
    assert '<progress value="2" max="2">' in pictures[-1]
    assert "round 2/2, at 2: F " in pictures[-1]
    del pictures[:]
    ENGINES["simulate"](problem, progress=False)
    assert not pictures


def test_the_last_evaluation_is_named_and_the_first_round_is_not_part_of_the_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    pace = progress.RoundPace("FedDR")
    pace.update(report(0, 0, Row(round=0, F=2.0)))
    now[0] = 10.0  # the compiler
    pace.update(report(1, 100))
    assert pace.words(report(1, 100)) == {"round": "1/40", "metrics": "at 0: F 2", "speed": ""}
    for k in range(2, 5):
        now[0] += 0.5
        pace.update(report(k, 100 * k, Row(round=3, F=0.5, train_accuracy=0.893) if k == 3 else None))
    words = pace.words(report(4, 400))
    assert words == {"round": "4/40", "metrics": "at 3: F 0.5, train 89.3 %", "speed": "200 steps/s"}
