"""The command, and what runs leave for it."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from feddr.commands import main
from feddr.history import History, Row
from feddr.report.gather import gather
from feddr.runs.stored import Live, read_participation
from tests.report.folders import experiment
from tests.small_experiments import toml

TINY = toml(name="tiny", rounds=4, tables='[sampling]\nname = "Uniform"\nm = 2')


def feddr_(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main.app, [str(argument) for argument in arguments])


def test_a_page_is_written_into_the_folder_of_the_run(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "run")
    done = feddr_("report", folder)
    assert done.exit_code == 0, done.output
    path = folder / "report.html"
    assert done.stdout == f"Saved {path}, {path.stat().st_size / 1000:,.0f} kB.\n"
    assert feddr_("report", folder).exit_code == 0  # again, in its place


def test_runs_share_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [experiment(Path("a"), name="one"), experiment(Path("b"), name="two")]
    assert feddr_("report", *folders).exit_code == 0
    assert "one, two" in Path("report.html").read_text()
    assert feddr_("report", *folders, "--out", "there/both.html").exit_code == 0
    assert Path("there/both.html").is_file()


REFUSED = [
    (["report", "nowhere"], "RUN must be the folder of a run, nowhere is not a folder; feddr run and feddr compare"),
    (["report", "empty"], "RUN must be the folder of a run, empty has neither config.toml nor history.csv;"),
    (["report", "run", "--out", "run/config.toml"], "--out must be a file that ends in .html, got run/config.toml."),
    (["report", "run", "--out", "run/config.toml/x.html"], "run/config.toml/x.html: cannot be written, "),
    (["report", "run", "--port", "80"], "--port is for --watch, got 80 without it; drop it, or add --watch."),
    (["report", "run", "--watch", "--out", "x.html"], "--watch serves the page and writes none, got --out x.html;"),
    (["report", "begun"], "begun has no evaluations yet; wait for the first, or use --watch."),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_what_cannot_be_done_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment(Path("run"))
    experiment(Path("begun"), ["a"])
    Path("begun/a/history.csv").unlink()
    Path("empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = feddr_(*arguments)
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"feddr: {message}")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_leaves_its_clients_and_rows_that_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row can be read as soon as it was measured; in the end history.csv has them."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    seen: list[tuple[str, list[int]]] = []

    def add(self: Live, row: Row) -> None:
        plain(self, row)
        (run,) = gather([Path("runs/tiny")])["runs"]
        (one,) = run["methods"]
        seen.append((one["status"], one["columns"]["round"]))

    plain: Any = Live.add
    monkeypatch.setattr(Live, "add", add)
    assert feddr_("run", "tiny.toml", "--threads", "1", "--quiet").exit_code == 0
    assert seen == [("unfinished", [0]), ("unfinished", [0, 2]), ("unfinished", [0, 2, 4])]
    assert not Path("runs/tiny/.checkpoints").exists()
    assert History.from_csv("runs/tiny/FedDR/history.csv").column("round") == [0, 2, 4]
    parts = read_participation(Path("runs/tiny/FedDR/participation.csv"))
    assert sum(part.updates for part in parts) == 4 * 2
    (run,) = gather([Path("runs/tiny")])["runs"]
    assert (run["clients"]["total"], run["methods"][0]["participation"]["clients"]) == (3, 3)
    assert run["methods"][0]["status"] == "ended"
