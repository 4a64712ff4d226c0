"""``Clock``: the settings of virtual time, which are delays, deadline and how many events are recorded."""

from dataclasses import dataclass

from feddr.algorithms import Algorithm
from feddr.delays import Delay, Fixed
from feddr.validation import scalars

ONE_SECOND = Fixed(1.0)
"""The delays of a clock that is given none."""


@dataclass(frozen=True)
class Clock:
    """Virtual time for a run: how long clients take, and how long rounds wait for them.

    Parameters
    ----------
    delays
        A model of ``feddr.delays``: how long clients take, when they are there and what gets lost. One second for
        every update by default.
    deadline
        Seconds after which a round ends without late clients; their state stays as it was. None waits for
        everybody. Asynchronous runs have none.
    max_events
        How many events ``result.events`` may hold.

    Raises
    ------
    ValueError
        Where the deadline is not positive, or ``max_events`` no whole number.

    Examples
    --------
    >>> import feddr
    >>> feddr.Clock(feddr.delays.UniformSpeed(1.0, 2.0), deadline=1.5)
    Clock(delays=UniformSpeed(low=1.0, high=2.0), deadline=1.5, max_events=100000)
    """

    delays: Delay = ONE_SECOND
    deadline: float | None = None
    max_events: int = 100_000

    def __post_init__(self) -> None:
        scalars.count(self, "max_events", 0)
        if not isinstance(self.delays, Delay):
            raise ValueError(f"delays must be a model of feddr.delays, got {self.delays!r}; such as Fixed(1.0).")
        if self.deadline is not None:
            scalars.numbers(self, "deadline")
            if not self.deadline > 0:
                raise ValueError(f"deadline must be above 0, got {self.deadline}; None to wait for everybody.")

    @classmethod
    def of(cls, clock: "Clock | None") -> "Clock | None":
        """Return the argument ``clock`` of an engine; ValueError where it is no Clock."""
        if clock is None or isinstance(clock, cls):
            return clock
        raise ValueError(f"clock must be a feddr.Clock, got {clock!r}; such as Clock(delays.Fixed(1.0)).")

    def check(self, algorithm: Algorithm, n: int) -> None:
        """Refuse delays that do not fit n clients, and a deadline that the algorithm cannot meet."""
        self.delays.check(n)
        if self.deadline is not None and not algorithm.partial:
            name, deadline = type(algorithm).__name__, self.deadline
            raise ValueError(f"{name} needs every client in every round, got deadline={deadline}; use FedDR, or None.")
