"""The commands ``feddr deploy certs``, ``check``, ``server``, ``node``, ``leave``; the others are in ``deploy_run``."""

from pathlib import Path
from typing import Annotated

import typer

from feddr.commands.console import FAILED, results
from feddr.commands.deploy_run import audit, example, run

WIDTH = 140
"""Columns of the findings in a file or a pipe."""

app = typer.Typer(no_args_is_help=True, help="Run FedDR on real machines over Flower.")

Certs = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder with certificates; may be left out on this machine only.")
]
SiteFile = Annotated[
    Path | None, typer.Option(metavar="SITE.toml", help="The site's own file: its data, its columns, its rules.")
]
State = Annotated[Path, typer.Option(metavar="DIR", help="Folder for state and logs, of this process alone.")]


@app.command()
def certs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    host: Annotated[list[str] | None, typer.Option(help="Name or IP address of the server; may be repeated.")] = None,
    nodes: Annotated[int, typer.Option(metavar="N", help="Number of node keys.")] = 1,
    days: Annotated[int, typer.Option(metavar="N", help="How long they are valid.")] = 90,
) -> None:
    """Make a CA, a server certificate and node keys for a trial."""
    from feddr.deploy import certs as certificates

    made = certificates.make(folder, host or [], nodes, days)
    typer.echo(f"For a trial: valid until {made.expires:%d %B %Y} for {', '.join(made.hosts)}.")
    typer.echo(
        f"{folder}/server goes to the server, {folder}/node-0 to node-{nodes - 1} to one node each, and to nobody else."
    )
    typer.echo(f"{folder}/ca.key signs further certificates: keep it off the network, or delete it.")


@app.command()
def check(
    superlink: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A SuperLink that should answer, for a node.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="An address that should be free, for a SuperLink.")
    ] = None,
    certs: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with certificates.")] = None,
    site: SiteFile = None,
    config: Annotated[
        Path | None, typer.Option(metavar="CONFIG.toml", help="An experiment, to compare the site's columns with.")
    ] = None,
) -> None:
    """Look at versions, ports, certificates, clock, SuperLink and a site's data; exit code 1 if there is a problem."""
    from rich.table import Table
    from rich.text import Text

    from feddr.deploy.check import check as look

    table = Table(box=None, header_style="dim")
    for title in ("", "", "found", "remedy"):
        table.add_column(title, overflow="fold")
    colours = {"ok": "green", "note": "yellow", "problem": "bold red"}
    findings = list(look(superlink, listen, certs, site, config))
    for what, verdict, observed, remedy in findings:
        table.add_row(Text(verdict, colours[verdict]), what, Text(observed), Text(remedy))
    results(WIDTH).print(table)
    problems = sum(finding.verdict == "problem" for finding in findings)
    if problems:
        typer.echo(f"{problems} problem{'s' * (problems > 1)}.", err=True)
        raise typer.Exit(FAILED)


@app.command()
def server(
    state: State,
    host: Annotated[str, typer.Option(help="Address to listen on, 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    certs: Certs = None,
    control_from: Annotated[
        list[str] | None, typer.Option(metavar="IP", help="Who else may submit runs; may be repeated.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write events to the log only.")] = False,
) -> None:
    """Run a SuperLink: TLS and node keys beyond this machine, runs submitted from this machine only."""
    from feddr.deploy import server as servers

    servers.run(host, port, state, certs, control_from or [], quiet)


@app.command()
def node(
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the SuperLink listens.")],
    partition: Annotated[int, typer.Option(metavar="I", help="Number of the client that this node is, from 0.")],
    state: State,
    certs: Certs = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key, instead of node.key in --certs.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Further node settings, values in TOML; may be repeated."),
    ] = None,
    site: SiteFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write events to the log only.")] = False,
) -> None:
    """Run a SuperNode, and start it again when it ends."""
    from feddr.deploy import node as nodes

    nodes.run(superlink, partition, state, certs, key, config or [], quiet, site)


@app.command()
def leave(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run on the server, .../server/<name>.")],
    client: Annotated[int, typer.Argument(metavar="CLIENT", help="Number of the client, from 0.")],
) -> None:
    """Let a client leave a run for good: what is counted for it is taken out of the mean."""
    from feddr.flower import leave as ask

    ask(folder, client)
    typer.echo(f"Client {client} leaves as soon as the server looks, or when the run is submitted again.")


app.command()(example)
app.command()(run)
app.command()(audit)
