"""The reference engine: the rules in plain loops, one client and one batch at a time. Slow and easy to check."""

import numpy as np
from numpy.typing import NDArray

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, Roles, Uploads
from feddr.algorithms.algorithm import ProblemLike
from feddr.engines.result import Result
from feddr.engines.shared.aggregation import WeightedUpload, upload_bytes, wire_bytes
from feddr.engines.shared.errors import check_finite, inaccurate, warn_inaccurate
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.randomness import client_rng, sampling_rng, upload_draw
from feddr.engines.shared.state import Callback, Progress, RunState
from feddr.history import History, Row
from feddr.local import LocalSolver
from feddr.sampling import Full, Sampling
from feddr.theory.advice import resolve, review
from feddr.validation import scalars


def reference(
    problem: ProblemLike,
    algorithm: Algorithm,
    *,
    local: LocalSolver,
    rounds: int,
    sampling: Sampling | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 10,
    callback: Callback | None = None,
    verbose: bool = True,
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
    options = EngineOptions(sampling, seed, precision, evaluate_every, verbose=verbose)
    options.check(algorithm, problem)
    dtype, seed = options.dtype, options.seed
    algorithm, words, *_ = chosen = resolve(algorithm, problem, sampling, local)
    options.announce(chosen)
    n, w, g = problem.data.num_clients, problem.client_weights, problem.regulariser
    roles = Roles(algorithm, w)
    v = roles.mean_weights
    p = sampling.probabilities(n)
    x0 = tree.cast(problem.init, dtype)
    clients = PlainClients(problem, local, dtype)
    state, history = RunState(server=algorithm.server(tree.cast(x0, np.float64))), History()
    warned: list[int] = []

    def prox(x: tree.Tree, eta: float) -> tree.Tree:
        with precisions.scope(np.float64):
            return tree.map(np.asarray, g.prox(x, eta))

    def play(k: int, active: NDArray[np.int64]) -> int:
        message = tree.cast(algorithm.broadcast(state.server), dtype)
        uploads: list[WeightedUpload] = []
        for i in map(int, active):
            rules, new = roles.client(i), i not in state.clients
            c = rules.client(x0, message) if new else state.clients[i]
            sub = rules.subproblem(c, message)
            number = state.updates.get(i, 0)
            solution = clients(i, sub, client_rng(seed, i, number), k, p[i])
            solution = solution._replace(draw=upload_draw(seed, i, number))
            state.clients[i], upload = rules.finish(c, message, sub, solution)
            check_finite(upload, i, k, local, algorithm)
            if not warned and inaccurate(solution):
                warned.append(i)
                warn_inaccurate(solution, i, k, local, algorithm)
            uploads.append(WeightedUpload(v[i], w[i], new, upload))
            state.updates[i] = number + 1
            state.meet(i, solution.met)
            state.local_steps += int(solution.steps)
            state.bytes_down += wire_bytes(message, dtype)
            state.bytes_up += upload_bytes(algorithm, upload, dtype)
        if uploads:
            state.server = roles.server.aggregate(state.server, _sum(uploads), prox)
        return len(active)

    def evaluate(k: int) -> Row:
        x, data = tree.cast(state.server.xbar, dtype), problem.data
        f = problem.f(x)
        history.rows.append(
            Row(
                round=k,
                bytes_up=state.bytes_up,
                bytes_down=state.bytes_down,
                local_steps=state.local_steps,
                F=problem.F(x),
                f=f,
                g=problem.F(x) - f,
                train_accuracy=problem.accuracy(x, data.train),
                test_accuracy=problem.accuracy(x, data.test),
                gradient_mapping=tree.norm(problem.gradient_mapping(x)),
            )
        )
        return history.last

    k, asked = 0, play(0, np.arange(n)) if algorithm.full_start else 0
    while True:
        row = evaluate(k) if k % options.evaluate_every == 0 or k == rounds else None
        stop = callback is not None and callback(Progress(k, rounds, state, row, asked))
        if stop or k == rounds:
            break
        k += 1
        asked = play(k, sampling.draw(n, sampling_rng(seed, k)))
    if history.last.round < k:
        evaluate(k)
    review(chosen, state.met)
    settings = {"engine": "reference", "algorithm": repr(algorithm), "local": repr(local), "seed": seed, "rounds": k}
    if words:
        settings["step_sizes"] = words
    return Result(tree.cast(state.server.xbar, dtype), history, state, problem, algorithm, settings, local, sampling)


def _sum(uploads: list[WeightedUpload]) -> Uploads:
    """Add up uploads one by one."""
    total = tree.zeros_like(tree.cast(uploads[0].upload, np.float64))
    for one in uploads:
        total = tree.axpy(one.weight, tree.cast(one.upload, np.float64), total)
    new = [one for one in uploads if one.new]
    return Uploads(
        total, sum(one.weight for one in uploads), sum(one.weight for one in new), sum(one.share for one in new)
    )
