"""One run of a search: the same as feddr run, and a record also where it comes to nothing."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import feddr
from feddr.commands import main
from feddr.history import History, Row
from feddr.tune import RunRecord, RunSpec, execute, plan
from feddr.tune.jobs import choose, judge
from tests.tune.small_searches import TOML, TWO, raw


def job(number: int = 0, label: str = "FedDR", text: str = TOML, **options: Any) -> RunSpec:
    search = plan(raw(text), **{"grid": {"algorithm.eta": [1.0, 10.0]}, **options})
    return search.job(label, number, search.seeds[0])


def test_a_run_is_that_of_simulate_and_of_feddr_run(tmp_path: Path) -> None:
    found = execute(job(1, text=TWO, seeds=[3], grid={"algorithm.eta": [1, 10], "local.lr": [0.02]}))
    data = feddr.datasets.synthetic(1, 1, num_clients=3, seed=3)
    problem = feddr.Problem.classification(feddr.models.softmax(60, 10), data)
    local = feddr.local.SGD(lr=0.02)
    last = feddr.simulate(problem, feddr.FedDR(eta=10), local=local, rounds=3, evaluate_every=2, seed=3).history.last
    assert (found.status, found.value, found.round) == ("finished", last.F, 3)
    assert found.row["train_accuracy"] == last.train_accuracy
    spent = (found.rounds, found.local_steps, found.bytes_up, found.bytes_down)
    assert spent == (3, last.local_steps, last.bytes_up, last.bytes_down)
    assert found.seconds > 0

    (tmp_path / "one.toml").write_text(TOML)
    sets = [word for key, value in found.settings.items() for word in ("--set", f"{key}={value}")]
    out = ["--out", str(tmp_path / "run"), "--set", "seed=3", "--quiet"]
    assert CliRunner().invoke(main.app, ["run", str(tmp_path / "one.toml"), *sets, *out]).exit_code == 0
    history = History.from_csv(tmp_path / "run" / "FedDR" / "history.csv")
    assert found.value == history.last.F


def test_a_run_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(job(grid={"algorithm.eta": ["auto"]})).status == "finished"
    assert capsys.readouterr() == ("", "")


def test_a_run_that_diverges_is_recorded() -> None:
    found = execute(job(grid={"local.lr": [1e38]}))
    assert (found.status, found.value, found.round) == ("diverged", None, 1)
    assert found.brief.startswith("Client")
    assert RunRecord.loads(found.dumps()) == found


def test_a_combination_that_is_refused_is_recorded() -> None:
    found = execute(job(grid={"algorithm.alpha": [3]}))
    assert (found.status, found.value) == ("refused", None)
    assert found.reason == 'algorithm FedDR: alpha must be in (0, 2], or "auto", got 3.0.'


def test_a_mistake_of_the_program_is_recorded_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feddr.FedDR, "aggregate", lambda *_: 1 / 0)
    found = execute(job())
    assert (found.status, found.value) == ("failed", None)
    assert "Traceback" in found.reason
    assert found.brief == "ZeroDivisionError: division by zero"


ROWS = [Row(0, F=0.5, train_accuracy=0.9), Row(1, F=3.0, train_accuracy=0.2), Row(2, F=1.0), Row(3, F=2.0)]


def test_the_row_that_counts() -> None:
    assert choose(ROWS, "F", "last").round == 3
    assert choose(ROWS, "F", "best").round == 2  # the start is nobody's merit
    assert choose(ROWS, "train_accuracy", "best").round == 1
    assert choose(ROWS[:1], "F", "best").round == 0


def test_what_is_not_finite_is_no_result() -> None:
    last = job()
    assert judge(last, ROWS, 3, "", {}).status == "finished"
    assert judge(last, ROWS, 9, "too few", {}).status == "stalled"
    assert judge(last, ROWS, 9, "too few", {}).value == 2.0
    diverged = judge(last, [*ROWS, Row(4, F=math.inf)], 4, "", {})
    assert (diverged.status, diverged.value, diverged.round) == ("diverged", None, 4)
    missing = judge(job(metric="test_accuracy"), ROWS, 3, "", {})
    assert (missing.status, missing.value) == ("refused", None)
    assert missing.reason.startswith("test_accuracy is nan, so it was not measured")


def test_an_asynchronous_run_that_stalls_has_a_value() -> None:
    tables = raw()
    tables |= {"engine": "clock", "updates": 12, "delays": {"name": "Windows", "windows": [[[0, 2.5]]] * 3}}
    tables["algorithm"] = {"name": "AsyncFedDR", "eta": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = execute(plan(tables, grid={"algorithm.eta": [1]}).job("AsyncFedDR", 0, 0))
    assert (found.status, found.rounds) == ("stalled", 6)
    assert found.value is not None
    assert "The run ended after 6 of 12 updates" in found.reason


def test_jobs_and_records_are_lines_of_strict_json() -> None:
    one = job(grid={"sampling": [{"name": "Uniform", "m": 2}]})
    assert "\n" not in one.dumps()
    assert RunSpec.loads(one.dumps()) == one
    found = judge(one, ROWS, 3, "", {"seconds": math.nan})
    strict = json.loads(found.dumps(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert strict["row"]["time"] is None
    again = RunRecord.loads(found.dumps())
    assert (again.key, again.value, again.settings) == (found.key, found.value, found.settings)
    assert math.isnan(again.seconds)
