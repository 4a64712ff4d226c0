"""A run under way: what the compiled engines share, whatever their clock."""

import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm
from feddr.engines import rounds as common
from feddr.engines.compiled import CompiledClients, Task
from feddr.engines.evaluate import Evaluator
from feddr.engines.rounds import Accepted, Callback, Progress, State
from feddr.engines.store import BUDGET, ClientStore
from feddr.history import History, Row
from feddr.local import LocalSolver, Solution
from feddr.problem import Problem
from feddr.sampling import Sampling
from feddr.tree import Tree


class Job(NamedTuple):
    """A client's part of a round: the round, the client, and what it was sent."""

    round: int
    client: int
    message: Tree


class Answer(NamedTuple):
    """What comes of a client's part: its next state, its upload, and how its subproblem was solved."""

    client: Any
    upload: Tree
    solution: Solution


class Pending(NamedTuple):
    """An answer under way, in a call that may have others beside it."""

    call: Future[list[Answer]]
    position: int

    def result(self) -> Answer:
        """Wait for the answer."""
        return self.call.result()[self.position]

    def cancel(self) -> None:
        """Give the call up if it has not begun."""
        self.call.cancel()


class Run:
    """The state of a run, and how clients and metrics are computed.

    Parameters
    ----------
    sampling
        Who takes part in a round, for solvers that want to know how likely a client is.
    pool
        Where clients are computed.
    client_memory
        Bytes of client state kept in memory.
    """

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        local: LocalSolver,
        sampling: Sampling,
        seed: int,
        dtype: np.dtype[Any],
        personal: bool,
        pool: ThreadPoolExecutor,
        client_memory: int = BUDGET,
    ) -> None:
        self.begin = time.perf_counter()
        self.problem, self.algorithm, self.local, self.seed, self.dtype = problem, algorithm, local, seed, dtype
        self.personal, self.pool = personal, pool
        self.evaluator = Evaluator(problem, dtype)
        samples = self.evaluator.samples if problem.data.on_demand is None else None
        self.clients = CompiledClients(problem, samples, local, dtype, algorithm.mean_gradient)
        self.probabilities = sampling.probabilities(problem.data.num_clients)
        self.prox = common.server_prox(problem.regulariser)
        self.x0 = tree.cast(problem.init, dtype)
        self.state = State(algorithm.server(tree.cast(self.x0, np.float64)), ClientStore(client_memory))
        self.history = History()

    def message(self) -> Tree:
        """Return what the server sends now."""
        return tree.cast(self.algorithm.broadcast(self.state.server), self.dtype)

    def submit(self, jobs: Sequence[Job]) -> list[Pending]:
        """Let clients, each of them once, do their parts in the background, the longest first."""
        position = {job.client: j for j, job in enumerate(jobs)}
        pending: dict[int, Pending] = {}
        for clients in self.clients.calls([job.client for job in jobs]):
            call = self.pool.submit(self._compute, [jobs[position[i]] for i in clients])
            pending |= {i: Pending(call, j) for j, i in enumerate(clients)}
        return [pending[job.client] for job in jobs]

    def _compute(self, jobs: Sequence[Job]) -> list[Answer]:
        """Do the parts of clients that share a call, without touching the state."""
        state, rules = self.state, self.algorithm
        before, tasks = [], []
        for k, i, message in jobs:
            c = state.clients[i] if i in state.clients else rules.client(self.x0, message)
            rng = common.client_rng(self.seed, i, state.updates.get(i, 0))
            before.append(c)
            tasks.append(Task(i, rules.subproblem(c, message), rng, k, self.probabilities[i]))
        done = zip(jobs, before, tasks, self.clients.solve(tasks), strict=True)
        return [Answer(*rules.finish(c, job.message, task.sub, solution), solution) for job, c, task, solution in done]

    def accept(self, k: int, i: int, answer: Answer, factor: float = 1.0) -> Accepted:
        """Take in what client i has sent."""
        state = self.state
        common.check_finite(answer.upload, i, k, self.local, self.algorithm)
        accepted = Accepted(float(self.problem.client_weights[i]), i not in state.updates, answer.upload, factor)
        state.clients[i] = answer.client
        state.updates[i] = state.updates.get(i, 0) + 1
        state.bytes_up += common.wire_bytes(answer.upload, self.dtype)
        state.local_steps += int(answer.solution.steps)
        state.prox_error = float(np.fmax(state.prox_error, answer.solution.error))
        return accepted

    def aggregate(self, uploads: Iterable[Accepted]) -> None:
        """Let the server compute."""
        self.state.server = self.algorithm.aggregate(self.state.server, common.gather(uploads), self.prox)

    def evaluate(self, k: int, **columns: float) -> Row:
        """Add a row to the history."""
        state = self.state
        own = ((i, c.x) for i, c in sorted(state.clients.items()) if hasattr(c, "x"))
        row = Row(
            round=k,
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            local_steps=state.local_steps,
            prox_error=state.prox_error,
            **self.evaluator.at(state.server.xbar),
            **(self.evaluator.personal(own) if self.personal else {}),
            wall_time=time.perf_counter() - self.begin,
            **columns,
        )
        state.prox_error = math.nan
        self.history.rows.append(row)
        return row

    def tell(self, callbacks: Sequence[Callback], k: int, rounds: int, row: Row | None) -> bool:
        """Tell the callbacks, and return whether one of them wants to stop."""
        progress = Progress(k, rounds, self.state, row)
        answers = [callback(progress) for callback in callbacks]  # each is told, also when another wants to stop
        return any(answers)

    def settings(self) -> dict[str, Any]:
        """Return what every engine was asked to do."""
        weights = self.problem.weights
        return {
            "algorithm": repr(self.algorithm),
            "local": repr(self.local),
            "g": repr(self.problem.regulariser),
            "weights": weights if isinstance(weights, str) else self.problem.client_weights.tolist(),
            "clients": self.problem.data.num_clients,
            "evaluated_on": len(self.problem.data.panel),
            "seed": self.seed,
            "precision": str(self.dtype),
        }
