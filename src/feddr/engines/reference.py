"""The reference: the same rules in plain loops, one client and one batch at a time. Slow, and obviously right."""

import numpy as np

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, Uploads, check
from feddr.engines import rounds as common
from feddr.engines.plain import Differentiable, PlainClients
from feddr.engines.result import Result
from feddr.engines.rounds import Callback, Progress, State
from feddr.history import History, Row
from feddr.local import LocalSolver
from feddr.sampling import Full, Sampling


def reference(
    problem: Differentiable,
    algorithm: Algorithm,
    *,
    local: LocalSolver,
    rounds: int,
    sampling: Sampling | None = None,
    seed: int = 0,
    precision: str = "float32",
    evaluate_every: int = 10,
    callback: Callback | None = None,
) -> Result:
    """Do what ``simulate`` does, step by step; the arguments are the same, but a problem may be PyTorch's, too."""
    sampling = Full() if sampling is None else sampling
    common.check_settings(rounds, evaluate_every, seed)
    check(algorithm, problem, sampling)
    dtype = precisions.of(precision)
    n, w, g = problem.data.num_clients, problem.client_weights, problem.regulariser
    p = sampling.probabilities(n)
    x0 = tree.cast(problem.init, dtype)
    clients = PlainClients(problem, local, dtype)
    state, history = State(server=algorithm.server(tree.cast(x0, np.float64))), History()

    def prox(x: tree.Tree, eta: float) -> tree.Tree:
        with precisions.scope(np.float64):
            return tree.map(np.asarray, g.prox(x, eta))

    def play(k: int, active: tree.Tree) -> None:
        message = tree.cast(algorithm.broadcast(state.server), dtype)
        total: tree.Tree = None
        weight = joined = 0.0
        for i in map(int, active):
            c = state.clients[i] if i in state.clients else algorithm.client(x0, message)
            sub = algorithm.subproblem(c, message)
            solution = clients(i, sub, common.client_rng(seed, i, state.updates.get(i, 0)), k, p[i])
            joined += 0.0 if i in state.clients else w[i]
            state.clients[i], upload = algorithm.finish(c, message, sub, solution)
            common.check_finite(upload, i, k, local, algorithm)
            part = tree.map(lambda a, i=i: w[i] * a.astype(np.float64), upload)
            total = part if total is None else tree.add(total, part)
            weight += w[i]
            state.updates[i] = state.updates.get(i, 0) + 1
            state.local_steps += int(solution.steps)
            state.bytes_down += common.wire_bytes(message, dtype)
            state.bytes_up += common.wire_bytes(upload, dtype)
        if weight:
            state.server = algorithm.aggregate(state.server, Uploads(total, weight, joined), prox)

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

    if algorithm.full_start:
        play(0, np.arange(n))
    for k in range(rounds + 1):
        if k > 0:
            play(k, sampling.draw(n, common.sampling_rng(seed, k)))
        row = evaluate(k) if k % evaluate_every == 0 or k == rounds else None
        if callback is not None:
            callback(Progress(k, rounds, state, row))
    settings = {"engine": "reference", "algorithm": repr(algorithm), "local": repr(local), "seed": seed}
    return Result(tree.cast(state.server.xbar, dtype), history, state, problem, algorithm, settings)
