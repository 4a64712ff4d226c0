"""A run in progress: its state, one round of it, and its evaluation, for all compiled engines."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm, Roles, Uploads
from feddr.checkpoint import encoding
from feddr.engines.shared import diagnosis
from feddr.engines.shared.aggregation import WeightedUpload, finite, weighted_sum, wire_bytes
from feddr.engines.shared.client_store import BUDGET, ClientStore
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.errors import DivergedError, inaccurate, shorter, warn_inaccurate
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.executor import ClientExecutor, ClientTask, ClientUpdate
from feddr.engines.shared.options import OnBadClient
from feddr.engines.shared.state import Callback, Progress, RunState
from feddr.history import History, Row
from feddr.local import Estimate, LocalSolver
from feddr.problem import Problem
from feddr.prox.compiled import compiled_prox
from feddr.sampling import Sampling
from feddr.tree import Tree
from feddr.xla.thread_pool import ThreadPool

PATIENCE = 1000
"""Updates in a row that may be skipped; after so many, nobody sends anything that could be used."""


class Run:
    """The state of a run, and how clients and metrics are computed.

    Parameters
    ----------
    sampling
        Who takes part in a round, for solvers that want to know how likely a client is.
    crew
        The threads that compute clients.
    client_memory
        Bytes of client state kept in memory.
    on_bad_client
        Whether a client that sends a NaN or an infinity stops the run or is left out.
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
        crew: ThreadPool,
        client_memory: int = BUDGET,
        on_bad_client: OnBadClient = "stop",
    ) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(
                f"The simulator compiles a loss written in JAX, got a {type(problem).__name__}; use feddr.reference, "
                "or write the loss in JAX."
            )
        self.begin = time.perf_counter()
        self.problem, self.algorithm, self.local, self.seed, self.dtype = problem, algorithm, local, seed, dtype
        self.personal, self.on_bad_client = personal, on_bad_client
        self.evaluator = Evaluator(problem, dtype, crew)
        samples = self.evaluator.samples if problem.data.on_demand is None else None
        self.clients = CompiledClients(problem, samples, local, dtype, algorithm.needs_gradient)
        self.roles = Roles(algorithm, problem.client_weights)
        self.prox = compiled_prox(problem.regulariser)
        self.x0 = tree.cast(problem.init, dtype)
        self.state = RunState(algorithm.server(tree.cast(self.x0, np.float64)), ClientStore(client_memory))
        probabilities = sampling.probabilities(problem.data.num_clients)
        self.parts = ClientExecutor(self.roles, self.clients, self.state, self.x0, probabilities, seed, crew)
        self.history = History()
        self.skipped_in_a_row = 0
        self.accurate = True
        self._upload_bytes = 0

    def message(self) -> Tree:
        """Return what the server sends now."""
        return tree.cast(self.algorithm.broadcast(self.state.server), self.dtype)

    def round(self, k: int, jobs: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> set[int]:
        """Let clients compute side by side, and then the server; where that fails, nothing has changed.

        ``upcoming`` returns the clients of the next round, as far as they are known. Returns the clients that were
        skipped.
        """
        taken: list[tuple[ClientTask, ClientUpdate]] = []
        left_out: list[tuple[ClientTask, ClientUpdate]] = []

        def arriving() -> Iterator[WeightedUpload]:
            for job, answer in zip(jobs, self.parts.answers(jobs, upcoming), strict=True):
                taken.append((job, answer))
                yield self.weigh(job.client, answer)

        gathered = weighted_sum(arriving()) if jobs else None
        if gathered is not None and not finite(gathered.sum):
            found, taken = taken, []
            for job, answer in found:
                (taken if self.usable(job, answer, good=k - 1) else left_out).append((job, answer))
            gathered = weighted_sum(self.weigh(job.client, answer) for job, answer in taken) if taken else None
        if gathered is not None:
            self.aggregate(gathered, k, good=k - 1)
        for job, answer in taken:
            self.commit(job.client, answer, k)
        for job, answer in left_out:
            self.skip(job, answer)
        return {job.client for job, _ in left_out}

    def usable(self, job: ClientTask, answer: ClientUpdate, good: int) -> bool:
        """Return whether what a client has sent is finite; where it is not, the run may have been asked to stop.

        ``good`` is the round whose state is still there.
        """
        if finite(answer.upload):
            return True
        if self.on_bad_client == "stop":
            raise diagnosis.upload(self, job, good)
        return False

    def weigh(self, i: int, answer: ClientUpdate, factor: float = 1.0) -> WeightedUpload:
        """Return what client i has sent as the server takes it in."""
        weight, share = float(self.roles.mean_weights[i]), float(self.roles.weights[i])
        return WeightedUpload(weight, share, i not in self.state.updates, answer.upload, factor)

    def commit(self, i: int, answer: ClientUpdate, k: int) -> None:
        """Count what client i has sent in round k; warn of the first prox that is not as accurate as it should be."""
        state = self.state
        if self.accurate and inaccurate(answer.solution):
            self.accurate = False
            warn_inaccurate(answer.solution, i, k, self.local, self.algorithm)
        state.clients[i] = answer.client
        state.updates[i] = state.updates.get(i, 0) + 1
        state.meet(i, answer.solution.met)
        error = float(answer.solution.error)
        if not error <= state.prox_error and not math.isnan(error):
            state.prox_error = error
        self.skipped_in_a_row = 0
        self._sent(answer)

    def skip(self, job: ClientTask, answer: ClientUpdate) -> None:
        """Leave out what a client has sent: its state, and what the server counts for it, stay as they were."""
        self.state.skipped += 1
        self.skipped_in_a_row += 1
        self._sent(answer)
        if self.skipped_in_a_row >= PATIENCE:
            raise DivergedError(
                f"{PATIENCE} updates in a row held a NaN or an infinity and were skipped, the last of them client "
                f"{job.client}'s in round {job.round}; {shorter(self.local, self.algorithm)}.",
                job.client,
                job.round,
            )

    def _sent(self, answer: ClientUpdate) -> None:
        self._upload_bytes = self._upload_bytes or wire_bytes(answer.upload, self.dtype)  # the same for all
        self.state.bytes_up += self._upload_bytes
        self.state.local_steps += int(answer.solution.steps)

    def aggregate(self, uploads: Uploads, k: int, good: int | None = None) -> None:
        """Let the server compute in round k."""
        server = self.roles.server.aggregate(self.state.server, uploads, self.prox)
        if not finite(server.xbar):
            raise DivergedError(
                f"xbar is not finite after round {k}, though all uploads were. They are too large to add up, or "
                f"the prox of {self.problem.regulariser} is wrong: {shorter(self.local, self.algorithm)}.",
                None,
                k,
                good=good,
            )
        self.state.server = server

    def evaluate(self, k: int, **columns: float) -> Row:
        """Add a row to the history."""
        state = self.state
        own = ((i, c.x) for i, c in sorted(state.clients.items()) if hasattr(c, "x"))
        metrics = self.evaluator.at(state.server.xbar)
        for name in ("f", "gradient_mapping"):
            if not math.isfinite(metrics[name]):
                raise diagnosis.metric(self, k, name, metrics[name])
        row = Row(
            round=k,
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            local_steps=state.local_steps,
            prox_error=state.prox_error,
            skipped=state.skipped,
            **metrics,
            **(self.evaluator.personal(own) if self.personal else {}),
            wall_time=time.perf_counter() - self.begin,
            **columns,
        )
        state.prox_error = math.nan
        self.history.rows.append(row)
        diagnosis.growth(self)
        return row

    def tell(self, callbacks: Sequence[Callback], k: int, rounds: int, row: Row | None, asked: int = 0) -> bool:
        """Tell the callbacks, and return whether one of them wants to stop."""
        progress = Progress(k, rounds, self.state, row, asked)
        answers = [callback(progress) for callback in callbacks]  # each is told, also when another wants to stop
        return any(answers)

    def settings(self, step_sizes: str) -> dict[str, Any]:
        """Return what every engine was asked to do, and how the step sizes were chosen if they were."""
        weights = self.problem.weights
        return {
            "algorithm": repr(self.algorithm),
            **({"step_sizes": step_sizes} if step_sizes else {}),
            "local": repr(self.local),
            "g": repr(self.problem.regulariser),
            "weights": weights if isinstance(weights, str) else self.problem.client_weights.tolist(),
            "clients": self.problem.data.num_clients,
            "evaluated_on": len(self.problem.data.panel),
            "seed": self.seed,
            "precision": str(self.dtype),
        }

    def state_dict(self) -> encoding.Arrays:
        """Return everything that the rest of the run depends on, but for the clients' states."""
        state = self.state
        counts = [state.bytes_up, state.bytes_down, state.local_steps, state.skipped, self.skipped_in_a_row]
        return {
            **encoding.flatten("server", state.server),
            **encoding.add_prefix("history", encoding.history(self.history)),
            **encoding.add_prefix("updates", encoding.pairs(state.updates, np.int64)),
            **encoding.add_prefix("met", encoding.pairs(state.met, np.float64)),
            "counts": np.array(counts, np.int64),
            "prox_error": np.array(state.prox_error, np.float64),
            "seconds": np.array(time.perf_counter() - self.begin),
        }

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Become what ``state_dict`` was called on."""
        state = self.state
        state.server = encoding.unflatten("server", state.server, arrays)
        self.history.rows[:] = encoding.rows(encoding.strip_prefix("history", arrays))
        state.updates.update(encoding.mapping(encoding.strip_prefix("updates", arrays)))
        met = encoding.strip_prefix("met", arrays)  # not there in checkpoints of version 0.1
        state.met.update({i: Estimate(*found) for i, found in (encoding.mapping(met) if met else {}).items()})
        counts = arrays["counts"].tolist()
        state.bytes_up, state.bytes_down, state.local_steps, state.skipped, self.skipped_in_a_row = counts
        state.prox_error = arrays["prox_error"].item()
        self.begin = time.perf_counter() - arrays["seconds"].item()

    def load_clients(self, segments: Iterable[encoding.Arrays]) -> None:
        """Give the clients back their states."""
        encoding.fill(self.state.clients, self.algorithm.client(self.x0, self.message()), segments)
