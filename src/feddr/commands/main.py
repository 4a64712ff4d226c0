"""The command line: the list of commands, and how errors become one line on stderr and an exit code."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import feddr
from feddr.commands.console import REFUSED, complain
from feddr.commands.data import data
from feddr.commands.deploy import app as deploy
from feddr.commands.example import example
from feddr.commands.predict import predict
from feddr.commands.report import report
from feddr.commands.reproduce import reproduce
from feddr.commands.run import HELP, run
from feddr.commands.theory import theory
from feddr.commands.tune import tune
from feddr.validation.messages import reason

UsageError: Any = typer.BadParameter.__base__
"""Wrong words on the command line: click's class where typer is built on click, and typer's own from 0.26 on."""

EXTRAS = {"flwr": "flower", "cryptography": "flower", "grpc": "flower", "ray": "ray"}
"""Modules that a command may need, and the extra that installs them."""


class Commands(TyperGroup):
    """The commands; refusals become one line, unexpected exceptions keep their traceback."""

    def main(self, *words: Any, **options: Any) -> Any:
        """Run the command that the words name, and end the program unless ``standalone_mode`` is False."""
        if not options.get("standalone_mode", True):
            return super().main(*words, **options)
        try:
            code = super().main(*words, **{**options, "standalone_mode": False})
        except UsageError as error:
            context, message = getattr(error, "ctx", None), error.format_message()
            remedy = "" if context is None else f" See {context.command_path} --help."
            if message:  # there is none where no words were given, and the help has been printed
                complain(message + ("" if message.endswith((".", "?")) else ".") + remedy)
            sys.exit(error.exit_code)
        except (ValueError, OSError, MemoryError) as error:
            complain(reason(error))
            sys.exit(REFUSED)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").split(".")[0])
            if extra is None:
                raise
            complain(f"{error.name} is missing; pip install 'feddr[{extra}]'.")
            sys.exit(REFUSED)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


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


app.command()(example)
for name, summary in HELP.items():
    app.command(name, help=summary)(run)
app.command()(predict)
app.command()(theory)
app.command()(data)
app.command()(tune)
app.command()(reproduce)
app.command()(report)
app.add_typer(deploy, name="deploy")
