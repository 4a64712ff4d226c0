"""Real time, in a form that tests can replace."""

import time
from typing import Protocol


class TimeSource(Protocol):
    """Seconds that only grow, and a way to let them pass."""

    def now(self) -> float:
        """Return the time."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Monotonic:
    """The computer's clock."""

    def now(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
