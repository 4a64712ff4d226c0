"""The command: what it writes, what it prints, how it ends, and how it resumes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from feddr import config
from feddr.commands import main
from tests.small_experiments import work_folder
from tests.tune.small_searches import THREE, TOML

pytestmark = pytest.mark.slow

FILES = {"best.toml", "runs.csv", "runs.jsonl", "search.json", "trials.csv", "tune.png"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return work_folder(tmp_path, monkeypatch, one=TOML, three=THREE)


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, ["tune", *arguments, "--workers", "0"])


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_search_is_announced_and_told(folder: Path) -> None:
    result = tune("../three.toml", "--grid", "algorithm.eta=1,10", "--seeds", "1", "--set", "rounds=2")
    assert result.exit_code == 0, result.output
    assert files(folder / "runs" / "small-tune") == FILES
    announced = result.stderr.splitlines()
    assert announced[:6] == [
        "Search: a grid, 2 trials for each of FedDR, FedPD.",
        "FedAvg: nothing to vary, one trial.",
        "  FedDR: eta in {1, 10}",
        "  FedPD: eta in {1, 10}",
        "Budget: 2 rounds a run, each trial with seed 1: 5 runs, one at a time.",
        "Best is the least of the value of F at xbar, at the end.",
    ]
    assert announced[-1].startswith("5/5 runs, ")
    rows = [line.split() for line in result.stdout.splitlines()]
    ranked = rows[2:7]
    assert [row[:2] for row in ranked] == [
        ["FedDR", "1"],
        ["FedDR", "2"],
        ["FedPD", "1"],
        ["FedPD", "2"],
        ["FedAvg", "1"],
    ]
    for first, second in (ranked[:2], ranked[2:4]):
        assert {first[2], second[2]} == {"eta=1", "eta=10"}
        assert float(first[3]) <= float(second[3])
    assert ranked[4][2] == "-"
    assert "Best settings: feddr compare runs/small-tune/best.toml" in result.stdout
    found = config.load("runs/small-tune/best.toml")
    best = [float(ranked[k][2].removeprefix("eta=")) for k in (0, 2)]
    assert [method.algorithm.arguments.get("eta") for method in found.algorithms] == [*best, None]


def test_all_diverged(folder: Path) -> None:
    result = tune("../one.toml", "--grid", "local.lr=1e37,1e38", "--quiet")
    assert result.exit_code == 1
    assert result.stdout == ""
    first, last = result.stderr.splitlines()
    assert first.startswith("feddr: FedDR: 2 diverged of 2 runs; the first, local.lr=1e+37, seed 0 in round 1: Client")
    assert last == "feddr: no run came to its end: 2 diverged. Lower lr or eta, or search elsewhere."
    assert files(folder / "runs" / "small-tune") == FILES - {"best.toml"}


def test_all_refused(folder: Path) -> None:
    result = tune("../one.toml", "--grid", "algorithm.alpha=3,4", "--quiet", "--out", "there")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "feddr: all runs were refused, so there is no best trial."
    assert files(folder) == {"there"}


REFUSED = [
    (["missing.toml"], "missing.toml: no such file."),
    (["../one.toml"], "There is nothing to search over; give --grid"),
    (
        ["../one.toml", "--grid", "algorithm.eta"],
        "--grid is KEY=VALUES, such as algorithm.eta=1,10,100, got algorithm.eta.",
    ),
    (["../one.toml", "--random", "algorithm.eta="], "--random is KEY=VALUES, such as"),
    (["../one.toml", "--space", "paper", "--seeds", "0;1"], "--seeds must be whole numbers with commas, such as 0,1,2"),
    (["../one.toml", "--space", "paper", "--resume", "old"], "--resume must be the folder of a search, got old; --out"),
    (
        ["../one.toml", "--out", "a", "--resume", "b"],
        "--out is for a new search and --resume for an old one, got a and b",
    ),
    (["../one.toml", "--space", "paper", "--out", ".."], "--out must be a new or an empty folder, .. is not."),
    (["../three.toml", "--grid", "algorithm.mu=1"], "algorithm.mu is a setting of none of FedDR, FedPD, FedAvg."),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_done_is_refused_in_one_line(folder: Path, arguments: list[str], message: str) -> None:
    result = tune(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"feddr: {message}")
    assert files(folder) == set()


def test_no_folder_is_left_where_nothing_was_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    arguments = ["tune", "../one.toml", "--space", "paper", "--ray", "auto", "--quiet"]
    result = CliRunner().invoke(main.app, arguments)
    assert result.exit_code == 2
    assert result.stderr == "feddr: --ray needs Ray, which is not installed; pip install 'feddr[ray]'.\n"
    assert files(folder) == set()


def test_ctrl_c_keeps_what_there_is_and_the_search_resumes(folder: Path) -> None:
    """With real processes: a search that is resumed in this one must find the same."""
    search = ["../one.toml", "--set", "rounds=20", "--grid", "algorithm.eta=1,10", "--seeds", "0,1"]
    command = [sys.executable, "-m", "feddr", "tune", *search, "--out", "cut", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        runs, began = folder / "cut" / "runs.jsonl", time.monotonic()
        while not (runs.exists() and runs.stat().st_size) and time.monotonic() < began + 120:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    kept = len(runs.read_text().splitlines())
    assert 1 <= kept < 4
    resumed = f"feddr tune {' '.join(search)} --workers 1 --resume cut"
    assert errors.endswith(f"feddr: interrupted; {kept} of 4 runs are kept, resume with: {resumed}\n")
    assert files(folder / "cut") >= FILES - {"best.toml", "tune.png"}

    result = tune(*search, "--resume", "cut")
    assert result.exit_code == 0, result.output
    assert f"4 runs, {kept} of them done" in result.stderr
    assert tune(*search, "--out", "whole", "--quiet").exit_code == 0
    values = [_without_seconds(folder / name / "trials.csv") for name in ("cut", "whole")]
    assert values[0] == values[1]
    assert (folder / "cut" / "best.toml").read_text() == (folder / "whole" / "best.toml").read_text()


def test_help_does_not_wait_for_jax() -> None:
    code = "import sys\nimport feddr.commands.main\nassert not {'jax', 'numpy', 'ray', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


def _without_seconds(path: Path) -> list[str]:
    return [line.rsplit(",", 1)[0] for line in path.read_text().splitlines()]
