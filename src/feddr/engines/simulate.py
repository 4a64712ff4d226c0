"""The simulator: rounds of Algorithm 1 and its peers on one machine, clients side by side on all cores."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from feddr.algorithms import Algorithm
from feddr.checkpoint.manager import Checkpoint
from feddr.early_stopping import StopWhen
from feddr.engines.clock.settings import Clock
from feddr.engines.result import Result
from feddr.engines.shared.client_store import BUDGET
from feddr.engines.shared.options import EngineOptions, OnBadClient
from feddr.engines.shared.progress import ShowProgress, speaks
from feddr.engines.shared.rounds import RoundsRequest, play
from feddr.engines.shared.run import Run
from feddr.engines.shared.state import Callback
from feddr.local import LocalSolver
from feddr.metrics.metric import Metric, MetricFunction
from feddr.problem import Problem
from feddr.sampling import Full, Sampling
from feddr.tree import Tree
from feddr.xla.thread_pool import ThreadPool


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    *,
    local: LocalSolver,
    rounds: int,
    sampling: Sampling | None = None,
    init: Tree | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 10,
    personal: bool = False,
    metrics: Sequence[str | Metric | MetricFunction] = (),
    per_client: bool = False,
    stop_when: StopWhen | str | None = None,
    threads: int | None = None,
    client_memory: int = BUDGET,
    callback: Callback | None = None,
    certify: bool = False,
    clock: Clock | None = None,
    on_bad_client: OnBadClient = "stop",
    checkpoint: Checkpoint | str | Path | None = None,
    progress: ShowProgress = None,
) -> Result:
    """Run an algorithm for a number of rounds.

    Parameters
    ----------
    problem
        What to minimise.
    algorithm
        Such as ``FedDR(eta=10.0, alpha=1.5)``; with "auto" for eta or alpha the recommended values.
    local
        How clients solve their subproblems, such as ``local.SGD(lr=0.01, epochs=20, batch_size=10)``.
    rounds
        Number of rounds.
    sampling
        Who takes part in a round; everybody by default.
    init
        The start x^0 in place of that of the problem, such as ``result.params`` of an earlier run (a warm start). Only
        the model is taken over: the states of clients are new. A run resumes only from checkpoints with its own start.
    seed
        Draws the active clients and the batches. The randomness of a client's k-th update depends on
        (seed, client, k) alone.
    precision
        ``"float32"`` or ``"float64"`` for clients and evaluation; the server always sums in float64.
    evaluate_every
        Rounds between rows of the history; the start and the end always have one.
    personal
        Whether to evaluate the clients' own models, too.
    metrics
        Further metrics at xbar: names of ``feddr.metrics`` such as ``["f1", "auc", "test_loss"]``, functions of
        (outputs, batch), or ``metrics.Metric``. They are in ``row.metrics`` and are columns of the history, named after
        the part that they were measured on: ``test_f1``, or ``train_f1`` where there are no test samples;
        ``"validation_f1"`` is that on the validation part.
    per_client
        Whether to evaluate xbar on each client's samples: loss, accuracy and metrics of each are in
        ``history.clients``, and columns such as ``worst_client_test_accuracy`` (also p10, median, best) in the history.
    stop_when
        When to end before the last round: ``StopWhen("test_accuracy", target=0.9)``, or ``"test_accuracy>=0.9"``.
    threads
        Clients computed at a time, all cores by default. It changes nothing but the speed.
    client_memory
        Bytes of the clients' states that are kept in memory; the rest lies in a memory-mapped temporary file.
    callback
        Called after each round; returning True ends the run there.
    certify
        Whether to measure every round for ``feddr.certify.certificate``, at the price of a gradient of every client.
        Where updates are lost, late or skipped, there is nothing to certify.
    clock
        Virtual time, such as ``Clock(delays.UniformSpeed(1.0, 2.0), deadline=1.5)``; the history then has the column
        ``time``. A round lasts as long as its slowest client or until the deadline, and an update that is lost or late
        is left out.
    on_bad_client
        ``"skip"`` leaves out, and counts, updates that hold a NaN or an infinity, instead of stopping the run.
    checkpoint
        Where the state is saved now and then, and whether the run resumes from there: ``Checkpoint("kept", every=10)``,
        or a folder alone; None for none.
    progress
        Whether to show what the run does: how step sizes that are "auto" were chosen, a progress bar, and why
        it ended early; the result's settings have the words in any case. False for silence, ``"words"`` for no bar;
        None for the words, and for a bar in notebooks and terminals only.

    Returns
    -------
    Result
        With ``params``, ``history`` and the final ``state``.

    Raises
    ------
    ValueError
        Where the algorithm cannot handle g or the sampling scheme, a metric does not fit the problem, or a checkpoint
        belongs to another run.
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
    options = EngineOptions(
        *(Full() if sampling is None else sampling, seed, precision, evaluate_every, personal, client_memory),
        *(on_bad_client, speaks(progress), metrics, per_client, stop_when),
    )

    @contextmanager
    def here(problem: Problem, algorithm: Algorithm) -> Iterator[Run]:
        with ThreadPool(threads) as pool:
            yield Run(problem, algorithm, local, options, pool)

    request = RoundsRequest(rounds, init, callback, certify, Clock.of(clock), Checkpoint.of(checkpoint), progress)
    return play(problem, algorithm, local, options, request, here)
