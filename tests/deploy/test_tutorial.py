"""The tutorial of docs/DEPLOYMENT.md: what it shows is what there is, and its commands run as they stand."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import feddr
from feddr.deploy import example
from feddr.deploy.address import free_port
from feddr.deploy.experiment import TableExperiment
from feddr.sites import verify
from tests.deploy.harness import Federation, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "DEPLOYMENT.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## Tutorial")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
TIMEOUT = 3000.0
"""Seconds; on an idle machine with two cores it takes a few minutes."""


def test_the_files_that_are_shown_are_those_that_are_written() -> None:
    experiment, change, davos = (text for language, text in BLOCKS if language == "toml")
    files = example.files()
    assert experiment == files["experiment.toml"]
    assert davos == files["davos.toml"]
    other = {**tomllib.loads(experiment), **tomllib.loads(change)}
    del other["rounds"]
    assert TableExperiment(other).settings.rounds == 40


@pytest.mark.deploy
def test_the_commands_run_as_they_stand(tmp_path: Path) -> None:
    """Word for word in an empty folder, but for the port, which may be in use, and a file that says it went well."""
    port = free_port()
    script = "".join(text for language, text in BLOCKS if language == "sh")
    script = script.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    script = script.replace("--state server &", f"--state server --port {port} &", 1)
    *_, end = re.split(r"^(?=kill )", script, flags=re.MULTILINE)
    script = f"set -e\n{script.removesuffix(end)}touch well\n{end}"
    federation = Federation(tmp_path)  # whose close ends everything that was started with a Flower home in this folder
    surroundings = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(tmp_path / "flwr"),
        "FEDDR_COMPILATION_CACHE": os.environ.get("FEDDR_COMPILATION_CACHE", str(tmp_path / "compiled")),
    }
    with federation, open(tmp_path / "output.txt", "w", encoding="utf-8") as output:
        shell = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=surroundings, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = shell.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            shell.kill()
            code = -1
        text = (tmp_path / "output.txt").read_text(encoding="utf-8")
        assert (tmp_path / "study" / "well").exists(), f"exit code {code}\n{text}\n{federation.explain()}"
    folder = tmp_path / "study" / "server" / "server" / "hospitals"
    history = feddr.History.from_csv(folder / "history.csv")
    assert [row.round for row in history.rows] == [0, 5]
    assert history.last.F < history.rows[0].F
    assert "The log is whole" in text
    assert len(re.findall(r"^(?:yes|no),0\.\d+,0\.\d+$", text, re.MULTILINE)) == 5
    for i in range(4):
        kinds = verify(tmp_path / "study" / f"node-{i}" / "audit" / "log.jsonl").kinds
        assert kinds["hospitals", "train"][0] >= 5
        assert kinds["hospitals", "table"][0] >= 1


@pytest.mark.deploy
def test_a_site_that_lists_its_experiments_runs_no_other_code(tmp_path: Path) -> None:
    """Neither another experiment nor an app with code of its own, which would ask no rules; and the listed one runs."""
    from tests.deploy.outcome import APP

    with Federation(tmp_path) as federation:
        example.write(tmp_path / "study")
        config = tmp_path / "study" / "experiment.toml"
        text = config.read_text().replace("sites = 4", "sites = 1").replace("rounds = 5", "rounds = 1")
        config.write_text(text)
        site = tmp_path / "study" / "chur.toml"
        rules = f'minimum_sites = 1\nexperiments = ["{TableExperiment.read(config).digest}"]'
        site.write_text(site.read_text().replace("minimum_sites = 3              # in a round", rules))
        federation.start_server()
        federation.start_node(0, "--site", str(site))
        federation.wait_joined(0, 1)
        federation.submit(APP, clients=1, feddr__rounds=1, feddr__name="own-code", feddr__patience=300.0)
        refused = federation.wait_event("own-code", "node_refused", 120)
        assert "this app has code of its own" in refused[0]["detail"]
        assert not list((federation.node_state(0) / "flwr").rglob("misbehave.py"))  # none of it has come to the disk
        code, output = submitted(federation, config)
        assert code == 0, f"{output}\n{federation.explain()}"
        config.write_text(text.replace("lr = 0.1", "lr = 0.2").replace('"hospitals"', '"another"'))
        code, output = submitted(federation, config, "--detach")
        assert code == 0, output
        wait_for(lambda: "node_refused" in logged(federation, "another"), 120, "the node refuses", federation.explain)
        assert "is none of them" in logged(federation, "another")
        kinds = verify(federation.node_state(0) / "audit" / "log.jsonl").kinds
        assert kinds["hospitals", "train"][0] >= 1
        assert not [kind for run, kind in kinds if run == "another" and kind != "error"]


def logged(federation: Federation, run: str) -> str:
    path = federation.run_folder(run) / "log.jsonl"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def submitted(federation: Federation, config: Path, *options: str) -> tuple[int, str]:
    """Run ``feddr deploy run``, and return its exit code and what it has printed."""
    feddr_program = str(Path(sys.executable).parent / "feddr")
    command = [feddr_program, "deploy", "run", str(config), "--state", str(federation.state), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT / 3, check=False)
    return done.returncode, done.stdout + done.stderr
