"""``simulate_async``: asynchronous algorithms on a virtual clock, a discrete-event simulation.

Clients work at their own pace, and the server aggregates uploads as they arrive. ``clock.schedule`` says who works
when, ``clock.event_loop`` what becomes of it.
"""

from pathlib import Path
from typing import Literal

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Asynchronous, check
from feddr.checkpoint import manager
from feddr.checkpoint.manager import CheckpointManager
from feddr.delays import Delay, Fixed
from feddr.engines.clock.event_loop import EventLoop
from feddr.engines.result import Result
from feddr.engines.shared.client_store import BUDGET
from feddr.engines.shared.compiled_clients import mean_work
from feddr.engines.shared.options import OnBadClient, check_on_bad_client, check_settings
from feddr.engines.shared.run import Run
from feddr.engines.shared.state import Callback
from feddr.local import LocalSolver
from feddr.problem import Problem
from feddr.sampling import Full, Uniform
from feddr.theory.advice import resolve, review
from feddr.validation import scalars
from feddr.xla import batching
from feddr.xla.thread_pool import ThreadPool


def simulate_async(
    problem: Problem,
    algorithm: Asynchronous,
    *,
    local: LocalSolver,
    updates: int,
    delays: Delay | None = None,
    concurrency: int | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 100,
    personal: bool = False,
    threads: int | None = None,
    client_memory: int = BUDGET,
    callback: Callback | None = None,
    max_events: int = 100_000,
    eager: bool = False,
    eta: float | Literal["auto"] | None = None,
    alpha: float | Literal["auto"] | None = None,
    on_bad_client: OnBadClient = "stop",
    checkpoint: str | Path | None = None,
    checkpoint_every: int | str = manager.EVERY,
    resume: bool = False,
) -> Result:
    """Run an asynchronous algorithm in virtual time, for a number of updates of the server.

    A client reads the newest xbar, works for a time that the delays say, and its upload arrives; the server aggregates
    when its buffer is full, and the client, or another one where not all work at a time, begins anew. Uploads of one
    moment arrive in an order that the seed draws, and clients begin when all of them have arrived.

    Parameters
    ----------
    problem
        What to minimise.
    algorithm
        ``AsyncFedDR``, ``FedAsync`` or ``FedBuff``; "auto" for eta or alpha as in ``simulate``, for the given tau.
    local
        How clients solve their subproblems.
    updates
        Updates of the server; ``round`` in the history counts them.
    delays
        How long clients take and when they are there, such as ``delays.UniformSpeed(1.0, 2.0)``; one second by default.
    concurrency
        Clients that work at a time, all by default; others wait, and one of those that are there is drawn at random
        when there is room. A client that never finishes keeps its place.
    seed
        Draws the delays, who works, ties, and the batches. The randomness of a client's k-th update depends on
        (seed, client, k) alone, where lost updates do not count.
    precision, personal, threads, client_memory
        As in ``simulate``.
    evaluate_every
        Updates between rows of the history. Evaluating changes nothing else.
    callback
        Called after each update; returning True ends the run there.
    max_events
        How many events ``result.events`` may hold; what comes later is not recorded.
    eager
        Compute each job when it begins instead. The result is the same.
    eta, alpha
        Instead of those of the algorithm: numbers or "auto".
    on_bad_client, checkpoint, checkpoint_every, resume
        As in ``simulate``, with updates for rounds. An update that is skipped counts as lost.

    Returns
    -------
    Result
        With ``events``, the largest staleness ``tau`` and the longest run ``T`` of updates without some client.

    Raises
    ------
    ValueError
        Where the algorithm is not asynchronous or cannot handle g, the delays do not fit the clients, or a checkpoint
        belongs to another run.
    DivergedError
        Where a client sends a NaN or an infinity, or xbar or f is not finite.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> clients = [{"x": np.eye(2), "y": np.array([1.0, 2.0])}, {"x": np.ones((1, 2)), "y": np.array([3.0])}]
    >>> data = feddr.FederatedData.from_clients(clients)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> result = feddr.simulate_async(
    ...     problem,
    ...     feddr.AsyncFedDR(eta=1.0, alpha=1.2),
    ...     local=feddr.local.SGD(lr=0.1, batch_size=None),
    ...     delays=feddr.delays.Fixed([1.0, 2.5]),
    ...     updates=6,
    ... )
    >>> result.history.last.time, result.tau
    (5.0, 2)
    """
    n = problem.data.num_clients
    updates, evaluate_every, seed = check_settings(updates, evaluate_every, seed, "updates")
    max_events = scalars.whole("max_events", max_events, 0)
    if not isinstance(algorithm, Asynchronous):
        raise ValueError(
            f"simulate_async runs AsyncFedDR, FedAsync and FedBuff, got {type(algorithm).__name__}; use simulate."
        )
    check_on_bad_client(on_bad_client, algorithm)
    check(algorithm, problem, Full())
    places = n if concurrency is None else scalars.whole("concurrency", concurrency)
    if not 1 <= places <= n:
        raise ValueError(f"concurrency must be from 1 to the number of clients, {n}, got {places}.")
    steps = (eta, alpha, getattr(algorithm, "eta", None), getattr(algorithm, "alpha", None))
    if local.certified and "auto" in steps and getattr(algorithm, "tau", None) is None:
        raise ValueError(
            f'"auto" needs to know how stale updates may be, got tau=None; with {places} clients at a time they are '
            f"about {places - 1} versions old, and older where speeds differ."
        )
    delays = Fixed(1.0) if delays is None else delays
    delays.check(n)
    batching.prepare(mean_work(problem, local))
    algorithm, words, *_ = chosen = resolve(algorithm, problem, Full(), local, eta=eta, alpha=alpha)
    dtype = precisions.of(precision)
    same = {
        "engine": "clock",
        "delays": delays,
        "concurrency": places,
        "evaluate_every": evaluate_every,
        "max_events": max_events,
    }
    with ThreadPool(threads) as crew:
        run = Run(problem, algorithm, local, Uniform(1), seed, dtype, personal, crew, client_memory, on_bad_client)
        clock = EventLoop(run, algorithm, delays, places, updates, evaluate_every, callback, max_events, eager)
        with CheckpointManager(checkpoint, checkpoint_every, resume, run, {"clock": clock}, same) as keeper:
            try:
                clock.play(keeper)
            finally:
                clock.close()
    review(chosen, run.state.met)
    settings = run.settings(words) | {
        "engine": "clock",
        "delays": repr(delays),
        "concurrency": places,
        "updates": clock.version,
        "evaluate_every": evaluate_every,
        "tau": clock.tau,
        "T": clock.longest_absence(),
    }
    params = tree.cast(run.state.server.xbar, run.dtype)
    return Result(
        params,
        run.history,
        run.state,
        problem,
        algorithm,
        settings,
        local,
        events=clock.schedule.record.events,
        tau=clock.tau,
        T=clock.longest_absence(),
    )
