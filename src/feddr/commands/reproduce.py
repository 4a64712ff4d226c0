"""The command ``feddr reproduce``: the paper's experiments again, with every method measured at the same point."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddr.commands.console import FAILED, INTERRUPTED, Interrupts, Quiet, complain, messages
from feddr.runs.progress import say
from feddr.storage import atomic, untrusted

if TYPE_CHECKING:
    from feddr.reproduce.plan import Plan
    from feddr.tune import Executor, RunRecord

OUT = Path("runs/reproduce")


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Which; all by default.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything small: few rounds, clients, points; one seed.")
    ] = False,
    seeds: Annotated[str | None, typer.Option(metavar="4,35,21", help="Each run with each of them.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of runs and figures, which are resumed; runs/reproduce.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Holds mnist/ and femnist/, if you have them; nothing is fetched."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Runs at a time, one a core by default; 0: in this process.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Make the runs on this Ray cluster; local starts one here.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Say what there is and what is left to do, and end.")] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the figures of the paper, at the global model and personalised; runs that exist are reused."""
    from feddr import experiments
    from feddr.reproduce import FIGURES, Plan, Runs, rows

    wanted = list(dict.fromkeys(figures or FIGURES))
    for name in wanted:
        if name not in FIGURES:
            raise ValueError(f"There is no figure {name}; there are {', '.join(FIGURES)}.")
    if data_dir is not None and not data_dir.is_dir():
        raise ValueError(f"--data-dir must be a folder, {data_dir} is not.")
    chosen = _seeds(seeds) if seeds is not None else None
    folder = out or (OUT.with_name("reproduce-quick") if quick else OUT)
    made = {name: rows(figure, experiments.PAPER, data_dir, quick, chosen) for name, figure in FIGURES.items()}
    everything = Plan(made, Runs(folder / "runs"))
    plan = Plan({name: made[name] for name in wanted}, everything.runs)
    if show:
        _list(plan)
        return
    if ray is not None and workers == 0:
        raise ValueError(f"--workers 0 makes the runs in this process, got --ray {ray} as well; drop one of them.")
    with _executor(ray, workers) as (executor, count):
        raise typer.Exit(_execute(plan, everything, folder, executor, count, quiet))


def _list(plan: "Plan") -> None:
    from feddr.reproduce import FIGURES
    from feddr.reproduce.plan import Plan, in_words

    for name, made in plan.rows.items():
        part = Plan({name: made}, plan.runs)
        left, size = len(part.missing()), len(part.all_runs())
        typer.echo(
            f"{name}: {FIGURES[name].title}; {size} runs, {left} to make, {in_words(part.estimate(1))} of a core"
        )
        for row in made:
            typer.echo(f"  {row.title}: {', '.join(row.lines)}")


def _execute(plan: "Plan", everything: "Plan", folder: Path, executor: "Executor", count: int, quiet: bool) -> int:
    """Make the missing runs, so many at a time, draw the figures, and return the exit code."""
    from feddr.reproduce import FIGURES, make, output, standings
    from feddr.reproduce.view import announce, view

    console = messages(quiet)
    left = len(plan.missing())
    _prepare([folder / "runs", *(folder / name for name in plan.rows)])
    say(console, announce(plan, left, count))
    shown = view(left, console)
    trouble: list[RunRecord] = []
    with shown, Interrupts(shown.stopping, lambda: None) as interrupts:
        if left:
            trouble = make(plan, executor, shown.update, lambda: interrupts.asked)
    echo: Callable[[str], None] = typer.echo if not quiet else lambda _: None
    for name, made in plan.rows.items():
        text = output.save(folder / name, FIGURES[name], made, plan)
        echo(f"{text}\nSaved in {folder / name}.\n")
    # The summary covers every figure that has runs, not only those that this command made.
    ranked = [one for name, made in everything.rows.items() for one in standings.standings(FIGURES[name], made, plan)]
    echo(f"{standings.save(folder, ranked)}\nSaved in {folder / 'summary.md'}.")
    for record in trouble:
        complain(f"{record.algorithm}, seed {record.seed}, {record.status}: {record.brief}")
    if interrupts.asked and plan.missing():
        complain(f"interrupted; {len(plan.missing())} runs are left, the same command resumes.")
        return INTERRUPTED
    return FAILED if trouble else 0


def _prepare(folders: Sequence[Path]) -> None:
    """Refuse folders that cannot be written before the first run, not after the last."""
    for folder in folders:
        untrusted.check_links(folder)
        with atomic.refusing(folder):
            folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _executor(ray: str | None, workers: int | None) -> "Iterator[tuple[Executor, int]]":
    """Give who makes the runs, and how many at a time; the connection to a cluster is open until the last one."""
    from feddr.reproduce import serial
    from feddr.reproduce.runs import COMMAND, answer, receive
    from feddr.storage.limits import cores
    from feddr.tune import Processes

    if ray is not None:
        from feddr.engines.workers.connection import connected
        from feddr.tune import Ray, cluster

        with connected(ray, workers or 1, "--ray", cluster.OBJECT_STORE) as connection:
            count = workers or cluster.cores(connection)
            yield Ray(ray, count, answer, receive), count
    elif workers == 0:
        yield serial, 1
    else:
        count = workers or cores()
        yield Processes(count, COMMAND), count


def _seeds(text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(dict.fromkeys(int(seed) for seed in text.split(",")))
        if min(seeds) < 0:
            raise ValueError
    except ValueError:
        raise ValueError(f"--seeds must be whole numbers from 0 with commas, such as 4,35,21, got {text}.") from None
    return seeds
