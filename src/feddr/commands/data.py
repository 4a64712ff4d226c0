"""The command ``feddr data``: a federation as a table and a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddr import config as configs
from feddr.commands.console import results
from feddr.config import Component, ConfigError, toml
from feddr.config.components import TABLE, part, target
from feddr.runs.progress import say
from feddr.storage import atomic, untrusted
from feddr.validation.messages import hint

if TYPE_CHECKING:
    from rich.table import Table

    from feddr.data import FederatedData
    from feddr.datasets.summary import Summary

PICTURE, NUMBERS = "federation.png", "clients.csv"


def data(
    source: Annotated[str, typer.Argument(metavar="NAME|CONFIG", help="A data set, or an experiment in TOML.")],
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An argument of the data set, or a setting of CONFIG."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new or empty folder, instead of runs/data-<name>.")
    ] = None,
) -> None:
    """Summarise a federation: the samples and labels of its clients, as a table and a picture."""
    if out is not None and (out.is_file() or (out.is_dir() and any(out.iterdir()))):
        raise ValueError(f"--out must be a new or an empty folder, {out} is not.")
    names = TABLE["data"][1]
    if source in names:
        chosen, name = _from_name(source, sets or []), source
    elif source.endswith(".toml") or Path(source).is_file():
        experiment = configs.load(source, sets or [])
        chosen, name = experiment.data, experiment.name
    else:
        raise ValueError(
            f"{source} is neither a data set nor a file that ends in .toml; the data sets are {', '.join(names)}."
            f"{hint(source, names)}"
        )
    from feddr.datasets.summary import summarise

    summary = summarise(_load(chosen))
    folder = out if out is not None else Path("runs", f"data-{name}")
    with atomic.refusing(folder), atomic.making(folder):
        untrusted.check_links(folder)
        _draw(chosen, summary, folder / PICTURE)
        summary.to_csv(folder / NUMBERS)
    _print(chosen, summary)
    typer.echo(f"Saved {PICTURE} and {NUMBERS} in {folder}.")


def _from_name(name: str, sets: list[str]) -> Component:
    """Check assignments such as ``partition=dirichlet``, or ``data.partition=dirichlet`` as for a config."""
    table: dict[str, object] = {"name": name}
    for text in sets:
        path, value = toml.assignment(text)
        key = path[1:] if path[:1] == ["data"] else path
        if len(key) != 1:
            raise ConfigError(f"An override is KEY=VALUE, such as num_clients=10, got {text}.")
        table[key[0]] = value
    return part("data", "data", table)


def _load(chosen: Component) -> "FederatedData":
    try:
        federated: FederatedData = target("data", chosen.name)(**chosen.arguments)
    except ValueError as error:
        raise ConfigError(f"data {chosen.name}: {error}") from None
    return federated


def _print(chosen: Component, summary: "Summary") -> None:
    console = results()
    say(console, _headline(chosen, summary))
    console.print(table(summary))
    if summary.are_classes and len(summary.columns) > 1:
        import numpy as np

        say(
            console,
            "Label skew is the total variation distance between a client's labels and everyone's: 0 alike, 1 nothing "
            "in common. Clients of these sizes with labels drawn at random would have "
            f"{np.median(summary.skew_by_chance):.2f} or so in the median.",
        )


def _headline(chosen: Component, summary: "Summary") -> str:
    kind = f"{len(summary.columns)} classes" if summary.are_classes else "a number to predict"
    arguments = "".join(f", {key}={value}" for key, value in chosen.arguments.items())
    return f"{chosen.name}{arguments}: {len(summary.clients):,} clients, {summary.num_features:,} features, {kind}."


def table(summary: "Summary") -> "Table":
    """Return the least, the median and the largest over the clients of what was counted."""
    import numpy as np
    from rich.table import Table

    rows = Table("for each client", title_justify="left")
    for column in ("min", "median", "max", "all together"):
        rows.add_column(column, justify="right")
    counted = [
        ("training samples", summary.train, True),
        ("validation samples", summary.validation, bool(summary.validation.any())),
        ("test samples", summary.test, bool(summary.test.any())),
    ]
    for label, sizes, shown in counted:
        if shown:
            low, middle, high = np.min(sizes), np.median(sizes), np.max(sizes)
            rows.add_row(label, f"{low:,}", f"{middle:,g}", f"{high:,}", f"{np.sum(sizes):,}")
    if summary.are_classes:
        classes = (summary.counts > 0).sum(axis=1)
        used = int((summary.counts.sum(axis=0) > 0).sum())
        rows.add_row("classes", str(classes.min()), f"{np.median(classes):g}", str(classes.max()), str(used))
        skew = summary.skew
        rows.add_row("label skew", f"{skew.min():.2f}", f"{np.median(skew):.2f}", f"{skew.max():.2f}", "")
    return rows


def _draw(chosen: Component, summary: "Summary", path: Path) -> None:
    from feddr import plots
    from feddr.plots import federation

    arguments = ", ".join(
        f"{key}={value}" for key, value in chosen.arguments.items() if key not in ("data_dir", "path")
    )
    plots.save(federation.federation(summary, f"{chosen.name}: {arguments}" if arguments else chosen.name), path)
