"""``feddr run --ray``: the files of a run on one machine, and what is refused."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from feddr.commands import main
from feddr.history import History
from tests.engines.workers.in_process import in_process
from tests.small_experiments import FEDAVG, FEDDR, toml, work_folder

__all__ = ["in_process"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with an experiment beside it."""
    return work_folder(tmp_path, monkeypatch, two=toml(FEDDR, FEDAVG), one=toml(FEDDR))


def feddr_(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, arguments)


@pytest.mark.usefixtures("in_process")
def test_a_comparison_on_workers_writes_what_one_machine_does(folder: Path) -> None:
    for out, more in (("here", ()), ("there", ("--ray", "local", "--workers", "2"))):
        result = feddr_("compare", "../two.toml", "--out", out, *more)
        assert result.exit_code == 0, result.output
    for name in ("FedDR", "FedAvg"):
        here, there = (History.from_csv(folder / out / name / "history.csv") for out in ("here", "there"))
        assert here.column("F") == there.column("F")
        placed = json.loads((folder / "there" / name / "settings.json").read_text())["cluster"]["workers"]
        assert [worker["clients"] for worker in placed] == [2, 1]
        model = [(folder / out / name / "model.safetensors").read_bytes() for out in ("here", "there")]
        assert model[0] == model[1]


@pytest.mark.usefixtures("folder")
def test_workers_without_a_cluster_are_refused() -> None:
    result = feddr_("run", "../one.toml", "--workers", "2")
    assert result.exit_code == 2
    assert "give --ray local" in result.stderr


@pytest.mark.usefixtures("folder")
def test_a_missing_ray_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = feddr_("run", "../one.toml", "--ray", "auto", "--quiet")
    assert result.exit_code == 2
    assert result.stderr == "feddr: ray is missing; pip install 'feddr[ray]'.\n"
