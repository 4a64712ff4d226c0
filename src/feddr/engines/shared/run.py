"""A run in progress: its state, one round of it, and its evaluation, for all compiled engines."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm
from feddr.checkpoint import encoding
from feddr.engines.shared import diagnosis
from feddr.engines.shared.aggregation import WeightedUpload, finite, shard_sums, summed, upload_bytes
from feddr.engines.shared.client_store import ClientStore
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.errors import inaccurate, warn_inaccurate
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.executor import ClientExecutor, ClientTask, ClientUpdate
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.pieces import Layout
from feddr.engines.shared.privacy import record_level
from feddr.engines.shared.server import ServerRun
from feddr.engines.shared.shards import ROOT, TreeNode, Vector, fold, shard_of
from feddr.engines.shared.state import RunState
from feddr.local import LocalSolver
from feddr.problem import Problem
from feddr.xla.thread_pool import ThreadPool

Done = list[tuple[ClientTask, ClientUpdate]]
"""Tasks, and what came of them."""


class ClientSums(NamedTuple):
    """What came of the tasks of a round: sums of uploads over shards, who is in them, and who was left out."""

    sums: list[tuple[TreeNode, Vector]]
    accepted: Done
    skipped: Done


class Run(ServerRun):
    """Executes clients and server, and keeps the state of both.

    Parameters
    ----------
    options
        What every engine may be asked. ``options.sampling`` has the probabilities that solvers need.
    pool
        The threads that compute clients.
    layout
        How passes go through the samples, where these are a part of the problem's.
    """

    problem: Problem

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        local: LocalSolver,
        options: EngineOptions,
        pool: ThreadPool,
        layout: Layout | None = None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(
                f"The simulator compiles a loss written in JAX, got a {type(problem).__name__}; use feddr.reference "
                "or feddr.simulate_cluster, or write the loss in JAX."
            )
        self.evaluator = Evaluator(problem, options.dtype, pool, layout)
        state = RunState(
            algorithm.server(tree.cast(tree.cast(problem.init, options.dtype), np.float64)),
            ClientStore(options.client_memory),
        )
        super().__init__(problem, algorithm, local, options, self.evaluator, state)
        samples = self.evaluator.samples if problem.data.on_demand is None else None
        privacy = record_level(algorithm)
        self.clients = CompiledClients(problem, samples, local, self.dtype, algorithm.needs_gradient, privacy=privacy)
        probabilities = options.sampling.probabilities(problem.data.num_clients)
        self.executor = ClientExecutor(self.roles, self.clients, self.state, self.x0, probabilities, options.seed, pool)
        self._upload_bytes = 0

    def round(self, k: int, tasks: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> set[int]:
        """Let clients compute side by side, and then the server; return the clients that were skipped."""
        outcome = self.compute(k, tasks, [ROOT], upcoming)
        for _, total in outcome.sums:
            self.aggregate(summed(total, outcome.accepted[0][1].upload), k, last_good_round=k - 1)
        for task, update in outcome.accepted:
            self.commit(task.client, update, k)
        for task, update in outcome.skipped:
            self.skip(task, update)
        return {task.client for task, _ in outcome.skipped}

    def compute(
        self,
        k: int,
        tasks: Sequence[ClientTask],
        nodes: Sequence[TreeNode],
        upcoming: Callable[[], Iterable[int]] = tuple,
    ) -> ClientSums:
        """Let clients compute side by side, and add up their uploads for each of some nodes; no state changes."""
        tasks = sorted(tasks, key=lambda task: task.client)
        accepted: Done = []
        skipped: Done = []

        def added() -> list[tuple[TreeNode, Vector]]:
            return list(fold(nodes, shard_sums(self.weighted(task.client, update) for task, update in accepted)))

        accepted = list(zip(tasks, self.executor.execute(tasks, upcoming), strict=True)) if tasks else []
        sums = added()
        if not finite([total for _, total in sums]):
            everybody, accepted = accepted, []
            for task, update in everybody:
                good = self.check_upload(task, update, last_good_round=k - 1)
                (accepted if good else skipped).append((task, update))
            sums = added()
        return ClientSums(sums, accepted, skipped)

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
        self._count_up(update)
        self.leave_out(task.client, task.round)

    def _count_up(self, update: ClientUpdate) -> None:
        self.state.bytes_up += self.upload_bytes(update)
        self.state.local_steps += int(update.solution.steps)

    def upload_bytes(self, update: ClientUpdate) -> int:
        """Return the bytes of an upload, which are the same for all."""
        self._upload_bytes = self._upload_bytes or upload_bytes(self.algorithm, update.upload, self.dtype)
        return self._upload_bytes

    def load_clients(self, segments: Iterable[encoding.Arrays]) -> None:
        """Load the clients' states."""
        encoding.fill(self.state.clients, self.algorithm.client(self.x0, self.message().content), segments)
