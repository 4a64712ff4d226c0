"""The reference engine: the rules in plain loops, one client and one batch at a time. Slow and easy to check."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, Roles, Uploads
from feddr.algorithms.algorithm import ProblemLike
from feddr.early_stopping import StopWhen
from feddr.engines.result import Result, describe
from feddr.engines.shared.aggregation import WeightedUpload, server_message, upload_bytes
from feddr.engines.shared.errors import check_finite, inaccurate, warn_inaccurate
from feddr.engines.shared.measured import MetricSet
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.plain_evaluation import PlainEvaluator
from feddr.engines.shared.privacy import PrivacySpent, record_level, released
from feddr.engines.shared.progress import ShowProgress, shown, speaks
from feddr.engines.shared.randomness import client_rng, noise_rng, sampling_rng, upload_draw
from feddr.engines.shared.recorder import Recorder
from feddr.engines.shared.shards import SHARDS, shard_of
from feddr.engines.shared.state import Callback, Progress, RunState, notify
from feddr.history import Row
from feddr.local import LocalSolver
from feddr.metrics.metric import Metric, MetricFunction
from feddr.sampling import Full, Sampling
from feddr.theory.advice import resolve, review
from feddr.tree import Tree
from feddr.validation import scalars


def reference(
    problem: ProblemLike,
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
    callback: Callback | None = None,
    progress: ShowProgress = None,
) -> Result:
    """Run an algorithm as ``simulate`` does, in plain loops; a problem may be PyTorch's, too.

    Raises
    ------
    ValueError
        Where the algorithm cannot handle g or the sampling scheme.
    DivergedError
        Where a client sends a NaN or an infinity.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> solver = feddr.local.SGD(lr=0.5, batch_size=None)
    >>> result = feddr.reference(problem, feddr.FedAvg(), local=solver, rounds=1, precision="float64")
    >>> result.params["weight"].tolist()
    [0.25, 0.25]
    """
    sampling = Full() if sampling is None else sampling
    rounds = scalars.whole("rounds", rounds, 0)
    options = EngineOptions(
        *(sampling, seed, precision, evaluate_every, personal),
        verbose=speaks(progress),
        metrics=metrics,
        per_client=per_client,
        stop_when=stop_when,
    )
    options.check(algorithm, problem, local)
    problem = problem if init is None else problem.starting_at(init)
    dtype, seed = options.dtype, options.seed
    algorithm, words, *_ = chosen = resolve(algorithm, problem, sampling, local)
    options.announce(chosen)
    n, w, g = problem.data.num_clients, problem.client_weights, problem.regulariser
    roles = Roles(algorithm, w)
    v = roles.mean_weights
    spent = PrivacySpent(getattr(algorithm, "privacy", None), sampling, v)
    p = sampling.probabilities(n)
    x0 = tree.cast(problem.init, dtype)
    clients = PlainClients(problem, local, dtype, record_level(algorithm))
    state, stopper = RunState(server=algorithm.server(tree.cast(x0, np.float64))), options.stopper()
    evaluator = PlainEvaluator(problem, dtype)
    recorder = Recorder(evaluator, MetricSet(problem, evaluator, options.chosen, per_client), personal)
    warned: list[int] = []

    def prox(x: tree.Tree, eta: float) -> tree.Tree:
        with precisions.scope(np.float64):
            return tree.map(np.asarray, g.prox(x, eta))

    def play(k: int, active: NDArray[np.int64]) -> int:
        spent.spend(map(int, active))
        message, num_bytes = server_message(algorithm, state.server, dtype)
        uploads: list[WeightedUpload] = []
        for i in sorted(map(int, active)):
            rules, new = roles.client(i), i not in state.clients
            c = rules.client(x0, message) if new else state.clients[i]
            sub = rules.subproblem(c, message)
            number = state.updates.get(i, 0)
            noise = noise_rng(seed, i, number)
            solution = clients(i, sub, client_rng(seed, i, number), k, p[i], noise)
            solution = solution._replace(draw=upload_draw(seed, i, number))
            seen = solution
            if getattr(rules, "privacy", None) is not None:
                seen = released(rules, local, sub, solution, noise)
            state.clients[i], upload = rules.finish(c, message, sub, seen)
            check_finite(upload, i, k, local, algorithm)
            if not warned and inaccurate(solution):
                warned.append(i)
                warn_inaccurate(solution, i, k, local, algorithm)
            uploads.append(WeightedUpload(shard_of(i, n), v[i], w[i], new, upload))
            state.updates[i] = number + 1
            state.meet(i, solution.met)
            state.local_steps += int(solution.steps)
            state.prox_error = float(np.fmax(state.prox_error, float(solution.error)))
            state.bytes_down += num_bytes
            state.bytes_up += upload_bytes(algorithm, upload, dtype)
        if uploads:
            state.server = roles.server.aggregate(state.server, _sum(uploads), prox)
        return len(active)

    def evaluate(k: int) -> Row:
        row = recorder.evaluate(k, state, **spent.columns)
        recorder.add(row, state)
        return row

    k, asked, everybody = 0, 0, np.arange(n)
    if algorithm.full_start and spent.allows(everybody):
        asked = play(0, everybody)
    with shown(progress, type(algorithm).__name__, rounds) as callbacks:
        callbacks += [] if callback is None else [callback]
        while True:
            over = stopper.spent(recorder, state)
            row = evaluate(k) if k % options.evaluate_every == 0 or k == rounds or over else None
            over = over or (row is not None and stopper.reached(recorder))
            stop = notify(callbacks, Progress(k, rounds, state, row, asked))
            if stop or over or k == rounds:
                break
            active = sampling.draw(n, sampling_rng(seed, k + 1))
            if not spent.allows(active):
                break
            k += 1
            asked = play(k, active)
    if recorder.history.last.round < k:
        evaluate(k)
    review(chosen, state.met)
    settings = {"engine": "reference", **describe(problem, algorithm, local, options, words)}
    settings |= {"sampling": repr(sampling), "rounds": k, **stopper.settings(type(algorithm).__name__, k, rounds)}
    settings |= spent.settings(type(algorithm).__name__, k, options.verbose)
    params = tree.cast(state.server.xbar, dtype)
    return Result(params, recorder.history, state, problem, algorithm, settings, local, sampling)


def _sum(uploads: list[WeightedUpload]) -> Uploads:
    """Add up uploads one by one in each shard, and then pairs of neighbours until one sum is left."""
    zero = Uploads(tree.zeros_like(tree.cast(uploads[0].upload, np.float64)), 0.0, 0.0, 0.0)
    sums = [zero] * SHARDS
    for shard, weight, share, new, upload, _ in uploads:
        total, *counted = sums[shard][:4]
        added = tree.axpy(weight, tree.cast(upload, np.float64), total)
        more = (weight, new * weight, new * share)
        sums[shard] = Uploads(added, *(a + b for a, b in zip(counted, more, strict=True)))
    while len(sums) > 1:
        sums = [Uploads(*tree.add(a[:4], b[:4])) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]
