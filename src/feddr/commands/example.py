"""The command ``feddr example``: an experiment that feddr brings, as a file to run and to change."""

from pathlib import Path
from typing import Annotated

import typer

from feddr import experiments
from feddr.storage import atomic


def example(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which; none to list them.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where it goes, instead of NAME.toml here.")] = None,
) -> None:
    """Write an experiment that feddr brings into this folder, to be run and changed, or list them."""
    shipped = experiments.shipped()
    if name is None:
        if out is not None:
            raise ValueError(f"--out needs the NAME of an experiment, got {out} alone; there are {', '.join(shipped)}.")
        width = max(map(len, shipped))
        for one, path in shipped.items():
            typer.echo(f"{one:{width}}  {experiments.summary(path)}")
        return
    name = name.removesuffix(".toml")
    if name not in shipped:
        raise ValueError(f"There is no experiment {name}; there are {', '.join(shipped)}.")
    path = out or Path(f"{name}.toml")
    if path.exists():
        raise ValueError(f"{path} is there already; give another file by --out, or remove it.")
    with atomic.refusing(path):
        atomic.write(path, shipped[name].read_bytes())
    command = "tune" if name.startswith("tune") else "compare"
    typer.echo(f"Saved {path}; feddr {command} {path} runs it.")
