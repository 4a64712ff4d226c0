"""``feddr compare`` with several seeds, metrics, clients and an early stop, as people type it."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from feddr.commands.main import app
from feddr.runs.folder import read_history
from tests.small_experiments import FEDAVG, FEDDR, toml, work_folder

MORE = 'evaluate_every = 1\nmetrics = ["f1"]\nper_client = true'


@pytest.mark.slow
def test_means_over_seeds_with_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_folder(tmp_path, monkeypatch, both=toml(FEDDR, FEDAVG, rounds=4, more=MORE))
    arguments = ["compare", "../both.toml", "--seeds", "0,3", "--out", "out", "--stop-when", "bytes=1"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "stopped in round 1" in result.stdout
    assert "Means over the seeds 0, 3" in result.stdout
    assert "worst" in result.stdout
    histories = [read_history(Path("out", f"seed-{seed}", "FedDR")) for seed in (0, 3)]
    summary = pd.read_csv("out/summary.csv", index_col="algorithm")
    assert summary["F"]["FedDR"] == pytest.approx(sum(one.last.F for one in histories) / 2)
    assert summary["seeds"].tolist() == [2, 2]
    assert [one.last.round for one in histories] == [1, 1]
    assert list(histories[0].clients.tables) == [0, 1]
    assert Path("out/comparison.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--seeds", "0,a"], "--seeds must be whole numbers with commas, such as 0,1,2, got 0,a."),
        (["--seeds", "1,1"], "--seeds must be whole numbers from 0 that differ, got 1,1."),
        (["--stop-when", "F>=1"], "F is better when it is smaller, write <="),
        (["--set", 'metrics=["acu"]'], "Did you mean auc?"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_folder(tmp_path, monkeypatch, both=toml(FEDDR, FEDAVG))
    result = CliRunner().invoke(app, ["compare", "../both.toml", *arguments])
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())
    assert not list(work.iterdir())
