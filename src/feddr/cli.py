"""The command line: the commands, and how what they refuse is reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

import feddr
from feddr.data_command import data
from feddr.deploy.command import app as deploy
from feddr.interrupts import Interrupts
from feddr.reproduce_command import reproduce
from feddr.run_command import compare, run
from feddr.theory_command import theory
from feddr.tune_command import tune

__all__ = ["Interrupts", "app", "main"]

REFUSED = 2
"""Exit code."""

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"feddr {feddr.__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]


@app.callback()
def options(version: Version = False) -> None:
    """Federated composite optimisation: FedDR beside the methods it is compared with."""


def main() -> None:
    """Run the program."""
    app(prog_name="feddr")


@contextmanager
def _refusing() -> Iterator[None]:
    """Report what an experiment cannot do in one line; a mistake of the program keeps its traceback."""
    try:
        yield
    except ValueError as error:
        typer.echo(f"feddr: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(REFUSED) from None


app.command()(_refusing()(run))
app.command()(_refusing()(compare))
app.command()(_refusing()(theory))
app.command()(_refusing()(data))
app.command()(_refusing()(tune))
app.command()(_refusing()(reproduce))
app.add_typer(deploy, name="deploy")


if __name__ == "__main__":
    main()
