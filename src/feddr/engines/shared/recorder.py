"""The history of a run: evaluates the global model (xbar) and adds a row."""

import math
import time

import numpy as np

from feddr.checkpoint import encoding
from feddr.engines.shared.measured import Columns, Evaluates, MetricSet
from feddr.engines.shared.state import RunState
from feddr.history import COLUMNS, History, Row


class Recorder:
    """Adds rows to a history.

    Parameters
    ----------
    evaluator
        Computes the columns that every history has.
    metrics
        Further metrics, which the run was asked for.
    personal
        Whether to evaluate the clients' own models, too.
    """

    def __init__(self, evaluator: Evaluates, metrics: MetricSet, personal: bool) -> None:
        self.evaluator, self.metrics, self.personal = evaluator, metrics, personal
        self.history = History()
        self.begin = time.perf_counter()
        self._clients: Columns | None = None

    @property
    def seconds(self) -> float:
        """Since the start of the run, also where that was in another process."""
        return time.perf_counter() - self.begin

    def evaluate(self, k: int, state: RunState, **columns: float) -> Row:
        """Return the row of round k, which the history does not have yet; metrics may be infinite or NaN.

        Of the ``columns``, those that not every history has are among its metrics.
        """
        metrics, self._clients = self.metrics.at(state.server.xbar)
        more = {name: value for name, value in columns.items() if name not in COLUMNS}
        own = ((i, c.x) for i, c in sorted(state.clients.items()) if hasattr(c, "x"))
        return Row(
            round=k,
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            local_steps=state.local_steps,
            prox_error=state.prox_error,
            skipped=state.skipped,
            **self.evaluator.at(state.server.xbar),
            **(self.evaluator.personal(own) if self.personal else {}),
            wall_time=self.seconds,
            metrics={**metrics, **more},
            **{name: value for name, value in columns.items() if name in COLUMNS},
        )

    def add(self, row: Row, state: RunState) -> None:
        """Add a row, and reset the largest error of a prox."""
        state.prox_error = math.nan
        self.history.rows.append(row)
        if self._clients is not None:
            self.history.clients.add(row.round, self._clients)

    def state_dict(self) -> encoding.Arrays:
        """Return the rows, and the seconds that the run has taken, for a checkpoint."""
        return {
            **encoding.add_prefix("history", encoding.history(self.history)),
            "seconds": np.array(self.seconds),
        }

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned."""
        history = encoding.rows(encoding.strip_prefix("history", arrays))
        self.history.rows[:], self.history.clients = history.rows, history.clients
        self.begin = time.perf_counter() - arrays["seconds"].item()
