"""Ctrl-C and SIGTERM: the first one stops a run after its round and saves it, the second one stops at once."""

import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Self

INTERRUPTED = 130
"""Exit code."""


class Interrupts:
    """Ctrl-C while runs go on: the first asks them to end after the round, the second ends the program.

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
        """Give Ctrl-C back its old meaning."""
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
