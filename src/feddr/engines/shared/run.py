"""A run in progress: its state, one round of it, and its evaluation, for all compiled engines."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm, Roles, Uploads
from feddr.checkpoint import encoding
from feddr.engines.shared import diagnosis
from feddr.engines.shared.aggregation import WeightedUpload, finite, upload_bytes, weighted_sum, wire_bytes
from feddr.engines.shared.client_store import ClientStore
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.errors import DivergedError, inaccurate, shorter, warn_inaccurate
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.executor import ClientExecutor, ClientTask, ClientUpdate
from feddr.engines.shared.measured import MetricSet
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.recorder import Recorder
from feddr.engines.shared.shards import shard_of
from feddr.engines.shared.state import RunState
from feddr.history import History, Row
from feddr.local import LocalSolver
from feddr.problem import Problem
from feddr.prox.compiled import compiled_prox
from feddr.tree import Tree
from feddr.xla.thread_pool import ThreadPool

PATIENCE = 1000
"""Updates in a row that may be skipped; after so many, nobody sends anything that could be used."""


class Run:
    """Executes clients and server, and keeps the state of both.

    Parameters
    ----------
    options
        What every engine may be asked. ``options.sampling`` has the probabilities that solvers need.
    pool
        The threads that compute clients.
    """

    def __init__(
        self, problem: Problem, algorithm: Algorithm, local: LocalSolver, options: EngineOptions, pool: ThreadPool
    ) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(
                f"The simulator compiles a loss written in JAX, got a {type(problem).__name__}; use feddr.reference, "
                "or write the loss in JAX."
            )
        self.problem, self.algorithm, self.local, self.options = problem, algorithm, local, options
        self.dtype = options.dtype
        evaluator = Evaluator(problem, self.dtype, pool)
        metrics = MetricSet(problem, evaluator, options.chosen, options.per_client)
        self.recorder = Recorder(evaluator, metrics, options.personal)
        samples = evaluator.samples if problem.data.on_demand is None else None
        self.clients = CompiledClients(problem, samples, local, self.dtype, algorithm.needs_gradient)
        self.roles = Roles(algorithm, problem.client_weights)
        self.prox = compiled_prox(problem.regulariser)
        self.x0 = tree.cast(problem.init, self.dtype)
        self.state = RunState(algorithm.server(tree.cast(self.x0, np.float64)), ClientStore(options.client_memory))
        probabilities = options.sampling.probabilities(problem.data.num_clients)
        self.executor = ClientExecutor(self.roles, self.clients, self.state, self.x0, probabilities, options.seed, pool)
        self.accurate = True
        self._upload_bytes = 0

    @property
    def history(self) -> History:
        """The rows so far."""
        return self.recorder.history

    def message(self) -> Tree:
        """Return what the server broadcasts now."""
        return tree.cast(self.algorithm.broadcast(self.state.server), self.dtype)

    def round(self, k: int, tasks: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> set[int]:
        """Let clients compute side by side, and then the server; where that fails, nothing has changed.

        ``upcoming`` returns the clients of the next round, as far as they are known. Returns the clients that were
        skipped.
        """
        tasks = sorted(tasks, key=lambda task: task.client)
        accepted: list[tuple[ClientTask, ClientUpdate]] = []
        skipped: list[tuple[ClientTask, ClientUpdate]] = []

        def arriving() -> Iterator[WeightedUpload]:
            for task, update in zip(tasks, self.executor.execute(tasks, upcoming), strict=True):
                accepted.append((task, update))
                yield self.weighted(task.client, update)

        uploads = weighted_sum(arriving()) if tasks else None
        if uploads is not None and not finite(uploads.sum):
            everybody, accepted = accepted, []
            for task, update in everybody:
                good = self.check_upload(task, update, last_good_round=k - 1)
                (accepted if good else skipped).append((task, update))
            uploads = (
                weighted_sum(self.weighted(task.client, update) for task, update in accepted) if accepted else None
            )
        if uploads is not None:
            self.aggregate(uploads, k, last_good_round=k - 1)
        for task, update in accepted:
            self.commit(task.client, update, k)
        for task, update in skipped:
            self.skip(task, update)
        return {task.client for task, _ in skipped}

    def check_upload(self, task: ClientTask, update: ClientUpdate, last_good_round: int) -> bool:
        """Return whether an upload is finite; DivergedError where it is not and ``on_bad_client`` is "stop".

        ``last_good_round`` is the round whose state is still there.
        """
        if finite(update.upload):
            return True
        if self.options.on_bad_client == "stop":
            raise diagnosis.upload(self, task, last_good_round)
        return False

    def weighted(self, i: int, update: ClientUpdate, factor: float = 1.0) -> WeightedUpload:
        """Return the upload of client i with its weights, as the server sums it up."""
        weight, share = float(self.roles.mean_weights[i]), float(self.roles.weights[i])
        shard = shard_of(i, len(self.roles.weights))
        return WeightedUpload(shard, weight, share, i not in self.state.updates, update.upload, factor)

    def commit(self, i: int, update: ClientUpdate, k: int) -> None:
        """Store the new state of client i in round k; warn once of a prox that misses its stopping rule."""
        state = self.state
        if self.accurate and inaccurate(update.solution):
            self.accurate = False
            warn_inaccurate(update.solution, i, k, self.local, self.algorithm)
        state.clients[i] = update.client
        state.updates[i] = state.updates.get(i, 0) + 1
        state.meet(i, update.solution.met)
        error = float(update.solution.error)
        if not error <= state.prox_error and not math.isnan(error):
            state.prox_error = error
        state.skipped_in_a_row = 0
        self._count_up(update)

    def skip(self, task: ClientTask, update: ClientUpdate) -> None:
        """Skip an upload: the client's state, and what the server counts for it, stay as they were."""
        self.state.skipped += 1
        self.state.skipped_in_a_row += 1
        self._count_up(update)
        if self.state.skipped_in_a_row >= PATIENCE:
            raise DivergedError(
                f"{PATIENCE} updates in a row held a NaN or an infinity and were skipped, the last of them client "
                f"{task.client}'s in round {task.round}; {shorter(self.local, self.algorithm)}.",
                task.client,
                task.round,
            )

    def count_down(self, message: Tree, clients: int) -> None:
        """Count the bytes of a message that was broadcast to so many clients."""
        self.state.bytes_down += clients * wire_bytes(message, self.dtype)

    def _count_up(self, update: ClientUpdate) -> None:
        self._upload_bytes = self._upload_bytes or upload_bytes(
            self.algorithm, update.upload, self.dtype
        )  # the same for all
        self.state.bytes_up += self._upload_bytes
        self.state.local_steps += int(update.solution.steps)

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

    def load_clients(self, segments: Iterable[encoding.Arrays]) -> None:
        """Load the clients' states."""
        encoding.fill(self.state.clients, self.algorithm.client(self.x0, self.message()), segments)
