"""The command line: ``feddr run`` for one algorithm, ``feddr compare`` for several on one problem."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console

import feddr
from feddr import config as configs
from feddr import terminal
from feddr.config import Config, ConfigError, Run
from feddr.folder import Folder, Outcome
from feddr.history import History
from feddr.theory_command import theory

if TYPE_CHECKING:
    from feddr.delays import Delay
    from feddr.engines.rounds import Progress
    from feddr.problem import Problem

DIVERGED, REFUSED, INTERRUPTED = 1, 2, 130
"""Exit codes."""

PLAIN_WIDTH = 120
"""Columns of a table in a file or a pipe, which has no width of its own."""

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"feddr {feddr.__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]
File = Annotated[Path, typer.Argument(metavar="CONFIG")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, as in rounds=5 or algorithm.eta=10."),
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="A new or empty folder for the results, instead of runs/<name>.")
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Clients computed at a time, instead of one for each core.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


@app.callback()
def options(version: Version = False) -> None:
    """Federated composite optimisation: FedDR beside the methods it is compared with."""


@app.command()
def run(config: File, sets: Sets = None, out: Out = None, threads: Threads = None, quiet: Quiet = False) -> None:
    """Run the one algorithm of CONFIG, an experiment in TOML."""
    with _refusing():
        experiment = configs.load(config, sets or [])
        if len(experiment.algorithms) > 1:
            raise ConfigError(f"run takes one algorithm, {config} has {len(experiment.algorithms)}; use feddr compare.")
        code = _execute(experiment, out, threads, quiet, compare=False)
    raise typer.Exit(code)


@app.command()
def compare(config: File, sets: Sets = None, out: Out = None, threads: Threads = None, quiet: Quiet = False) -> None:
    """Run all algorithms of CONFIG, an experiment in TOML, on one problem."""
    with _refusing():
        code = _execute(configs.load(config, sets or []), out, threads, quiet, compare=True)
    raise typer.Exit(code)


def main() -> None:
    """Run the program."""
    app(prog_name="feddr")


@contextmanager
def _refusing() -> Iterator[None]:
    """Report what an experiment cannot do in one line; a mistake of the program keeps its traceback."""
    try:
        yield
    except ValueError as error:
        _complain(str(error))
        raise typer.Exit(REFUSED) from None


app.command()(_refusing()(theory))


def _complain(message: str) -> None:
    typer.echo(f"feddr: {' '.join(message.split())}", err=True)


def _execute(config: Config, out: Path | None, threads: int | None, quiet: bool, compare: bool) -> int:
    """Run the algorithms one after the other, save each when it has ended, and return the exit code."""
    problem, runs = configs.build(config)
    delays = configs.build_delays(config)
    folder = Folder(config, out)
    view = terminal.view([run.label for run in runs], config.rounds, Console(stderr=True, quiet=quiet))
    outcomes: list[Outcome] = []
    try:
        with view, Interrupts(view.stopping, folder.discard_if_empty) as interrupts:
            for run in runs:
                outcomes.append(_play(config, problem, run, delays, threads, view, interrupts))
                folder.save(outcomes[-1])
                if interrupts.asked:
                    break
    finally:
        folder.discard_if_empty()
        if outcomes and compare:
            folder.save_comparison(outcomes)
    if not quiet:
        console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
        console.print(terminal.table(outcomes))
        for outcome in outcomes:
            if outcome.result is not None and outcome.result.watch is not None:
                from feddr.certify import certificate

                typer.echo(f"{outcome.label}: {certificate(outcome.result)}")
        typer.echo(f"Saved in {folder.path}.")
    for outcome in outcomes:
        if outcome.reason:
            _complain(f"{outcome.label} {outcome.status}: {outcome.reason}")
    if len(outcomes) < len(runs) or any(outcome.status == "interrupted" for outcome in outcomes):
        _complain(f"interrupted; what there is was saved in {folder.path}.")
        return INTERRUPTED
    return 0 if any(outcome.result is not None for outcome in outcomes) else DIVERGED


def _play(
    config: Config,
    problem: "Problem",
    run: Run,
    delays: "Delay | None",
    threads: int | None,
    view: terminal.View,
    interrupts: "Interrupts",
) -> Outcome:
    """Run one algorithm."""
    from feddr.algorithms import Asynchronous, FedDR
    from feddr.engines.arrivals import ClockWarning
    from feddr.engines.clock import simulate_async
    from feddr.engines.rounds import DivergedError
    from feddr.engines.simulate import simulate

    history = History()

    def callback(report: "Progress") -> bool:
        if report.row is not None:
            history.rows.append(report.row)
        view.update(report)
        return interrupts.asked

    def warn(message: Warning | str, *where: Any, **more: Any) -> None:
        if isinstance(message, ClockWarning):
            _complain(f"{run.label}: {message}")
        else:
            show(message, *where, **more)

    view.begin(run.label)
    shared: dict[str, Any] = {
        "local": run.local,
        "seed": config.seed,
        "precision": config.precision,
        "personal": config.personal,
        "threads": threads,
        "callback": callback,
        "delays": delays,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ClockWarning)
            show, warnings.showwarning = warnings.showwarning, warn
            if isinstance(run.algorithm, Asynchronous):
                buffer = run.algorithm.buffer
                wanted = -(-config.updates // buffer)
                result = simulate_async(
                    problem,
                    run.algorithm,
                    updates=wanted,
                    concurrency=config.concurrency,
                    evaluate_every=max(1, config.evaluate_every_updates // buffer),
                    **shared,
                )
            else:
                wanted = config.rounds
                result = simulate(
                    problem,
                    run.algorithm,
                    sampling=run.sampling,
                    rounds=wanted,
                    evaluate_every=config.evaluate_every,
                    certify=config.certify and isinstance(run.algorithm, FedDR),
                    deadline=config.deadline,
                    **shared,
                )
    except DivergedError as error:
        outcome = Outcome(run.label, f"diverged in round {error.round}", history, reason=str(error))
    else:
        done = result.history.last.round
        cut = "interrupted" if interrupts.asked else f"stalled after {done} updates"
        outcome = Outcome(run.label, "finished" if done == wanted else cut, result.history, result)
    view.end(outcome.status)
    return outcome


class Interrupts:
    """Ctrl-C while runs go on: the first asks them to end after the round, the second ends the program.

    Parameters
    ----------
    first, second
        What else to do; they are called in the midst of anything.
    """

    def __init__(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        self.first, self.second, self.asked = first, second, False

    def __enter__(self) -> Self:
        self.previous = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give Ctrl-C back its old meaning."""
        signal.signal(signal.SIGINT, self.previous)

    def _press(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.asked:
            self.second()
            if os.isatty(2):
                os.write(2, b"\x1b[?25h\n")  # the bars hide the cursor
            # An exception would wait for the threads, each of which may have minutes of work left.
            os._exit(INTERRUPTED)
        self.asked = True
        self.first()


if __name__ == "__main__":
    main()
