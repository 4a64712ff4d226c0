"""The command line when it is interrupted: what it says, what it leaves, and how it resumes."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from feddr.checkpoint import Checkpoints
from feddr.commands import main
from feddr.runs.folder import CHECKPOINTS, PROGRESS
from tests.checkpoint.test_full_disk import on_a_small_disk
from tests.reliability.faults import record
from tests.small_experiments import FEDAVG, FEDDR, toml

pytestmark = pytest.mark.slow

LONG: dict[str, Any] = {
    "rounds": 1500,
    "more": "evaluate_every = 500",
    "local": "lr = 0.001\nbatch_size = 1000",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "two.toml").write_text(toml(FEDDR, FEDAVG, **LONG))
    (tmp_path / "one.toml").write_text(toml(FEDDR, **LONG))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def feddr_(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, [*arguments, "--quiet"])


def start(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "feddr", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return [{**row, "wall_time": ""} for row in csv.DictReader(file)]


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def wait_for(condition: Path, process: "subprocess.Popen[str]", text: str = "") -> None:
    while not condition.exists() or text not in condition.read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_a_comparison_that_is_killed_resumes(folder: Path) -> None:
    """Killed in the second algorithm, while another program wants the folder: the first is not run again."""
    assert feddr_("compare", "two.toml", "--out", "whole").exit_code == 0
    with start("compare", "two.toml", "--out", "cut", "--checkpoint-every", "20") as process:
        wait_for(folder / "cut" / CHECKPOINTS / PROGRESS, process, "FedDR")
        while not Checkpoints(folder / "cut" / CHECKPOINTS / "FedAvg").numbers():
            assert process.poll() is None
        for arguments in (["--resume", "cut"], ["two.toml", "--out", "cut"]):
            refused = feddr_("compare", *arguments)
            assert refused.exit_code == 2
        assert refused.stderr == "feddr: --out must be a new or an empty folder, cut is not.\n"
        busy = feddr_("compare", "--resume", "cut").stderr
        process.kill()
    assert busy == "feddr: cut is in use by another run; wait for it, or take another folder.\n"
    assert not (folder / "cut" / "FedAvg").exists()
    finished = (folder / "cut" / "FedDR" / "model.safetensors").stat().st_mtime_ns
    again = feddr_("compare", "--resume", "cut", "--threads", "1")
    assert (again.exit_code, again.output) == (0, "")
    assert (folder / "cut" / "FedDR" / "model.safetensors").stat().st_mtime_ns == finished
    assert names(folder / "cut") == names(folder / "whole")
    for label in ("FedDR", "FedAvg"):
        ours, whole = folder / "cut" / label, folder / "whole" / label
        assert rows(ours / "history.csv") == rows(whole / "history.csv")
        assert (ours / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert rows(folder / "cut" / "comparison.csv") == rows(folder / "whole" / "comparison.csv")
    assert rows(folder / "cut" / "summary.csv") == rows(folder / "whole" / "summary.csv")
    over = feddr_("compare", "--resume", "cut")
    assert (over.exit_code, over.stderr) == (
        2,
        "feddr: cut holds nothing to resume: its run has ended, or never began.\n",
    )
    record(30, "feddr compare killed, and started twice", 4, 4, "refused while in use; same files after --resume")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_ctrl_c_saves_and_says_how_to_resume(folder: Path, number: signal.Signals) -> None:
    with start("run", "one.toml", "--out", "it's cut") as process:
        assert process.stderr is not None
        assert "round 0/1500" in process.stderr.readline()
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 130
    command = "feddr run --resume 'it'\"'\"'s cut'"
    assert errors.endswith(f"interrupted; results so far are saved in it's cut. Resume with: {command}\n")
    (saved,) = Checkpoints(folder / "it's cut" / CHECKPOINTS / "FedDR").numbers()
    assert saved == int(rows(folder / "it's cut" / "FedDR" / "history.csv")[-1]["round"])
    assert feddr_("run", "--resume", "it's cut").exit_code == 0
    assert feddr_("run", "one.toml", "--out", "whole").exit_code == 0
    assert names(folder / "it's cut") == names(folder / "whole")
    assert rows(folder / "it's cut" / "FedDR" / "history.csv") == rows(folder / "whole" / "FedDR" / "history.csv")


def test_a_run_killed_before_its_first_checkpoint_restarts(folder: Path) -> None:
    hours = ["--set", "local.batch_size=none", "--set", "local.epochs=1000000000"]
    with start("run", "one.toml", "--out", "cut", *hours) as process:
        wait_for(folder / "cut" / CHECKPOINTS / PROGRESS, process)
        process.kill()
    done = feddr_("run", "--resume", "cut", "--set", "rounds=2", "--set", "local.epochs=1")
    assert (done.exit_code, done.output) == (0, "")
    assert [row["round"] for row in rows(folder / "cut" / "FedDR" / "history.csv")] == ["0", "2"]
    assert not (folder / "cut" / CHECKPOINTS).exists()


def test_results_that_cannot_be_written_end_in_one_line(folder: Path) -> None:
    """A disk with room for a checkpoint and not for the figures; with more room, the run continues and ends well."""
    disk = folder / "disk"
    short = "--set rounds=2 --quiet"
    script = (
        f"cd {folder}; python=$0; $python -m feddr run one.toml --out {disk}/run {short}; echo code $?; "
        f"mount -o remount,size=4m {disk}; $python -m feddr run --resume {disk}/run --quiet; echo code $?; "
        f"ls {disk}/run {disk}/run/FedDR"
    )
    done = on_a_small_disk(disk, "48k", ["sh", "-c", script, sys.executable])
    assert done.stdout.split() == [
        *("code", "1", "code", "0"),
        *(f"{disk}/run:", "FedDR", "clients.csv", "config.toml"),
        *(f"{disk}/run/FedDR:", "curves.png", "history.csv", "model.json", "model.safetensors", "participation.csv"),
        "settings.json",
    ]
    again = f"Resume with: feddr run --resume {disk}/run"
    lines = done.stderr.splitlines()
    assert lines[-1] == f"feddr: {disk}/run: the results cannot be written, No space left on device. {again}"
    record(23, "disk full when the results are written", 1, 1, "one line; --resume ends well when there is room")


def test_a_diverged_algorithm_keeps_its_last_good_state(folder: Path) -> None:
    done = feddr_("run", "one.toml", "--out", "cut", "--set", "local.lr=1e38")
    assert done.exit_code == 1
    assert done.stderr.endswith(f"The state after round 1 is in cut/{CHECKPOINTS}/FedDR.\n")
    notes = json.loads((folder / "cut" / CHECKPOINTS / PROGRESS).read_text())
    assert notes["FedDR"]["status"] == "diverged in round 2"
    assert feddr_("run", "--resume", "cut").exit_code == 1  # nothing has changed, so it is not tried again
    other = feddr_("run", "--resume", "cut", "--set", "local.lr=0.001")
    assert (other.exit_code, "belongs to another run: it has local = SGD(lr=1e+38" in other.stderr) == (2, True)


WRONG = [
    (["run"], "CONFIG is missing; give an experiment in TOML, or --resume with the folder of a run."),
    (["run", "one.toml", "--resume", "x"], "--resume takes everything from x, got one.toml as well; drop one of them."),
    (["run", "--out", "y", "--resume", "x"], "--resume takes everything from x, got y as well; drop one of them."),
    (["run", "--resume", "x"], "--resume must be the folder of a run, x has no config.toml."),
    (["run", "one.toml", "--checkpoint-every", "soon"], "checkpoint_every must be a number of rounds, or seconds"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_wrong_use_is_refused_in_one_line(folder: Path, arguments: list[str], message: str) -> None:
    done = feddr_(*arguments)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"feddr: {message}")
    assert {path.name for path in folder.iterdir()} == {"one.toml", "two.toml"}
