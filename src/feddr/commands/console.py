"""What the commands share: consoles, exit codes, errors in one line, options, and Ctrl-C."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Annotated, Self

import typer
from rich.console import Console

from feddr.validation.messages import one_line

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: nothing came of it, nothing was begun because the input is wrong, and Ctrl-C."""

PLAIN_WIDTH = 120
"""Columns of a table in a file or a pipe, which has no width of its own."""

Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of CONFIG.")]


def results(width: int = PLAIN_WIDTH) -> Console:
    """Return the console for results: standard output, of this width where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=width)


def messages(quiet: bool) -> Console:
    """Return the console for progress and other messages: standard error, or nowhere."""
    return Console(stderr=True, quiet=quiet)


def complain(message: object) -> None:
    """Print an error to standard error, in one line that is safe to print whatever it quotes."""
    typer.echo(f"feddr: {one_line(message)}", err=True)


class Interrupts:
    """Ctrl-C during runs: the first asks them to end after the round, the second ends the program.

    Parameters
    ----------
    first, second
        What else to do; they are called in the midst of anything.
    signals
        What counts as Ctrl-C; machines that shut down send SIGTERM.
    """

    def __init__(
        self,
        first: Callable[[], None],
        second: Callable[[], None],
        signals: Sequence[signal.Signals] = (signal.SIGINT,),
    ) -> None:
        self.first, self.second, self.signals, self.asked = first, second, signals, False

    def __enter__(self) -> Self:
        self.previous = {number: signal.signal(number, self._press) for number in self.signals}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Restore the previous signal handlers."""
        for number, previous in self.previous.items():
            signal.signal(number, previous)

    def _press(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.asked:
            self.second()
            if os.isatty(2):
                os.write(2, b"\x1b[?25h\n")  # the bars hide the cursor
            # An exception would wait for the threads, each of which may have minutes of work left.
            os._exit(INTERRUPTED)
        self.asked = True
        self.first()
