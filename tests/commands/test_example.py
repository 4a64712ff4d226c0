"""The experiments that feddr brings: listed, written where one is, never over something."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from feddr import config, experiments
from feddr.commands import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_list_has_every_file_with_what_it_is() -> None:
    lines = CliRunner().invoke(main.app, ["example"]).output.splitlines()
    files = [path.stem for path in experiments.FOLDER.rglob("*.toml")]
    assert len(set(files)) == len(files), "two experiments have one name"
    assert sorted(line.split()[0] for line in lines) == sorted(files)
    assert all(len(line.split()) > 5 for line in lines)
    assert lines[0].split()[0] == "first"
    assert all(line.count("(") == line.count(")") for line in lines), "a sentence ends within brackets"


@pytest.mark.parametrize("name", ["first", "first.toml", "synthetic-11"])
def test_one_is_written_as_it_is_and_can_be_read(name: str) -> None:
    done = CliRunner().invoke(main.app, ["example", name])
    path = Path(name).with_suffix(".toml")
    assert done.output == f"Saved {path}; feddr compare {path} runs it.\n"
    assert path.read_bytes() == experiments.shipped()[path.stem].read_bytes()
    assert config.load(path).algorithms


def test_a_search_goes_to_tune() -> None:
    assert (
        "feddr tune searches/mine.toml"
        in CliRunner().invoke(main.app, ["example", "tune", "--out", "searches/mine.toml"]).output
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["second"], "There is no experiment second; there are first, async, tune, "),
        (["first"], "first.toml is there already; give another file by --out, or remove it."),
        (["--out", "x.toml"], "--out needs the NAME of an experiment, got x.toml alone; there are first, "),
    ],
)
def test_refusals(words: list[str], message: str) -> None:
    Path("first.toml").write_text("mine")
    done = CliRunner().invoke(main.app, ["example", *words])
    assert done.exit_code == 2
    assert message in done.stderr
    assert Path("first.toml").read_text() == "mine"
