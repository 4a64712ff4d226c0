"""The command ``feddr tune``: search for good settings of the algorithms of a config."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddr.commands.console import INTERRUPTED, Interrupts, Quiet, Sets, complain, messages, results
from feddr.runs.progress import say

if TYPE_CHECKING:
    from feddr.tune import Executor, RankedSetting, Search

KEY = "KEY=VALUES"


def tune(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="An experiment; its table tune may hold the search.")
    ],
    sets: Sets = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar=KEY, help="Try algorithm.eta=1,10,100 or algorithm.eta=log:1:1000:4, all combinations."),
    ] = None,
    random: Annotated[
        list[str] | None,
        typer.Option(metavar=KEY, help="Draw from algorithm.eta=log:1:1000 (also lin, int), or from a list."),
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="Ready-made: paper, 16 trials of each algorithm, or draws with --trials.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Settings of each algorithm: draws, or a part of a grid.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0,1,2", help="Each trial is run with each of them.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="At xbar: F (default), f, train_loss, validation_accuracy, validation_f1, ...")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="last|best", help="The evaluation that counts; last by default.")
    ] = None,
    unequal: Annotated[
        bool, typer.Option("--unequal", help="Let algorithms have different numbers of trials.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new or empty folder, instead of runs/<name>-tune.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Resume the search in this folder.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Runs at a time, by default one a core; 0: in this process."),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help='Run on a Ray cluster; "local" starts one here.')
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Search for the best settings of each algorithm of CONFIG, by a metric at xbar, over several seeds."""
    from feddr import config as configs
    from feddr.config.overrides import override

    if out is not None and resume is not None:
        raise ValueError(f"--out is for a new search and --resume for an old one, got {out} and {resume}; drop one.")
    if resume is not None and not (resume / "search.json").is_file():
        raise ValueError(f"--resume must be the folder of a search, got {resume}; --out begins a new one.")
    simple = {"space": space, "trials": trials, "metric": metric, "at": at}
    tables = {"grid": _keys("--grid", grid), "random": _keys("--random", random)}
    raw = override(configs.read(config), sets or [])

    from feddr.tune import plan

    search = plan(raw, **simple, **tables, seeds=_seeds(seeds), unequal=unequal or None)
    executor, description = _executor(ray, workers, search.size)
    lists = {"set": sets, "grid": grid, "random": random}
    words = [word for flag, values in lists.items() for value in values or [] for word in (f"--{flag}", value)]
    for flag, value in {**simple, "seeds": seeds, "workers": workers, "ray": ray}.items():
        words += [] if value is None else [f"--{flag}", str(value)]
    command = ["feddr", "tune", str(config), *words, *(["--unequal"] if unequal else [])]
    raise typer.Exit(_execute(search, executor, description, out, resume, command, quiet))


def _execute(
    search: "Search",
    executor: "Executor",
    description: str,
    out: Path | None,
    resume: Path | None,
    command: list[str],
    quiet: bool,
) -> int:
    """Run the search, write its results, and return the exit code."""
    from feddr.commands.tune_verdict import verdict
    from feddr.runs.folder import Folder
    from feddr.tune import Store, output, rank, run, view

    console = messages(quiet)
    made = None if resume else Folder(replace(search.config, name=f"{search.config.name}-tune"), out)
    path = made.path if made is not None else resume or Path()
    again = shlex.join([*command, "--resume", str(path)])
    with Store(path, search) as store:
        for line in view.announce(search, sum(map(store.done, search.run_keys())), description):
            say(console, line)
        shown = view.view(search, store, console)
        try:
            with shown, Interrupts(shown.stopping, lambda: _hint(again)) as interrupts:
                run(search, store, executor, shown.update, lambda: interrupts.asked)
        finally:
            if made is not None and not store.records:
                store.discard()
                made.discard_if_empty()
        if not store.records:
            complain("interrupted before a run had ended; nothing is kept.")
            return INTERRUPTED
        ranking = rank(search, store.records)
        configs = output.save(path, search, ranking)
        if not quiet:
            _report(search, ranking, path, configs)
        outcome = verdict(search, store, ranking, again)
        for line in outcome.complaints:
            complain(line)
        return outcome.code


def _report(search: "Search", ranking: "dict[str, list[RankedSetting]]", path: Path, configs: list[Path]) -> None:
    from feddr.tune import best, view
    from feddr.tune.ranking import edges

    results().print(view.table(search, ranking))
    for line in edges(search, best(ranking)):
        typer.echo(line)
    command = "compare" if len(configs) == 1 and len(best(ranking)) > 1 else "run"
    for config in configs:
        typer.echo(f"Best settings: feddr {command} {shlex.quote(str(config))}")
    typer.echo(f"Saved in {path}.")


def _executor(ray: str | None, workers: int | None, size: int) -> "tuple[Executor, str]":
    """Return the executor, and how many runs it does at a time, in words."""
    from feddr.storage.limits import cores
    from feddr.tune import Processes, Ray, serial

    if ray is not None:
        return Ray(ray, workers or None), f"on Ray at {ray}"
    if workers == 0:
        return serial, "one at a time"
    count = min(workers or cores(), size)
    return Processes(count), f"{count} at a time"


def _keys(option: str, entries: list[str] | None) -> dict[str, Any] | None:
    """Split ``KEY=VALUES``, the key as for ``--set``."""
    from feddr.config import toml
    from feddr.tune.space import text

    axes = {}
    for entry in entries or []:
        path, values = toml.assignment(entry)
        if not path or values == "":
            raise ValueError(f"{option} is {KEY}, such as algorithm.eta=1,10,100, got {entry}.")
        axes[text(path)] = values if isinstance(values, str | list) else [values]
    return axes or None


def _seeds(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ValueError(f"--seeds must be whole numbers with commas, such as 0,1,2, got {text}.") from None


def _hint(command: str) -> None:
    """Say how to resume, without Python's streams: a signal handler calls this."""
    os.write(2, f"\ngo on with: {command}\n".encode())
