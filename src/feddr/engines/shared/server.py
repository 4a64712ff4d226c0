"""The server's side of a run: its state, aggregation and evaluation, wherever the clients compute."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms import Algorithm, Roles, Uploads
from feddr.algorithms.algorithm import ProblemLike
from feddr.checkpoint import encoding
from feddr.engines.shared import diagnosis
from feddr.engines.shared.aggregation import ServerMessage, finite, server_message
from feddr.engines.shared.errors import DivergedError, shorter
from feddr.engines.shared.measured import Evaluates, MetricSet
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.recorder import Recorder
from feddr.engines.shared.state import RunState, WorkersLoad
from feddr.history import History, Row
from feddr.local import LocalSolver
from feddr.prox.compiled import compiled_prox

if TYPE_CHECKING:
    from feddr.certify.measure import MeasuresRound
    from feddr.checkpoint.manager import CheckpointManager
    from feddr.engines.shared.executor import ClientTask

PATIENCE = 1000
"""Updates in a row that may be skipped; after so many, nobody sends anything that could be used."""


class ServerRun(ABC):
    """Keeps the server's state, lets it aggregate, and records metrics; an engine adds how clients compute.

    Parameters
    ----------
    options
        What every engine may be asked.
    evaluator
        Evaluates the global model.
    state
        The state, from its beginning.
    """

    def __init__(
        self,
        problem: ProblemLike,
        algorithm: Algorithm,
        local: LocalSolver,
        options: EngineOptions,
        evaluator: Evaluates,
        state: RunState,
    ) -> None:
        self.problem, self.algorithm, self.local, self.options = problem, algorithm, local, options
        self.dtype = options.dtype
        metrics = MetricSet(problem, evaluator, options.chosen, options.per_client)
        self.recorder = Recorder(evaluator, metrics, options.personal)
        self.roles = Roles(algorithm, problem.client_weights)
        self.prox = compiled_prox(problem.regulariser)
        self.x0 = tree.cast(problem.init, self.dtype)
        self.state = state
        self.accurate = True
        self._message: tuple[Any, ServerMessage] | None = None

    def attach(self, checkpoints: "CheckpointManager") -> None:  # noqa: B027  most engines have no need of it
        """Learn where the state of the run is saved, for engines that may need it again."""

    def measures(self, lowers: NDArray[np.float64]) -> "MeasuresRound | None":
        """Return what measures the clients for a certificate, None where their states are in this process.

        ``lowers`` are lower bounds on the curvature of each client.
        """
        del lowers
        return None

    @property
    def workers(self) -> WorkersLoad | None:
        """How busy the workers of a cluster are; None where there are none."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """What the settings of a result say of where clients computed."""
        return {}

    @abstractmethod
    def round(self, k: int, tasks: "Sequence[ClientTask]", upcoming: Callable[[], Iterable[int]] = tuple) -> set[int]:
        """Let clients compute, and then the server; return the clients that were skipped.

        ``upcoming`` returns the clients of the next round, as far as they are known. Where a round fails, nothing has
        changed.
        """

    @abstractmethod
    def load_clients(self, segments: Iterable[encoding.Arrays]) -> None:
        """Load the clients' states from a checkpoint."""

    @property
    def history(self) -> History:
        """The rows so far."""
        return self.recorder.history

    def message(self) -> ServerMessage:
        """Return what the server broadcasts now; it is made once for each of its states."""
        if self._message is None or self._message[0] is not self.state.server:
            self._message = self.state.server, server_message(self.algorithm, self.state.server, self.dtype)
        return self._message[1]

    def leave_out(self, client: int, k: int) -> None:
        """Count an upload that is skipped; DivergedError where there have been too many in a row."""
        self.state.skipped += 1
        self.state.skipped_in_a_row += 1
        if self.state.skipped_in_a_row >= PATIENCE:
            raise DivergedError(
                f"{PATIENCE} updates in a row held a NaN or an infinity and were skipped, the last of them client "
                f"{client}'s in round {k}; {shorter(self.local, self.algorithm)}.",
                client,
                k,
            )

    def count_down(self, message: ServerMessage, clients: int) -> None:
        """Count the bytes of a message that was broadcast to so many clients."""
        self.state.bytes_down += clients * message.num_bytes

    def aggregate(self, uploads: Uploads, k: int, last_good_round: int | None = None) -> None:
        """Let the server compute in round k."""
        server = self.roles.server.aggregate(self.state.server, uploads, self.prox)
        if not finite(server.xbar):
            raise DivergedError(
                f"xbar is not finite after round {k}, though all uploads were. They are too large to add up, or "
                f"the prox of {self.problem.regulariser} is wrong: {shorter(self.local, self.algorithm)}.",
                None,
                k,
                last_good_round=last_good_round,
            )
        self.state.server = server

    def evaluate(self, k: int, **columns: float) -> Row:
        """Add a row to the history, unless f or its gradient is not finite, which ends the run."""
        row = self.recorder.evaluate(k, self.state, **columns)
        for name in ("f", "gradient_mapping"):
            if not math.isfinite(getattr(row, name)):
                raise diagnosis.metric(self, k, name, getattr(row, name))
        self.recorder.add(row, self.state)
        diagnosis.growth(self)
        return row

    def state_dict(self) -> encoding.Arrays:
        """Return everything that the rest of the run depends on, but for the clients' states, as named arrays."""
        return self.state.state_dict() | self.recorder.state_dict()

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned."""
        self.state.load_state_dict(arrays)
        self.recorder.load_state_dict(arrays)
