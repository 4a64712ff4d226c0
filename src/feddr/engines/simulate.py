"""The simulator: rounds of Algorithm 1 and its peers on one machine, clients side by side on all cores."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from feddr import cache, tree
from feddr import precision as precisions
from feddr.algorithms import Algorithm, check
from feddr.certify import watch_for
from feddr.delays import Delay
from feddr.engines import rounds as common
from feddr.engines.result import Result
from feddr.engines.rounds import Callback
from feddr.engines.run import Job, Run
from feddr.engines.store import BUDGET
from feddr.engines.timing import RoundClock, check_delays
from feddr.local import LocalSolver
from feddr.problem import Problem
from feddr.sampling import Full, Sampling
from feddr.theory.advice import resolve


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
    client_memory: int = BUDGET,
    callback: Callback | None = None,
    certify: bool = False,
    delays: Delay | None = None,
    deadline: float | None = None,
    max_events: int = 100_000,
    eta: float | Literal["auto"] | None = None,
    alpha: float | Literal["auto"] | None = None,
) -> Result:
    """Run an algorithm for a number of rounds.

    Parameters
    ----------
    problem
        What to minimise.
    algorithm
        Such as ``FedDR(eta=10.0, alpha=1.5)``; with "auto" for eta or alpha the recommended values, which are printed.
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
    client_memory
        Bytes of the clients' states that are kept in memory; the rest lies in a memory-mapped temporary file.
    callback
        Called after each round; returning True ends the run there.
    certify
        Whether to measure every round for ``feddr.certify.certificate``, at the price of a gradient of every client.
    delays
        How long clients take and when they are there; the history then has virtual time. A round lasts as long as its
        slowest client, and an update that is lost is left out.
    deadline
        Seconds after which a round ends without those who are late; their state stays as it was.
    max_events
        How many events ``result.events`` may hold, if there are delays.
    eta, alpha
        Instead of those of the algorithm: numbers or "auto".

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
    check_delays(algorithm, delays, deadline, problem.data.num_clients)
    algorithm = resolve(algorithm, problem, sampling, local, eta=eta, alpha=alpha)
    cache.enable()
    watch = watch_for(problem, algorithm, sampling) if certify else None
    callbacks = [call for call in (watch, callback) if call is not None]
    n = problem.data.num_clients
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        run = Run(problem, algorithm, local, sampling, seed, precisions.of(precision), personal, pool, client_memory)
        clock = None if delays is None else RoundClock(run, delays, deadline, seed, max_events)

        def report(k: int) -> bool:
            row = None
            if k % evaluate_every == 0 or k == rounds:
                row = run.evaluate(k, **(clock.columns() if clock else {}))
            return run.tell(callbacks, k, rounds, row)

        if algorithm.full_start:
            _round(run, clock, 0, np.arange(n))
        stop = report(0)
        k = 0
        while k < rounds and not stop:
            k += 1
            _round(run, clock, k, sampling.draw(n, common.sampling_rng(seed, k)))
            stop = report(k)
        if run.history.last.round < k:
            run.evaluate(k, **(clock.columns() if clock else {}))
    settings = run.settings() | {"sampling": repr(sampling), "rounds": k, "evaluate_every": evaluate_every}
    if delays is not None:
        settings |= {"delays": repr(delays), "deadline": deadline}
    happened = clock.close() if clock else ()
    params = tree.cast(run.state.server.xbar, run.dtype)
    return Result(params, run.history, run.state, problem, algorithm, settings, local, sampling, watch, happened)


def _round(run: Run, clock: RoundClock | None, k: int, active: NDArray[np.int64]) -> None:
    """Let the active clients compute, then the server."""
    message = run.message()
    run.state.bytes_down += len(active) * common.wire_bytes(message, run.dtype)
    if clock is not None:
        active = clock.round(k, active)
    if len(active) == 0:
        return
    jobs = run.submit([Job(k, int(i), message) for i in active])
    run.aggregate(run.accept(k, int(i), job.result()) for i, job in zip(active, jobs, strict=True))
