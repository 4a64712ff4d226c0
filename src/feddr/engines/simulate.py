"""The simulator: rounds of Algorithm 1 and its peers on one machine, clients side by side on all cores."""

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr import cache, tree
from feddr import precision as precisions
from feddr.algorithms import Algorithm, check
from feddr.engines import rounds as common
from feddr.engines.compiled import CompiledClients
from feddr.engines.evaluate import Evaluator
from feddr.engines.result import Result
from feddr.engines.rounds import Callback, Progress, State
from feddr.history import History, Row
from feddr.local import LocalSolver, Solution
from feddr.problem import Problem
from feddr.sampling import Full, Sampling
from feddr.tree import Tree


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    *,
    local: LocalSolver,
    rounds: int,
    sampling: Sampling | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 10,
    personal: bool = False,
    threads: int | None = None,
    callback: Callback | None = None,
) -> Result:
    """Run an algorithm for a number of rounds.

    Parameters
    ----------
    problem
        What to minimise.
    algorithm
        Such as ``FedDR(eta=10.0, alpha=1.5)``.
    local
        How clients solve their subproblems, such as ``local.SGD(lr=0.01, epochs=20, batch_size=10)``.
    rounds
        Number of rounds.
    sampling
        Who takes part in a round; everybody by default.
    seed
        Draws the active clients and the batches. The randomness of a client's k-th update depends on
        (seed, client, k) alone.
    precision
        ``"float32"`` or ``"float64"`` for clients and evaluation; the server always sums in float64.
    evaluate_every
        Rounds between rows of the history; the start and the end always have one.
    personal
        Whether to evaluate the clients' own models, too.
    threads
        Clients computed at a time, all cores by default. It changes nothing but the speed.
    callback
        Called after each round; returning True ends the run there.

    Returns
    -------
    Result
        With ``params``, ``history`` and the final ``state``.

    Raises
    ------
    ValueError
        Where the algorithm cannot handle g or the sampling scheme.
    DivergedError
        Where a client sends a NaN or an infinity.
    """
    sampling = Full() if sampling is None else sampling
    common.check_settings(rounds, evaluate_every, seed)
    check(algorithm, problem, sampling)
    cache.enable()
    n = problem.data.num_clients
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        run = _Run(problem, algorithm, local, seed, precisions.of(precision), personal, pool)
        if algorithm.full_start:
            run.round(0, np.arange(n))
        stop = run.report(callback, 0, rounds, evaluate=True)
        k = 0
        while k < rounds and not stop:
            k += 1
            run.round(k, sampling.draw(n, common.sampling_rng(seed, k)))
            stop = run.report(callback, k, rounds, evaluate=k % evaluate_every == 0 or k == rounds)
        if run.history.last.round < k:
            run.evaluate(k)
    settings = {
        "algorithm": repr(algorithm),
        "local": repr(local),
        "sampling": repr(sampling),
        "g": repr(problem.regulariser),
        "weights": problem.weights if isinstance(problem.weights, str) else problem.client_weights.tolist(),
        "clients": n,
        "rounds": k,
        "seed": seed,
        "precision": precision,
        "evaluate_every": evaluate_every,
    }
    return Result(tree.cast(run.state.server.xbar, run.dtype), run.history, run.state, problem, algorithm, settings)


class _Run:
    """A run under way."""

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        local: LocalSolver,
        seed: int,
        dtype: np.dtype[Any],
        personal: bool,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.begin = time.perf_counter()
        self.problem, self.algorithm, self.local, self.seed, self.dtype = problem, algorithm, local, seed, dtype
        self.personal, self.pool = personal, pool
        self.evaluator = Evaluator(problem, dtype)
        self.solve = CompiledClients(problem, self.evaluator.samples, local, dtype, algorithm.mean_gradient)
        self.prox = common.server_prox(problem.regulariser)
        self.x0 = tree.cast(problem.init, dtype)
        self.state = State(server=algorithm.server(tree.cast(self.x0, np.float64)))
        self.history = History()

    def round(self, k: int, active: NDArray[np.int64]) -> None:
        """Let the active clients compute, then the server."""
        if len(active) == 0:
            return
        state, weights = self.state, self.problem.client_weights
        message = tree.cast(self.algorithm.broadcast(state.server), self.dtype)
        # The longest job first, so that no core waits for a long one that began last.
        longest_first = active[np.argsort(-self.problem.data.train.sizes[active], kind="stable")]
        jobs = {int(i): self.pool.submit(self.update, int(i), message) for i in longest_first}
        uploads = []
        for i in map(int, active):
            c, upload, solution = jobs[i].result()
            common.check_finite(upload, i, k, self.local, self.algorithm)
            uploads.append((float(weights[i]), i not in state.updates, upload))
            state.clients[i] = c
            state.updates[i] = state.updates.get(i, 0) + 1
            state.bytes_down += common.wire_bytes(message, self.dtype)
            state.bytes_up += common.wire_bytes(upload, self.dtype)
            state.local_steps += int(solution.steps)
            state.prox_error = float(np.fmax(state.prox_error, solution.error))
        state.server = self.algorithm.aggregate(state.server, common.gather(uploads), self.prox)

    def update(self, i: int, message: Tree) -> tuple[Any, Tree, Solution]:
        """Do client i's part of a round, without touching the state."""
        c = self.state.clients[i] if i in self.state.clients else self.algorithm.client(self.x0, message)
        sub = self.algorithm.subproblem(c, message)
        solution = self.solve(i, sub, common.client_rng(self.seed, i, self.state.updates.get(i, 0)))
        return *self.algorithm.finish(c, message, sub, solution), solution

    def evaluate(self, k: int) -> Row:
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
        )
        state.prox_error = math.nan
        self.history.rows.append(row)
        return row

    def report(self, callback: Callback | None, k: int, rounds: int, *, evaluate: bool) -> bool:
        """Evaluate if it is time, tell the callback, and return whether it wants to stop."""
        row = self.evaluate(k) if evaluate else None
        return bool(callback(Progress(k, rounds, self.state, row))) if callback is not None else False
