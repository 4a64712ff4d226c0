"""The simulator: rounds of Algorithm 1 and its peers on one machine, clients side by side on all cores."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, check
from feddr.certify import measurements_for
from feddr.checkpoint import encoding, manager
from feddr.checkpoint.manager import CheckpointManager
from feddr.delays import Delay
from feddr.engines.clock.round_clock import RoundClock, check_delays
from feddr.engines.result import Result
from feddr.engines.shared.aggregation import wire_bytes
from feddr.engines.shared.client_store import BUDGET
from feddr.engines.shared.compiled_clients import mean_work
from feddr.engines.shared.errors import DivergedError
from feddr.engines.shared.executor import ClientTask
from feddr.engines.shared.options import OnBadClient, check_on_bad_client, check_settings
from feddr.engines.shared.randomness import sampling_rng
from feddr.engines.shared.run import Run
from feddr.engines.shared.state import Callback
from feddr.local import LocalSolver
from feddr.problem import Problem
from feddr.sampling import Full, Sampling
from feddr.theory.advice import resolve, review
from feddr.validation import scalars
from feddr.xla import batching
from feddr.xla.thread_pool import ThreadPool


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
    on_bad_client: OnBadClient = "stop",
    checkpoint: str | Path | None = None,
    checkpoint_every: int | str = manager.EVERY,
    resume: bool = False,
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
        Where updates are lost, late or skipped, there is nothing to certify.
    delays
        How long clients take and when they are there; the history then has virtual time. A round lasts as long as its
        slowest client, and an update that is lost is left out.
    deadline
        Seconds after which a round ends without those who are late; their state stays as it was.
    max_events
        How many events ``result.events`` may hold, if there are delays.
    eta, alpha
        Instead of those of the algorithm: numbers or "auto".
    on_bad_client
        ``"skip"`` leaves out, and counts, updates that hold a NaN or an infinity, instead of stopping the run.
    checkpoint
        A folder in which the state is saved now and then, and at the end; None for none.
    checkpoint_every
        Rounds between two checkpoints, or seconds, as in ``"60s"``; the two newest are kept.
    resume
        Go on from the newest checkpoint, if there is one. The result is that of a run that was never cut off, bit for
        bit, but for ``wall_time``. The settings must be the same, but for ``rounds``, ``threads``, ``client_memory``
        and ``on_bad_client``.

    Returns
    -------
    Result
        With ``params``, ``history`` and the final ``state``.

    Raises
    ------
    ValueError
        Where the algorithm cannot handle g or the sampling scheme, or a checkpoint belongs to another run.
    DivergedError
        Where a client sends a NaN or an infinity, or xbar or f is not finite.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> result = feddr.simulate(
    ...     problem,
    ...     feddr.FedDR(eta=1.0, alpha=1.2),
    ...     local=feddr.local.SGD(lr=0.1, epochs=5),
    ...     sampling=feddr.sampling.Uniform(1),
    ...     rounds=2,
    ... )
    >>> result.history.last.F < result.history.rows[0].F
    True
    """
    sampling = Full() if sampling is None else sampling
    rounds, evaluate_every, seed = check_settings(rounds, evaluate_every, seed)
    max_events = scalars.whole("max_events", max_events, 0)
    check_on_bad_client(on_bad_client, algorithm)
    check(algorithm, problem, sampling)
    check_delays(algorithm, delays, deadline, problem.data.num_clients)
    batching.prepare(mean_work(problem, local))
    algorithm, words, *_ = chosen = resolve(algorithm, problem, sampling, local, eta=eta, alpha=alpha)
    watch = measurements_for(problem, algorithm, sampling) if certify else None
    callbacks = [call for call in (watch, callback) if call is not None]
    n, dtype = problem.data.num_clients, precisions.of(precision)
    same = {
        "engine": "simulate",
        "sampling": sampling,
        "evaluate_every": evaluate_every,
        "certify": certify,
        "delays": delays,
        "deadline": deadline,
        "max_events": max_events,
    }
    with ThreadPool(threads) as crew:
        run = Run(problem, algorithm, local, sampling, seed, dtype, personal, crew, client_memory, on_bad_client)
        clock = None if delays is None else RoundClock(run, delays, deadline, seed, max_events)
        parts: dict[str, encoding.Stateful] = {} if clock is None else {"clock": clock}
        if watch is not None:
            watch.attach(run.state)
            parts["watch"] = watch
        with CheckpointManager(checkpoint, checkpoint_every, resume, run, parts, same) as keeper:

            def report(k: int, asked: int) -> bool:
                row = None
                if k % evaluate_every == 0 or k == rounds:
                    row = run.evaluate(k, **(clock.columns() if clock else {}))
                stop = run.tell(callbacks, k, rounds, row, asked)
                keeper.after(k, last=stop or k == rounds)
                return stop

            @functools.lru_cache(maxsize=2)
            def active(k: int) -> NDArray[np.int64]:
                return sampling.draw(n, sampling_rng(seed, k))

            def next_active(k: int) -> list[int]:
                return active(k + 1).tolist() if k < rounds else []

            resumed, stop = keeper.begin(rounds), False
            if resumed is None:
                asked = n if algorithm.full_start else 0
                if asked:
                    _round(run, clock, 0, np.arange(n))
                stop = report(0, asked)
            k = resumed or 0
            while k < rounds and not stop:
                k += 1
                drawn = active(k)
                _round(run, clock, k, drawn, functools.partial(next_active, k))
                stop = report(k, len(drawn))
            if run.history.last.round < k:
                run.evaluate(k, **(clock.columns() if clock else {}))
    review(chosen, run.state.met)
    settings = run.settings(words) | {"sampling": repr(sampling), "rounds": k, "evaluate_every": evaluate_every}
    if delays is not None:
        settings |= {"delays": repr(delays), "deadline": deadline}
    happened = clock.close() if clock else ()
    params = tree.cast(run.state.server.xbar, run.dtype)
    return Result(params, run.history, run.state, problem, algorithm, settings, local, sampling, watch, happened)


def _round(
    run: Run,
    clock: RoundClock | None,
    k: int,
    active: NDArray[np.int64],
    upcoming: Callable[[], Iterable[int]] = tuple,
) -> None:
    """Let the active clients compute, then the server."""
    message = run.message()
    in_time = active if clock is None else clock.round(k, active)
    try:
        skipped = run.round(k, [ClientTask(k, int(i), message) for i in in_time], upcoming)
    except DivergedError:
        if clock is not None:
            clock.undo()
        raise
    if clock is not None and skipped:
        clock.skipped(skipped)
    run.state.bytes_down += len(active) * wire_bytes(message, run.dtype)
