"""The mutable state of a run, and the progress report that callbacks get."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from feddr.history import Row
from feddr.local import Estimate


@dataclass
class RunState:
    """Everything that changes while a run goes on.

    Parameters
    ----------
    server
        The algorithm's server state, float64.
    clients
        The algorithm's state of each client that has taken part, by client.
    updates
        How many updates each of them has made.
    skipped
        How many updates were left out because they were not finite.
    met
        The least and the largest curvature of f_i that the solver of client i met, where it had to be estimated.
    """

    server: Any
    clients: MutableMapping[int, Any] = field(default_factory=dict)
    updates: dict[int, int] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    local_steps: int = 0
    prox_error: float = float("nan")
    skipped: int = 0
    met: dict[int, Estimate] = field(default_factory=dict)

    def meet(self, client: int, found: Estimate | None) -> None:
        """Take in the curvature that the solver of a client met in an update."""
        if found is not None:
            before = self.met.get(client, found)
            self.met[client] = Estimate(min(before.lower, float(found.lower)), max(before.upper, float(found.upper)))


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each round.

    Parameters
    ----------
    row
        There when the round was evaluated.
    asked
        Clients that were asked for an update in this round, of whom not all need have sent one; 0 without rounds.
    """

    round: int
    rounds: int
    state: RunState
    row: Row | None
    asked: int = 0


Callback = Callable[[Progress], bool | None]
"""Called after each round; returning True ends the run there, with a last evaluation."""
