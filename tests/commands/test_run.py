"""The command line: what it writes, what it prints, and how it ends."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from safetensors.numpy import load_file
from typer.testing import CliRunner

import feddr
from feddr import config
from feddr.commands import main, progress
from feddr.commands.console import Interrupts
from feddr.commands.run import RunOptions, _again
from feddr.config import ClusterArguments
from feddr.history import COLUMNS, History, Row
from feddr.runs.folder import Folder, Outcome
from feddr.runs.trackers import TrackerTargets
from tests.small_experiments import FEDAVG, FEDDR, FEDPD, toml, work_folder

ONE = toml(FEDDR)
THREE = toml(FEDDR, FEDAVG, FEDPD)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with the two experiments beside it."""
    return work_folder(tmp_path, monkeypatch, one=ONE, three=THREE)


def feddr_(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, arguments)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


SAVED = {"history.csv", "model.json", "model.safetensors", "settings.json", "curves.png", "participation.csv"}


def test_run_writes_what_the_same_python_computes(folder: Path) -> None:
    result = feddr_("run", "../one.toml", "--set", "seed=1", "--threads", "1")
    assert result.exit_code == 0, result.output
    assert files(folder / "runs" / "small") == {"config.toml", "clients.csv", *(f"FedDR/{name}" for name in SAVED)}

    data = feddr.datasets.synthetic(1, 1, num_clients=3, seed=1)
    problem = feddr.Problem.classification(feddr.models.softmax(60, 10), data)
    local = feddr.local.SGD(lr=0.01)
    expected = feddr.simulate(problem, feddr.FedDR(1.0, 1.0), local=local, rounds=3, evaluate_every=2, seed=1)
    history = History.from_csv(folder / "runs" / "small" / "FedDR" / "history.csv")
    assert history.column("round") == [0, 2, 3]
    assert history.column("F") == expected.history.column("F")
    model = load_file(folder / "runs" / "small" / "FedDR" / "model.safetensors")
    assert {name: array.tolist() for name, array in model.items()} == {
        name: array.tolist() for name, array in expected.params.items()
    }
    assert json.loads((folder / "runs" / "small" / "FedDR" / "settings.json").read_text())["seed"] == 1
    written = tomllib.loads((folder / "runs" / "small" / "config.toml").read_text())
    assert config.parse(written) == config.load("../one.toml", ["seed=1"])
    assert "round 3/3" in result.stderr
    assert "Saved in runs/small." in result.stdout


