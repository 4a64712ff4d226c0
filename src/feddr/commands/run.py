"""The commands ``feddr run`` (one algorithm) and ``feddr compare`` (several on one problem), new or resumed."""

import shlex
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from feddr import config as configs
from feddr.commands import console, progress, run_seeds
from feddr.commands import run_arguments as arguments
from feddr.commands.console import FAILED, INTERRUPTED, Interrupts, Quiet, complain
from feddr.config import Config, ConfigError, RunArguments
from feddr.runs.folder import CONFIG, Folder, Outcome
from feddr.runs.trackers import TrackerTargets, TrackerWarning

if TYPE_CHECKING:
    from feddr.engines.shared.state import Progress
    from feddr.problem import Problem

RUN, COMPARE = "run", "compare"
HELP = {
    RUN: "Run the one algorithm of CONFIG, an experiment in TOML, or resume a run that was interrupted.",
    COMPARE: "Run all algorithms of CONFIG, an experiment in TOML, on one problem, or resume one that was interrupted.",
}
"""The two commands, and what --help says about each."""


def run(
    context: typer.Context,
    config: arguments.File = None,
    sets: arguments.Sets = None,
    out: arguments.Out = None,
    threads: arguments.Threads = None,
    quiet: Quiet = False,
    resume: arguments.Resume = None,
    checkpoint_every: arguments.Every = "60s",
    stop_when: arguments.Stop = None,
    tensorboard: arguments.Board = None,
    mlflow: arguments.Flow = None,
    seeds: arguments.Seeds = None,
    ray: arguments.Cluster = None,
    workers: arguments.Workers = None,
) -> None:
    """Run the experiment of CONFIG, or resume one; ``feddr run`` and ``feddr compare`` both call this function."""
    compare = context.info_name == COMPARE
    sets = _with_stop(sets, stop_when)
    experiment, path = _experiment(config, sets, out, resume)
    if len(experiment.algorithms) > 1 and not compare:
        raise ConfigError(f"run takes one algorithm, {path} has {len(experiment.algorithms)}; use feddr compare.")
    trackers = TrackerTargets(tensorboard, mlflow).check()
    if workers is not None and ray is None:
        raise ConfigError(f"--workers is for a run on Ray, got --workers {workers} without --ray; give --ray local.")
    cluster = None if ray is None else configs.ClusterArguments(ray, workers)
    options = RunOptions(compare, bool(sets), threads, quiet, checkpoint_every, trackers, cluster)
    if seeds is None:
        raise typer.Exit(_execute(experiment, out, resume, options))
    if config is None:
        raise ConfigError(f"--seeds is for a new experiment, got --resume {resume}; resume the folder of one seed.")
    each = {seed: configs.load(config, [*(sets or []), f"seed={seed}"]) for seed in run_seeds.numbers(seeds)}
    code = run_seeds.execute(
        Folder(experiment, out),
        list(each),
        lambda seed, seed_folder: _execute(each[seed], seed_folder, None, options),
        quiet,
    )
    raise typer.Exit(code)


class RunOptions(NamedTuple):
    """How an experiment is run: as a comparison, with settings changed before it is resumed, and so on."""

    compare: bool
    changed: bool
    threads: int | None
    quiet: bool
    every: str
    trackers: TrackerTargets
    cluster: configs.ClusterArguments | None = None

    @property
    def checkpoint_every(self) -> int | str:
        """Rounds, or seconds as a text."""
        return int(self.every) if self.every.isdecimal() else self.every


def _with_stop(sets: list[str] | None, stop_when: str | None) -> list[str] | None:
    """Return the overrides with that of stop_when among them, if it is given."""
    return sets if stop_when is None else [*(sets or []), f"stop_when={configs.toml.text(stop_when)}"]


def _experiment(
    config: Path | None, sets: list[str] | None, out: Path | None, resume: Path | None
) -> tuple[Config, Path]:
    """Return the experiment, and the file that it comes from."""
    if resume is None:
        if config is None:
            raise ConfigError("CONFIG is missing; give an experiment in TOML, or --resume with the folder of a run.")
        return configs.load(config, sets or []), config
    if config is not None or out is not None:
        raise ConfigError(f"--resume takes everything from {resume}, got {config or out} as well; drop one of them.")
    if not (resume / CONFIG).is_file():
        raise ConfigError(f"--resume must be the folder of a run, {resume} has no {CONFIG}.")
    return configs.load(resume / CONFIG, sets or []), resume / CONFIG


def _execute(config: Config, out: Path | None, resume: Path | None, options: RunOptions) -> int:
    """Run what there is to run in a folder of its own, and return the exit code."""
    folder = None if resume is None else Folder.reopen(config, resume)
    try:
        # The folder is made only once everything is known to go together.
        problem, runs = configs.build(config)
        _check_interval(options)
        if folder is None:
            folder = Folder(config, out)
            folder.start()
        folder.describe(problem.data)
        outcomes, interrupted = _run_all(config, problem, runs, folder, options)
    finally:
        if folder is not None:
            folder.close()
    if not options.quiet:
        _show(outcomes, folder)
    for outcome in outcomes:
        if outcome.reason:
            complain(f"{outcome.label} {outcome.status}: {outcome.reason}")
    if interrupted:
        complain(f"interrupted; results so far are saved in {folder.path}. {_again(folder, options)}")
        return INTERRUPTED
    return FAILED if all(outcome.diverged for outcome in outcomes) else 0


def _check_interval(options: RunOptions) -> None:
    from feddr.checkpoint.manager import interval

    interval(options.checkpoint_every, "checkpoint_every")


