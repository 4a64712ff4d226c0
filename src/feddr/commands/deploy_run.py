"""The commands ``feddr deploy example``, ``feddr deploy run`` and ``feddr deploy audit``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddr.commands.console import FAILED, PLAIN_WIDTH, Quiet, complain, messages, results

if TYPE_CHECKING:
    from feddr.deploy.run import SubmittedRun

COMPLAINTS = ("error", "refused", "node_refused", "table_refused")
"""Events that a person should see: somebody's answer was none."""


def example(folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder, or a new one.")]) -> None:
    """Write the files of the tutorial: four hospitals with made-up patients, and an experiment."""
    from feddr.deploy.example import write

    typer.echo(f"Wrote {', '.join(write(folder))}.")


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The experiment.")],
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The state folder of feddr deploy server, on this machine.")
    ] = None,
    digest: Annotated[
        bool, typer.Option("--hash", help="Print the hash by which sites list the experiment, and submit nothing.")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Show every event of the run.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Submit the run and do not wait for it.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the experiment of CONFIG over the sites' own tables; the exit code is 1 if it fails."""
    from feddr.deploy import run as runs
    from feddr.deploy.experiment import TableExperiment

    if digest:
        typer.echo(TableExperiment.read(config).digest)
        return
    if state is None:
        raise ValueError("A run needs the state folder of its server, got none; give --state DIR.")
    submitted = runs.submit(config, state)
    if detach:
        typer.echo(f"Submitted as run {submitted.number}; its folder is {submitted.folder}.")
        return
    try:
        _follow(submitted, stream, quiet)
    except runs.RunFailure as failure:
        complain(f"{config}: {failure} Its folder is {submitted.folder}.")
        raise typer.Exit(FAILED) from None
    if not quiet:
        _show(submitted.folder)


def _follow(submitted: "SubmittedRun", stream: bool, quiet: bool) -> None:
    """Print a line for each round that was evaluated, and whatever goes wrong."""
    from feddr.runs.progress import say

    console = messages(quiet)
    say(console, f"Submitted as run {submitted.number}; its folder is {submitted.folder}.")
    for event in submitted.events():
        words = _words(event, stream)
        if words:
            say(console, words)


def _words(event: dict[str, Any], stream: bool) -> str:
    """Return what is shown of an event, nothing of most."""
    name = event["event"]
    rest = {key: value for key, value in event.items() if key not in ("time", "event", "level")}
    if stream:
        return " ".join([name, *(f"{key}={value}" for key, value in rest.items())])
    if name == "node":
        return f"client {event['client']} is there"
    if name == "prepared":
        return f"the sites agree on {event['features']} features"
    if name == "step_sizes":
        return str(event["words"])
    if name == "row":
        shown = ("F", "train_loss", "train_accuracy", "test_accuracy", "epsilon")
        known = [f"{key.replace('_', ' ')} {event[key]:.4g}" for key in shown if key in event]
        return f"round {event['round']}: {', '.join(known)}" if known else ""
    if name == "stopping":
        return f"ends after round {event['version']}, {event['reason']}"
    if name in COMPLAINTS:
        who = f"client {event['client']}" if "client" in event else "a node"
        detail = ": ".join(str(event[key]) for key in ("reason", "detail") if event.get(key))
        return f"{who}, {detail}"
    return ""


def _show(folder: Path) -> None:
    """Print the last row of the history, as ``feddr run`` does."""
    from feddr.commands.progress import table
    from feddr.history import History
    from feddr.runs.folder import Outcome

    history = History.from_csv(folder / "history.csv")
    results().print(table([Outcome(folder.name, "finished", history)]))
    typer.echo(f"Saved {folder}; feddr predict {folder} NEW.csv, feddr report {folder}.")


def audit(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state folder of a node.")],
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The hash that an earlier audit has printed as the head.")
    ] = None,
) -> None:
    """Check the log of what has left a site, and summarise it; the exit code is 1 if it is not as it was written."""
    from rich.table import Table

    from feddr.sites import verify
    from feddr.sites.audit import FILE

    path = state / "audit" / FILE
    if not path.is_file():
        raise ValueError(f"{state}: nothing has left, there is no {path}; give the --state of a node.")
    try:
        summary = verify(path, head)
    except ValueError as error:
        complain(error)
        raise typer.Exit(FAILED) from None
    shown = Table(box=None, header_style="dim")
    for title in ("run", "kind", "messages", "bytes", "largest norm"):
        shown.add_column(title, justify="left" if title in ("run", "kind") else "right")
    for (name, kind), (count, size, norm) in summary.kinds.items():
        shown.add_row(name, kind, f"{count:,}", f"{size:,}", "-" if norm != norm else f"{norm:.4g}")
    results(PLAIN_WIDTH).print(shown)
    whole = f"The log is whole: {summary.lines:,} lines from {summary.first} to {summary.last}."
    typer.echo(whole + (" Half a line at its end is of a message that has not left." if summary.torn else ""))
    typer.echo(f"Its head is {summary.head}")