def test_step_sizes_that_were_chosen_are_shown_unless_quiet(folder: Path) -> None:
    auto = ("--set", "algorithm.eta=auto")
    assert re.findall("FedDR: .*eta.*", feddr_("run", "../one.toml", "--out", "shown", *auto).stderr)
    quiet = feddr_("run", "../one.toml", "--out", "quiet", *auto, "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    for name in ("shown", "quiet"):
        assert "eta" in json.loads((folder / name / "FedDR" / "settings.json").read_text())["step_sizes"]


def test_compare_continues_when_an_algorithm_diverges(folder: Path) -> None:
    sets = ["--set", "personal=true", "--set", "algorithm.FedAvg.local.lr=1e38"]
    result = feddr_("compare", "../three.toml", "--out", "there", *sets)
    assert result.exit_code == 0, result.output
    compared = {"comparison.png", "comparison.csv", "summary.csv", "personal.png", "config.toml", "clients.csv"}
    whole = {f"{label}/{name}" for label in ("FedDR", "FedPD") for name in (*SAVED, "personal.png")}
    saved = {name for name in files(folder / "there") if not name.startswith(".checkpoints/")}
    assert saved == compared | whole | {"FedAvg/history.csv"}

    with open(folder / "there" / "comparison.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["algorithm", *COLUMNS]
    assert [(row["algorithm"], row["round"]) for row in rows] == [
        *(("FedDR", k) for k in "023"),
        ("FedAvg", "0"),
        *(("FedPD", k) for k in "023"),
    ]
    with open(folder / "there" / "summary.csv", newline="") as file:
        summary = {row["algorithm"]: row for row in csv.DictReader(file)}
    assert {label: row["status"] for label, row in summary.items()} == {
        "FedDR": "finished",
        "FedAvg": "diverged in round 1",
        "FedPD": "finished",
    }
    last = History.from_csv(folder / "there" / "FedPD" / "history.csv").last
    assert float(summary["FedPD"]["F"]) == last.F
    assert summary["FedAvg"]["F"] == ""
    # FedDR and FedPD are the same method here: with all clients, g = 0 and alpha = 1 their histories agree.
    columns = [[float(row["F"]) for row in rows if row["algorithm"] == label] for label in ("FedDR", "FedPD")]
    np.testing.assert_allclose(columns[0], columns[1], rtol=1e-5)
    assert "diverged in round 1" in result.stdout
    assert "feddr: FedAvg diverged in round 1: Client" in result.stderr


def test_run_fails_when_its_algorithm_diverges(folder: Path) -> None:
    result = feddr_("run", "../one.toml", "--set", "local.lr=1e38", "--quiet")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("feddr: FedDR diverged in round 1: Client")
    assert History.from_csv(folder / "runs" / "small" / "FedDR" / "history.csv").column("round") == [0]


CLOCK = toml(
    'name = "FedDR"\neta = 1.0',
    'name = "AsyncFedDR"\neta = 1.0',
    'name = "FedBuff"\nbuffer = 4',
    name="clock",
    more='engine = "clock"\nevaluate_every = 1\nupdates = 12\nevaluate_every_updates = 4',
    tables='[delays]\nname = "UniformSpeed"\nlow = 1.0\nhigh = 2.0',
)


def test_compare_on_one_clock(folder: Path) -> None:
    (folder / "clock.toml").write_text(CLOCK)
    result = feddr_("compare", "clock.toml", "--out", "there")
    assert result.exit_code == 0, result.output
    saved = {*SAVED, "time.png", "timeline.png"}
    compared = {"comparison.png", "comparison.csv", "summary.csv", "config.toml", "clients.csv", "time.png"}
    labels = ("FedDR", "AsyncFedDR", "FedBuff")
    assert files(folder / "there") == compared | {f"{label}/{name}" for label in labels for name in saved}

    data = feddr.datasets.synthetic(1, 1, num_clients=3, seed=0)
    problem = feddr.Problem.classification(feddr.models.softmax(60, 10), data)
    speeds, local = feddr.delays.UniformSpeed(1.0, 2.0), feddr.local.SGD(lr=0.01)
    expected = feddr.simulate_async(
        problem, feddr.AsyncFedDR(eta=1.0), local=local, updates=12, clock=feddr.Clock(speeds), evaluate_every=4
    ).history
    ours = History.from_csv(folder / "there" / "AsyncFedDR" / "history.csv")
    assert (ours.column("F"), ours.column("time")) == (expected.column("F"), expected.column("time"))
    rounds = History.from_csv(folder / "there" / "FedDR" / "history.csv")
    slowest = rounds.column("time")[1]
    assert 1 < slowest < 2
    np.testing.assert_allclose(rounds.column("time"), [k * slowest for k in range(4)])
    # Twelve uploads are three steps of a server that waits for four.
    assert History.from_csv(folder / "there" / "FedBuff" / "history.csv").column("round") == [0, 1, 2, 3]
    assert "virtual" in result.stdout


def test_a_run_that_stalls_says_so(folder: Path) -> None:
    (folder / "clock.toml").write_text(CLOCK)
    only = 'algorithm={name="AsyncFedDR", eta=1.0, tau=0}'
    windows = 'delays={name="Windows", windows=[[[0, 2.5]], [[0, 2.5]], [[0, 2.5]]]}'
    result = feddr_("run", "clock.toml", "--out", "there", "--set", only, "--set", windows)
    assert result.exit_code == 0, result.output
    assert "stalled after 6 updates" in result.stdout
    assert re.search(
        r"feddr: AsyncFedDR: An update of client \d is 1 versions old, but eta and alpha were", result.stderr
    )
    assert "feddr: AsyncFedDR: The run ended after 6 of 12 updates" in result.stderr
    assert "interrupted" not in result.stderr


REFUSED = [
    (["run", "missing.toml"], "missing.toml: no such file."),
    (["run", "../three.toml"], "run takes one algorithm, ../three.toml has 3; use feddr compare."),
    (["run", "../one.toml", "--set", "algorithm.etta=1"], "algorithm.etta is not a setting of FedDR"),
    (
        ["run", "../one.toml", "--set", "algorithm.alpha=3"],
        'algorithm FedDR: alpha must be in (0, 2], or "auto", got 3.0.',
    ),
    (["run", "../one.toml", "--set", "local.epochs=twenty"], 'local.epochs must be a whole number, got "twenty".'),
    (["run", "../one.toml", "--set", "rounds"], "An override is KEY=VALUE"),
    (["run", "../one.toml", "--set", "name=../up"], 'name must be a plain name for a folder, got "../up".'),
    (["run", "../one.toml", "--set", "model.num_classes=2"], "Labels must be whole numbers from 0 to 1, train client"),
    (["run", "../one.toml", "--set", 'sampling={name="Uniform", m=9}'], "algorithm FedDR: Uniform draws m"),
    (["compare", "../three.toml", "--set", "g.name=L1", "--set", "g.strength=1"], "algorithm FedAvg: FedAvg has no"),
    (["run", "../one.toml", "--out", ".."], "--out must be a new or an empty folder, .. is not."),
    (["run", "../one.toml", "--out", "../one.toml"], "--out must be a new or an empty folder, ../one.toml is not."),
    (["run", "../one.toml", "--out", "/proc/feddr"], "/proc/feddr: cannot be written, "),
    # This one is found by the first round, when the folder is there already.
    (
        ["run", "../one.toml", "--set", 'local={name="Accelerated"}', "--set", 'algorithm={name="FedAvg"}'],
        "Accelerated certifies strongly convex subproblems only",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_done_is_refused_in_one_line(folder: Path, arguments: list[str], message: str) -> None:
    result = feddr_(*arguments, "--quiet")
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"feddr: {message}")
    assert list(folder.iterdir()) == []
    assert len(list(folder.parent.iterdir())) == 3


def test_a_bug_keeps_its_traceback_and_what_was_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feddr.FedAvg, "aggregate", lambda *_: 1 / 0)
    result = feddr_("compare", "../three.toml", "--quiet")
    assert isinstance(result.exception, ZeroDivisionError)
    saved = files(folder / "runs" / "small")
    assert {"FedDR/history.csv", "FedDR/model.safetensors", "comparison.csv", "summary.csv"} <= saved


def test_ctrl_c_saves_what_there_is(folder: Path) -> None:
    command = [sys.executable, "-m", "feddr", "compare", "../three.toml", "--set", "rounds=1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "round 0/1000000" in process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    again = "Resume with: feddr compare --resume runs/small"
    assert errors.endswith(f"feddr: interrupted; results so far are saved in runs/small. {again}\n")
    history = History.from_csv(folder / "runs" / "small" / "FedDR" / "history.csv")
    assert 0 < history.last.round < 1000000
    assert (folder / "runs" / "small" / "FedDR" / "model.safetensors").exists()
    assert not (folder / "runs" / "small" / "FedAvg").exists()


@pytest.mark.parametrize(
    ("cluster", "more"),
    [(None, ""), (("auto",), " --ray auto"), (("10.0.0.1:6379", 3), " --ray 10.0.0.1:6379 --workers 3")],
)
def test_a_run_is_resumed_where_it_ran(cluster: tuple[str, int] | None, more: str, tmp_path: Path) -> None:
    place = None if cluster is None else ClusterArguments(*cluster)
    options = RunOptions(False, False, None, True, "10", TrackerTargets(), place)
    (tmp_path / "one.toml").write_text(ONE)
    kept = Folder(config.load(tmp_path / "one.toml", []), tmp_path / "my run")
    assert _again(kept, options) == f"Resume with: feddr run --resume '{tmp_path}/my run'{more}"


def test_ctrl_c_twice_stops_at_once(folder: Path) -> None:
    hours = ["--set", "local.batch_size=none", "--set", "local.epochs=1000000000"]
    command = [sys.executable, "-m", "feddr", "run", "../one.toml", *hours]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "round 0/3" in process.stderr.readline()
        time.sleep(2.0)  # it is in the midst of a client now
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == f"{progress.STOPPING}\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
    assert process.returncode == 130
    assert list(folder.iterdir()) == []


def test_the_handler_of_ctrl_c_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(lambda: None, lambda: None) as interrupts:
        assert signal.getsignal(signal.SIGINT) != before
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked
    assert signal.getsignal(signal.SIGINT) == before


def test_help_and_wrong_names_do_not_wait_for_jax(folder: Path) -> None:
    assert folder.exists()
    code = """
import sys
from feddr.commands import main
for arguments in (["--help"], ["run", "../one.toml", "--set", "local.name=SGDD"]):
    try:
        main.app(arguments)
    except SystemExit as end:
        print(end.code)
assert not {"jax", "numpy", "matplotlib", "pandas"} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.splitlines()[-2:] == ["0", "2"]
    assert result.stderr.startswith("feddr: local.name must be one of Accelerated, Geometric, Optax, SGD, got")


def test_version() -> None:
    result = feddr_("--version")
    assert (result.exit_code, result.stdout) == (0, f"feddr {feddr.__version__}\n")


def test_folders_do_not_collide_and_vanish_when_empty(folder: Path) -> None:
    experiment = config.load("../one.toml")
    made = [Folder(experiment) for _ in range(3)]
    assert [str(one.path) for one in made] == ["runs/small", "runs/small-2", "runs/small-3"]
    made[1].save(Outcome("FedDR", "diverged in round 1", History([Row(0)])))
    for one in made:
        one.discard_if_empty()
    assert files(folder / "runs") == {"small-2/config.toml", "small-2/FedDR/history.csv"}