def _run_all(
    config: Config, problem: "Problem", runs: Sequence[RunArguments], folder: Folder, options: RunOptions
) -> tuple[list[Outcome], bool]:
    """Run the algorithms one after the other, save each when it has ended, and return whether they were interrupted."""
    view = progress.view([run.label for run in runs], config.rounds, console.messages(options.quiet))
    interrupts = Interrupts(view.stopping, folder.discard_if_empty, (signal.SIGINT, signal.SIGTERM))
    outcomes: list[Outcome] = []
    keeping = _keeping(outcomes, folder, options)
    with _connected(options), keeping, view, interrupts, _comparing(outcomes, folder, options):
        for run in runs:
            before = folder.done.get(run.label)
            if before is not None and not (options.changed and before.diverged):
                outcomes.append(before)
                continue
            if interrupts.asked:
                break
            outcomes.append(_play(config, problem, run, folder, options, view, interrupts))
            with _writing(folder, options):
                folder.save(outcomes[-1])
                if outcomes[-1].status != "interrupted":
                    folder.finish(outcomes[-1])
    return outcomes, len(outcomes) < len(runs) or outcomes[-1].status == "interrupted"


@contextmanager
def _connected(options: RunOptions) -> Iterator[None]:
    """Stay connected to the Ray cluster, or keep the one that was started here, from the first method to the last."""
    if options.cluster is None:
        yield
        return
    from feddr.engines.workers.connection import connected

    with connected(options.cluster.address, (options.cluster.workers or 1) * (options.threads or 1)):
        yield


@contextmanager
def _keeping(outcomes: list[Outcome], folder: Folder, options: RunOptions) -> Iterator[None]:
    """Exit with FAILED, not REFUSED, where a method is refused after others have run: their results are kept."""
    before = set(folder.done)
    try:
        yield
    except ValueError as error:
        if all(outcome.label in before for outcome in outcomes):
            raise
        complain(f"{error} The results so far are kept in {folder.path}. {_again(folder, options)}")
        raise typer.Exit(FAILED) from None


@contextmanager
def _comparing(outcomes: list[Outcome], folder: Folder, options: RunOptions) -> Iterator[None]:
    """Write the comparison, also where an exception ends the runs."""
    try:
        yield
    finally:
        if outcomes and options.compare:
            with _writing(folder, options):
                folder.save_comparison(outcomes)


@contextmanager
def _writing(folder: Folder, options: RunOptions) -> Iterator[None]:
    """Exit with one line where the results cannot be written."""
    try:
        yield
    except OSError as error:
        complain(f"{folder.path}: the results cannot be written, {error.strerror}. {_again(folder, options)}")
        raise typer.Exit(FAILED) from None


def _again(folder: Folder, options: RunOptions) -> str:
    """Return the words that resume the run where it ran, which may be a cluster."""
    words = ["feddr", COMPARE if options.compare else RUN, "--resume", str(folder.path)]
    if options.cluster is not None:
        words += ["--ray", options.cluster.address]
        words += [] if options.cluster.workers is None else ["--workers", str(options.cluster.workers)]
    return f"Resume with: {shlex.join(words)}"


def _show(outcomes: Sequence[Outcome], folder: Folder) -> None:
    console.results().print(progress.table(outcomes))
    for outcome in outcomes:
        if outcome.result is not None and outcome.result.watch is not None:
            from feddr.certify import certificate

            typer.echo(f"{outcome.label}: {certificate(outcome.result)}")
    typer.echo(f"Saved in {folder.path}.")


def _play(
    config: Config,
    problem: "Problem",
    run: RunArguments,
    folder: Folder,
    options: RunOptions,
    view: progress.ExperimentView,
    interrupts: Interrupts,
) -> Outcome:
    """Run one algorithm, from its newest checkpoint if it has one."""
    from feddr.checkpoint import Checkpoint, CheckpointWarning
    from feddr.engines.clock.event_loop import ClockWarning
    from feddr.engines.shared.errors import AccuracyWarning, DivergedError, DivergenceWarning, WorkerWarning
    from feddr.theory.advice import CurvatureWarning

    shown = (
        *(AccuracyWarning, CheckpointWarning, ClockWarning, CurvatureWarning, DivergenceWarning, TrackerWarning),
        WorkerWarning,
    )

    def callback(report: "Progress") -> bool:
        view.update(report)
        if report.row is not None:
            live.add(report.row)
        notify(report)
        return interrupts.asked

    def warn(message: Warning | str, *where: Any, **more: Any) -> None:
        if isinstance(message, shown):
            complain(f"{run.label}: {message}")
        else:
            show(message, *where, **more)

    view.begin(run.label)
    live = folder.live(run.label)
    try:
        with warnings.catch_warnings(), options.trackers.opened(config, run) as notify:
            for kind in shown:
                warnings.simplefilter("always", kind)
            show, warnings.showwarning = warnings.showwarning, warn
            result = configs.perform(
                config,
                problem,
                run,
                threads=options.threads,
                cluster=options.cluster,
                callback=callback,
                checkpoint=Checkpoint(folder.checkpoint(run.label), options.checkpoint_every, resume=True),
                verbose=not options.quiet,
            )
    except DivergedError as error:
        outcome = Outcome(run.label, f"diverged in round {error.round}", error.history, reason=str(error))
    else:
        done = result.history.last.round
        incomplete = "interrupted" if interrupts.asked else f"stalled after {done} updates"
        if "stopped" in result.settings:
            incomplete = f"stopped in round {done}"
        complete = done == configs.length(config, run)
        outcome = Outcome(run.label, "finished" if complete else incomplete, result.history, result)
    view.end(outcome.status)
    return outcome
