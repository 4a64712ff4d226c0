"""The mutable state of a run, and the progress report that callbacks get."""

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from feddr.checkpoint import encoding
from feddr.history import Row
from feddr.local import Estimate


@dataclass
class RunState:
    """Everything that changes during a run.

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
    skipped_in_a_row
        Those since the last one that was not.
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
    skipped_in_a_row: int = 0
    met: dict[int, Estimate] = field(default_factory=dict)

    def meet(self, client: int, curvature: Estimate | None) -> None:
        """Record the curvature that the solver of a client met in an update."""
        if curvature is not None:
            before = self.met.get(client, curvature)
            self.met[client] = Estimate(
                min(before.lower, float(curvature.lower)), max(before.upper, float(curvature.upper))
            )

    def state_dict(self) -> encoding.Arrays:
        """Return everything but the clients' states as named arrays, for a checkpoint."""
        counts = [self.bytes_up, self.bytes_down, self.local_steps, self.skipped, self.skipped_in_a_row]
        return {
            **encoding.flatten("server", self.server),
            **encoding.add_prefix("updates", encoding.pairs(self.updates, np.int64)),
            **encoding.add_prefix("met", encoding.pairs(self.met, np.float64)),
            "counts": np.array(counts, np.int64),
            "prox_error": np.array(self.prox_error, np.float64),
        }

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned, but for the clients' states."""
        self.server = encoding.unflatten("server", self.server, arrays)
        self.updates.update(encoding.mapping(encoding.strip_prefix("updates", arrays)))
        met = encoding.strip_prefix("met", arrays)  # not there in checkpoints of version 0.1
        self.met.update({i: Estimate(*bounds) for i, bounds in (encoding.mapping(met) if met else {}).items()})
        counts = arrays["counts"].tolist()
        self.bytes_up, self.bytes_down, self.local_steps, self.skipped, self.skipped_in_a_row = counts
        self.prox_error = arrays["prox_error"].item()


class WorkersLoad(NamedTuple):
    """How busy the workers of a cluster are, and what has been sent between them and the driver.

    Parameters
    ----------
    busy
        Of each worker, the share of the newest rounds in which it computed.
    bytes
        Since the start.

    Examples
    --------
    >>> str(WorkersLoad((0.72, 0.94), 12_400_000))
    '2 workers 72-94 % busy, 12.4 MB'
    """

    busy: tuple[float, ...]
    bytes: int

    def __str__(self) -> str:
        least, most = (f"{100 * share:.0f}" for share in (min(self.busy), max(self.busy)))
        shares = most if least == most else f"{least}-{most}"
        workers = "1 worker" if len(self.busy) == 1 else f"{len(self.busy)} workers"
        return f"{workers} {shares} % busy, {self.bytes / 1e6:,.3g} MB"


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each round.

    Parameters
    ----------
    row
        There when the round was evaluated.
    asked
        Clients that were asked for an update in this round, of whom not all need have sent one; 0 without rounds.
    workers
        There when clients compute on workers of a cluster.
    """

    round: int
    rounds: int
    state: RunState = field(repr=False)  # all models: too long to read
    row: Row | None
    asked: int = 0
    workers: WorkersLoad | None = None


Callback = Callable[[Progress], bool | None]
"""Called after each round; returning True ends the run there, with a last evaluation."""


def notify(callbacks: Iterable[Callback], progress: Progress) -> bool:
    """Call every callback, and return whether one of them wants to stop."""
    answers = [callback(progress) for callback in callbacks]  # each is called, also when another wants to stop
    return any(answers)
