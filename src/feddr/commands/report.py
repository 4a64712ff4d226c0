"""The command ``feddr report``: runs as one HTML page, or a server that follows them."""

import threading
from pathlib import Path
from typing import Annotated

import typer

NAME = "report.html"


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, which share the curves.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Where the page goes, instead of RUN/{NAME}, or {NAME} for several."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Serve the page on this machine, and follow the run.")] = False,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="For --watch; 0 for any.")] = 0,
) -> None:
    """Write runs as one HTML page, which works offline, or serve it while they are under way."""
    if watch:
        if out is not None:
            raise ValueError(f"--watch serves the page and writes none, got --out {out}; drop one of them.")
        _serve(runs, port)
        return
    if port:
        raise ValueError(f"--port is for --watch, got {port} without it; drop it, or add --watch.")
    path = out or (runs[0] / NAME if len(runs) == 1 else Path(NAME))
    if path.suffix != ".html":
        raise ValueError(f"--out must be a file that ends in .html, got {path}.")

    from feddr.report.gather import gather
    from feddr.report.page import page
    from feddr.storage import atomic

    data = gather(runs)
    for run in data["runs"]:
        if not any(method["rows"] for method in run["methods"]):
            raise ValueError(f"{run['path']} has no evaluations yet; wait for the first, or use --watch.")
    text = page(data)
    with atomic.refusing(path):
        atomic.write(path, text.encode())
    typer.echo(f"Saved {path}, {len(text.encode()) / 1000:,.0f} kB.")


def _serve(runs: list[Path], port: int) -> None:
    from feddr.report.live import LiveServer

    try:
        server = LiveServer(runs, port)
    except OSError as error:
        raise ValueError(f"--port {port} cannot be used, {error.strerror}; take another, or leave it out.") from None
    with server:
        try:
            typer.echo(f"Following {', '.join(map(str, runs))} at {server.url} (Ctrl-C stops).")
            threading.Event().wait()
        except KeyboardInterrupt:
            typer.echo("")
