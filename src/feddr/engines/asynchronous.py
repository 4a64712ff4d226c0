"""``simulate_async``: asynchronous algorithms on a virtual clock, a discrete-event simulation.

Clients work at their own pace, and the server aggregates uploads as they arrive. ``clock.schedule`` says who works
when, ``clock.event_loop`` what becomes of it.
"""

from collections.abc import Sequence
from pathlib import Path

from feddr import tree
from feddr.algorithms import Asynchronous
from feddr.checkpoint.identity import identity
from feddr.checkpoint.manager import Checkpoint, CheckpointManager
from feddr.early_stopping import StopWhen
from feddr.engines.clock.event_loop import EventLoop
from feddr.engines.clock.settings import Clock
from feddr.engines.result import Result, describe
from feddr.engines.shared.client_store import BUDGET
from feddr.engines.shared.compiled_clients import mean_work
from feddr.engines.shared.options import EngineOptions, OnBadClient
from feddr.engines.shared.progress import ShowProgress, shown, speaks
from feddr.engines.shared.run import Run
from feddr.engines.shared.state import Callback
from feddr.local import LocalSolver
from feddr.metrics.metric import Metric, MetricFunction
from feddr.problem import Problem
from feddr.sampling import Full, Uniform
from feddr.theory.advice import resolve, review
from feddr.tree import Tree
from feddr.validation import scalars
from feddr.xla import batching
from feddr.xla.thread_pool import ThreadPool


def simulate_async(
    problem: Problem,
    algorithm: Asynchronous,
    *,
    local: LocalSolver,
    updates: int,
    clock: Clock | None = None,
    concurrency: int | None = None,
    init: Tree | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 100,
    personal: bool = False,
    metrics: Sequence[str | Metric | MetricFunction] = (),
    per_client: bool = False,
    stop_when: StopWhen | str | None = None,
    threads: int | None = None,
    client_memory: int = BUDGET,
    callback: Callback | None = None,
    eager: bool = False,
    on_bad_client: OnBadClient = "stop",
    checkpoint: Checkpoint | str | Path | None = None,
    progress: ShowProgress = None,
) -> Result:
    """Run an asynchronous algorithm in virtual time, for a number of updates of the server.

    A client reads the newest xbar, works for a time that the delays say, and its upload arrives. The server aggregates
    when its buffer is full, and the client, or another one where not all work at a time, begins its next update.
    Uploads of one moment arrive in an order that the seed draws, and clients begin when all of them have arrived.

    Parameters
    ----------
    problem
        What to minimise.
    algorithm
        ``AsyncFedDR``, ``FedAsync``, ``FedBuff`` or ``CA2FL``; "auto" for eta or alpha as in ``simulate``, for the
        given tau.
    local
        How clients solve their subproblems.
    updates
        Updates of the server; ``round`` in the history counts them.
    clock
        How long clients take and when they are there, such as ``Clock(delays.UniformSpeed(1.0, 2.0))``; one second for
        every update by default. There are no rounds that could have a deadline.
    concurrency
        Clients that work at a time, all by default; others wait, and one of those that are there is drawn at random
        when there is room. A client that never finishes keeps its place.
    init
        As in ``simulate``.
    seed
        Draws the delays, who works, ties, and the batches. The randomness of a client's k-th update depends on
        (seed, client, k) alone, where lost updates do not count.
    precision, personal, metrics, per_client, stop_when, threads, client_memory
        As in ``simulate``.
    evaluate_every
        Updates between rows of the history. Evaluating changes nothing else.
    callback
        Called after each update; returning True ends the run there.
    eager
        Compute each job when it begins instead. The result is the same.
    on_bad_client, checkpoint, progress
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
    ...     clock=feddr.Clock(feddr.delays.Fixed([1.0, 2.5])),
    ...     updates=6,
    ... )
    >>> result.history.last.time, result.tau
    (5.0, 2)
    """
    updates = scalars.whole("updates", updates, 0)
    options = EngineOptions(
        *(Uniform(1), seed, precision, evaluate_every, personal, client_memory, on_bad_client, speaks(progress)),
        *(metrics, per_client, stop_when),
    )
    if not isinstance(algorithm, Asynchronous):
        raise ValueError(
            "simulate_async runs AsyncFedDR, FedAsync, FedBuff and CA2FL, "
            f"got {type(algorithm).__name__}; use simulate."
        )
    options.check(algorithm, problem, local)
    if getattr(algorithm, "privacy", None) is not None:
        raise ValueError(
            f"Privacy is accounted in rounds, got {algorithm} in simulate_async; use simulate, or privacy=None."
        )
    problem = problem if init is None else problem.starting_at(init)
    n = problem.data.num_clients
    places = n if concurrency is None else scalars.whole("concurrency", concurrency)
    if not 1 <= places <= n:
        raise ValueError(f"concurrency must be from 1 to the number of clients, {n}, got {places}.")
    auto = "auto" in (getattr(algorithm, "eta", None), getattr(algorithm, "alpha", None))
    if local.certified and auto and getattr(algorithm, "tau", None) is None:
        raise ValueError(
            f'"auto" needs to know how stale updates may be, got tau=None; with {places} clients at a time they are '
            f"about {places - 1} versions old, and older where speeds differ."
        )
    clock, where = Clock.of(clock) or Clock(), Checkpoint.of(checkpoint)
    clock.check(algorithm, n)
    if clock.deadline is not None:
        raise ValueError(f"An asynchronous run has no rounds, got deadline={clock.deadline}; leave it out.")
    batching.prepare(mean_work(problem, local))
    algorithm, words, *_ = chosen = resolve(algorithm, problem, Full(), local)
    options.announce(chosen)
    engine = {"engine": "clock", "delays": clock.delays, "concurrency": places, "max_events": clock.max_events}
    with ThreadPool(threads) as pool, shown(progress, type(algorithm).__name__, updates) as bar:
        run, stopper = Run(problem, algorithm, local, options, pool), options.stopper()
        callbacks = [*bar, *([] if callback is None else [callback])]
        loop = EventLoop(run, algorithm, clock, places, updates, callbacks, eager, stopper)
        same = {} if where is None else identity(problem, algorithm, local, options, engine)
        with CheckpointManager(where, run, {"clock": loop}, same) as checkpoints:
            try:
                loop.play(checkpoints)
            finally:
                loop.close()
    review(chosen, run.state.met)
    tau, T = loop.tau, loop.longest_absence()
    settings = describe(problem, algorithm, local, options, words) | {
        "engine": "clock",
        "delays": repr(clock.delays),
        "concurrency": places,
        "updates": loop.version,
        "tau": tau,
        "T": T,
        **stopper.settings(type(algorithm).__name__, loop.version, updates),
    }
    params, events = tree.cast(run.state.server.xbar, run.dtype), loop.schedule.record.events
    return Result(params, run.history, run.state, problem, algorithm, settings, local, events=events, tau=tau, T=T)
