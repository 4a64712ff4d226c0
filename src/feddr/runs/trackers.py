"""Experiment trackers: callbacks that log the rows of a run to TensorBoard or MLflow."""

import importlib.util
import math
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from feddr.history import Row

if TYPE_CHECKING:
    from feddr.config import Config, RunArguments
    from feddr.engines.shared.state import Progress

LONGEST = 500
"""Characters of a setting that MLflow takes."""


class TrackerWarning(UserWarning):
    """A tracker has failed; the run continues without it.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", TrackerWarning)  # what fails stops the run then
    """


def metrics(row: Row) -> dict[str, float]:
    """Return what was measured in a row, without the round.

    Examples
    --------
    >>> metrics(Row(round=5, F=0.25, bytes_up=8))
    {'bytes_up': 8, 'bytes_down': 0, 'F': 0.25, 'local_steps': 0, 'skipped': 0}
    """
    return {name: value for name, value in row.to_dict().items() if name != "round" and math.isfinite(value)}


class TensorBoard:
    """Write a scalar for each metric of each row, with the round as its step.

    Parameters
    ----------
    folder
        Where the event files go, one folder for each line in TensorBoard.

    Examples
    --------
    >>> with TensorBoard("logs/FedDR") as board:  # doctest: +SKIP
    ...     feddr.simulate(problem, algorithm, local=local, rounds=100, callback=board)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)

    def __enter__(self) -> Self:
        _need("tensorboardX", "tensorboard")
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(self.folder)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the event file."""
        self._writer.close()

    def __call__(self, report: "Progress") -> None:
        """Write the row, if the round has one."""
        if report.row is not None:
            for name, value in metrics(report.row).items():
                self._writer.add_scalar(name, value, report.row.round)
            self._writer.flush()


class MLflow:
    """Log the metrics of each row to a run of MLflow, with the round as their step.

    Parameters
    ----------
    uri
        Of the tracking server or the database, such as ``"http://localhost:5000"``; MLflow's own choice by default.
    experiment, name
        What the experiment and the run in it are called.
    settings
        Kept with the run, as its parameters.

    Examples
    --------
    >>> with MLflow("http://localhost:5000", name="FedDR") as run:  # doctest: +SKIP
    ...     feddr.simulate(problem, algorithm, local=local, rounds=100, callback=run)
    """

    def __init__(
        self,
        uri: str | None = None,
        experiment: str = "feddr",
        name: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.uri, self.experiment, self.name, self.settings = uri, experiment, name, dict(settings or {})

    def __enter__(self) -> Self:
        _need("mlflow", "mlflow")
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        try:
            self._client = client = MlflowClient(self.uri)
            experiment = client.get_experiment_by_name(self.experiment)
            experiment_id = (
                client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
            )
            self._run = client.create_run(experiment_id, run_name=self.name).info.run_id
            for key, value in self.settings.items():
                client.log_param(self._run, key, str(value)[:LONGEST])
        except MlflowException as error:
            raise ValueError(f"MLflow refuses {self.uri or 'its default tracking store'}: {error}") from None
        except ModuleNotFoundError as error:  # of mlflow-skinny, which keeps no databases
            raise ValueError(
                f"MLflow needs {error.name} for {self.uri}, which is not installed; use a folder (file:...) or a "
                "server, or pip install mlflow."
            ) from None
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End MLflow's run, with the status FAILED after an exception."""
        self._client.set_terminated(self._run, "FINISHED" if error is None else "FAILED")

    def __call__(self, report: "Progress") -> None:
        """Log the row, if the round has one."""
        if report.row is not None:
            from mlflow.entities import Metric

            now, row = time.time_ns() // 1_000_000, report.row
            batch = [Metric(name, float(value), now, row.round) for name, value in metrics(row).items()]
            self._client.log_batch(self._run, batch)


class TrackerTargets(NamedTuple):
    """Where a command is asked to send the rows of its runs: a folder for TensorBoard, a URI for MLflow.

    Examples
    --------
    >>> TrackerTargets(mlflow="http://localhost:5000").tensorboard is None
    True
    """

    tensorboard: Path | None = None
    mlflow: str | None = None

    def check(self) -> "TrackerTargets":
        """Refuse what is not installed, before anything is run."""
        if self.tensorboard is not None:
            _need("tensorboardX", "tensorboard")
        if self.mlflow is not None:
            _need("mlflow", "mlflow")
        return self

    @contextmanager
    def opened(self, config: "Config", run: "RunArguments") -> "Iterator[Callable[[Progress], None]]":
        """Yield a callback for one method of an experiment; a tracker that fails is dropped with a warning."""
        asked: list[TensorBoard | MLflow] = []
        if self.tensorboard is not None:
            asked.append(TensorBoard(self.tensorboard / config.name / run.label))
        if self.mlflow is not None:
            asked.append(MLflow(self.mlflow, config.name, run.label, _settings(config, run)))
        with ExitStack() as stack:
            trackers = [stack.enter_context(_FailSafe(tracker)) for tracker in asked]

            def notify(report: "Progress") -> None:
                for tracker in trackers:
                    tracker(report)

            yield notify


class _FailSafe:
    """A tracker whose exceptions become warnings, so that they do not end the run."""

    def __init__(self, tracker: TensorBoard | MLflow) -> None:
        self.tracker, self.failed = tracker, False

    def __enter__(self) -> Self:
        self.tracker.__enter__()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._try(self.tracker.__exit__, kind, error, trace)

    def __call__(self, report: "Progress") -> None:
        self._try(self.tracker, report)

    def _try(self, act: Callable[..., None], *arguments: Any) -> None:
        if self.failed:
            return
        try:
            act(*arguments)
        except Exception as error:
            self.failed = True
            name = type(self.tracker).__name__
            warnings.warn(f"{name} has failed, and the run continues without it: {error}", TrackerWarning, stacklevel=2)


def _settings(config: "Config", run: "RunArguments") -> dict[str, str]:
    """Return the settings of an experiment and of one of its methods."""
    from feddr.config import dumps
    from feddr.report.formatting import words

    shared = {key: words(value) for key, value in tomllib.loads(dumps(config)).items()}
    own = {"algorithm": run.algorithm, "local": run.local, "sampling": run.sampling}
    return shared | {key: repr(value) for key, value in own.items()}


def _need(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"{module} is needed and not installed; pip install 'feddr[{extra}]'.")
