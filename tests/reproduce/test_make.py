"""A miniature figure end to end: runs, what is kept of them, resuming, and the files."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from feddr import reproduce
from feddr.algorithms import FedAvg
from feddr.commands import main
from feddr.config import build, parse, perform
from feddr.reproduce import FIGURES, Plan, Runs, execute, make, output, rows, serial
from feddr.reproduce.client_models import with_models
from feddr.reproduce.runs import answer, receive
from feddr.tune import RunRecord, RunSpec
from tests.reproduce.small_figures import TINY, TOML, experiments


def plan(folder: Path, seeds: tuple[int, ...] = (1, 2)) -> Plan:
    made = rows(TINY, experiments(folder), None, seeds=seeds)
    return Plan({"tiny": made}, Runs(folder / "runs"))


def numbers(found: Plan) -> dict[tuple[str, int], list[float]]:
    (row,) = found.rows["tiny"]
    return {key: run.history.column("F") for key, run in found.finished(row).items()}


def test_a_figure_end_to_end(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert make(found, serial) == []
    assert found.missing() == {}
    (row,) = found.rows["tiny"]
    text = output.save(tmp_path / "tiny", TINY, [row], found)
    assert "Means over 2 seeds." in text
    files = {path.name for path in (tmp_path / "tiny").iterdir()}
    assert files == {"everything.csv", "shows.md", "round-xbar.png", "round-personal.png"}
    with open(tmp_path / "tiny" / "everything.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * 2 * 4  # methods, seeds, evaluations
    assert {line["line"] for line in lines} == {"FedAvg", "FedDR"}
    assert all(float(line["personal_train_accuracy"]) >= 0 for line in lines if line["round"] != "0")


def test_going_on_gives_the_numbers_of_a_run_without_a_break(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole, parts = plan(tmp_path / "whole"), plan(tmp_path / "parts")
    make(whole, serial)
    made: list[str] = []

    def interrupted(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        for job in jobs:
            if len(made) == 3:
                raise KeyboardInterrupt
            made.append(job.settings["digest"])
            yield execute(job)

    with pytest.raises(KeyboardInterrupt):
        make(parts, interrupted)
    assert len(parts.missing()) == 1

    def rest(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        for job in jobs:
            assert job.settings["digest"] not in made
            yield execute(job)

    make(parts, rest)
    assert numbers(parts) == numbers(whole)
    assert len(numbers(whole)) == 4


def test_a_run_that_is_made_elsewhere_is_kept_here(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here, there = plan(tmp_path / "here", (1,)), plan(tmp_path / "there", (1,))
    make(here, serial)

    def elsewhere(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        for job in jobs:
            line = answer(job.dumps())
            assert not list((tmp_path / "there").glob("runs/*")) or there.runs.get(job.config) is None
            yield receive(job, line)

    assert make(there, elsewhere) == []
    assert numbers(there) == numbers(here)
    kept = [sorted(path.name for path in (tmp_path / name / "runs").iterdir()) for name in ("here", "there")]
    assert kept[0] == kept[1]


def test_a_request_to_stop_begins_no_more(tmp_path: Path) -> None:
    found = plan(tmp_path)
    make(found, serial, stopping=lambda: len(found.missing()) <= 3)
    assert len(found.missing()) == 3


def test_what_cannot_be_run_is_told_and_not_kept(tmp_path: Path) -> None:
    experiments(tmp_path, TOML.replace("eta = 5.0", "eta = -5.0"))
    found = Plan({"tiny": rows(TINY, tmp_path, None, seeds=(1,))}, Runs(tmp_path / "runs"))
    (trouble,) = make(found, serial)
    assert trouble.algorithm == "FedDR"
    assert "eta must be positive" in trouble.reason
    assert len(found.missing()) == 1


def test_a_run_that_diverges_is_kept_with_its_history(tmp_path: Path) -> None:
    experiments(tmp_path, TOML.replace("lr = 0.1", "lr = 1e38"))
    found = Plan({"tiny": rows(TINY, tmp_path, None, seeds=(1,))}, Runs(tmp_path / "runs"))
    assert make(found, serial) == []
    (row,) = found.rows["tiny"]
    assert {run.status for run in found.finished(row).values()} == {"diverged"}
    assert "Diverged: FedAvg (seed 1), FedDR (seed 1)" in output.save(tmp_path / "tiny", TINY, [row], found)


def test_a_damaged_record_is_refused_with_a_remedy(tmp_path: Path) -> None:
    found = plan(tmp_path, (1,))
    make(found, serial)
    path = next((tmp_path / "runs").glob("*.json"))
    path.write_text(json.dumps({"status": "finished"}))
    with pytest.raises(ValueError, match="remove it to make the run again"):
        found.missing()


def test_remembering_models_changes_nothing_else() -> None:
    import tomllib

    config = parse(tomllib.loads(TOML))
    problem, (run, _) = build(config)
    assert run.algorithm == FedAvg()
    plain = perform(config, problem, run)
    kept = perform(config, problem, run._replace(algorithm=with_models(run.algorithm)))
    assert plain.history.column("F") == kept.history.column("F")
    assert np.isnan(plain.history.last.personal_train_loss)
    # After its own steps a client's model fits its own samples better than the mean of all does.
    assert kept.history.last.personal_train_loss < kept.history.last.train_loss


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("feddr.experiments.PAPER", experiments(tmp_path))
    monkeypatch.setattr(reproduce, "FIGURES", {"tiny": TINY})
    runner = CliRunner()
    listed = runner.invoke(main.app, ["reproduce", "--list", "--seeds", "3"])
    assert "tiny: A tiny figure; 2 runs, 2 to make, 7 s of a core" in listed.output
    result = runner.invoke(main.app, ["reproduce", "tiny", "--seeds", "3", "--workers", "0", "--out", "here"])
    assert result.exit_code == 0, result.output
    assert "2 to make, about 7 s with 1 at a time" in result.stderr
    assert (tmp_path / "here" / "tiny" / "round-xbar.png").exists()
    summary = (tmp_path / "here" / "summary.md").read_text()
    assert "| F at xbar (rank) | equal | draws | FedAvg | FedDR |" in summary
    assert summary in result.output
    with open(tmp_path / "here" / "summary.csv", newline="") as file:
        assert sorted(int(line["rank"]) for line in csv.DictReader(file)) == [1, 2]
    again = runner.invoke(main.app, ["reproduce", "tiny", "--seeds", "3", "--workers", "0", "--out", "here"])
    assert "0 to make" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], f"There is no figure nothing; there are {', '.join(FIGURES)}."),
        (["--seeds", "1,x"], "--seeds must be whole numbers from 0 with commas"),
        (["--data-dir", "nowhere"], "--data-dir must be a folder, nowhere is not."),
        (["--ray", "local", "--workers", "0"], "--workers 0 makes the runs in this process, got --ray local as well"),
    ],
)
def test_the_command_refuses(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main.app, ["reproduce", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
