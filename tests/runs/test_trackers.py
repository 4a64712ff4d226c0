"""Rows in TensorBoard and MLflow, read back with the libraries themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import feddr
from feddr.commands import main
from feddr.history import Row
from feddr.runs import trackers
from feddr.runs.trackers import MLflow, TensorBoard, metrics
from tests.commands.test_report import TINY
from tests.conftest import make_classes


def result(callback: Any) -> feddr.Result:
    data = make_classes(sizes=(13, 8), dimension=5, classes=3, seed=2)
    problem = feddr.Problem.classification(feddr.models.softmax(5, 3), data)
    local = feddr.local.SGD(lr=0.01)
    return feddr.simulate(
        problem, feddr.FedDR(eta=1.0), local=local, rounds=4, evaluate_every=2, threads=1, callback=callback
    )


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads from a folder."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard")
    found = reader.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def logged(uri: str, experiment: str, name: str) -> tuple[Any, dict[str, list[tuple[int, float]]]]:
    """What MLflow itself has of a run."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    (run,) = [one for one in client.search_runs([found.experiment_id]) if one.info.run_name == name]
    history = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
    return run, {
        key: [(one.step, one.value) for one in sorted(rows, key=lambda m: m.step)] for key, rows in history.items()
    }


def expected(history: feddr.History) -> dict[str, list[tuple[int, float]]]:
    names = metrics(history.last)
    return {
        name: [(row.round, getattr(row, name)) for row in history.rows if np.isfinite(getattr(row, name))]
        for name in names
    }


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database for MLflow, which is the place that it recommends."""
    pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    pytest.importorskip("sqlalchemy", reason="MLflow needs sqlalchemy for a database")
    return f"sqlite:///{tmp_path / 'runs.db'}"


THEIRS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
"""What these libraries have to say of each other."""


def test_what_was_not_measured_is_not_sent() -> None:
    assert metrics(Row(round=3, F=float("nan"), f=float("inf"), g=0.5)) == {
        "bytes_up": 0,
        "bytes_down": 0,
        "g": 0.5,
        "local_steps": 0,
        "skipped": 0,
    }


@THEIRS
def test_tensorboard_has_every_row(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    with TensorBoard(tmp_path / "logs") as board:
        history = result(board).history
    found, wanted = scalars(tmp_path / "logs"), expected(history)
    assert found.keys() == wanted.keys()
    for name, points in wanted.items():
        assert [step for step, _ in found[name]] == [0, 2, 4]
        np.testing.assert_allclose([value for _, value in found[name]], [value for _, value in points], rtol=1e-6)


@THEIRS
def test_mlflow_has_every_row_and_the_settings(database: str) -> None:
    with MLflow(database, "mine", "FedDR", {"eta": 1.0, "long": "x" * 9000}) as run:
        history = result(run).history
    kept, found = logged(database, "mine", "FedDR")
    assert found == expected(history)
    assert kept.info.status == "FINISHED"
    assert kept.data.params == {"eta": "1.0", "long": "x" * trackers.LONGEST}


@THEIRS
def test_a_run_that_fails_has_failed_in_mlflow(database: str) -> None:
    with pytest.raises(ZeroDivisionError), MLflow(database, "mine", "bad"):
        raise ZeroDivisionError
    assert logged(database, "mine", "bad")[0].info.status == "FAILED"


@THEIRS
def test_the_command_sends_each_method_to_both(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    words = ["run", "tiny.toml", "--threads", "1", "--quiet", "--tensorboard", "logs", "--mlflow", database]
    done = CliRunner().invoke(main.app, words)
    assert done.exit_code == 0, done.output
    history = feddr.History.from_csv("runs/tiny/FedDR/history.csv")
    kept, found = logged(database, "tiny", "FedDR")
    assert found["F"] == expected(history)["F"]
    assert kept.data.params["algorithm"].startswith("FedDR(eta=1.0")
    assert kept.data.params["data"] == "synthetic(seed=0, r=1, s=1, num_clients=3)"
    assert [step for step, _ in scalars(Path("logs/tiny/FedDR"))["F"]] == [0, 2, 4]


def test_a_tracker_that_fails_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of a tracker may fail while a run is under way; its user is warned once, and has the results."""

    class Broken(TensorBoard):
        def __enter__(self) -> "Broken":
            return self

        def __call__(self, report: Any) -> None:
            raise OSError(f"gone in round {report.round}")

    monkeypatch.setattr(trackers, "TensorBoard", Broken)
    monkeypatch.setattr(trackers, "_need", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    words = ["run", "tiny.toml", "--threads", "1", "--quiet", "--tensorboard", "logs"]
    done = CliRunner().invoke(main.app, words)
    assert done.exit_code == 0
    assert done.stderr == "feddr: FedDR: Broken has failed, and the run continues without it: gone in round 0\n"
    assert Path("runs/tiny/FedDR/model.safetensors").is_file()


@pytest.mark.parametrize(
    ("flag", "module", "extra"), [("--tensorboard", "tensorboardX", "tensorboard"), ("--mlflow", "mlflow", "mlflow")]
)
def test_a_library_that_is_missing_is_named_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, module: str, extra: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda _: None)  # type: ignore[attr-defined]
    Path("tiny.toml").write_text(TINY)
    done = CliRunner().invoke(main.app, ["run", "tiny.toml", flag, "there"])
    assert done.exit_code == 2
    assert done.stderr == f"feddr: {module} is needed and not installed; pip install 'feddr[{extra}]'.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


def test_a_database_without_its_library_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")

    def client(uri: str) -> None:
        raise ModuleNotFoundError(f"No module for {uri}", name="sqlalchemy")

    monkeypatch.setattr(mlflow, "MlflowClient", client)
    with (
        pytest.raises(
            ValueError, match=r"MLflow needs sqlalchemy for sqlite:///a\.db, which is not installed; use a f"
        ),
        MLflow("sqlite:///a.db", "mine", "FedDR"),
    ):
        raise AssertionError
