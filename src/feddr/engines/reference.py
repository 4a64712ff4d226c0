"""The reference: the same rules in plain loops, one client and one batch at a time. Slow, and obviously right."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, Uploads, check
from feddr.engines import rounds as common
from feddr.engines.result import Result
from feddr.engines.rounds import Callback, Progress, State
from feddr.history import History, Row
from feddr.local import Curvature, Facts, LocalSolver, Solution, Subproblem, descent
from feddr.problem import Problem
from feddr.sampling import Full, Sampling


def reference(
    problem: Problem,
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
    """Do what ``simulate`` does, step by step; the arguments are the same."""
    sampling = Full() if sampling is None else sampling
    common.check_settings(rounds, evaluate_every, seed)
    check(algorithm, problem, sampling)
    dtype = precisions.of(precision)
    n, w, g = problem.data.num_clients, problem.client_weights, problem.regulariser
    p = sampling.probabilities(n)
    x0 = tree.cast(problem.init, dtype)
    state, history = State(server=algorithm.server(tree.cast(x0, np.float64))), History()
    gradient = jax.jit(jax.grad(lambda x, batch: jnp.mean(problem.loss(x, batch))))

    def prox(x: tree.Tree, eta: float) -> tree.Tree:
        with precisions.scope(np.float64):
            return tree.map(np.asarray, g.prox(x, eta))

    def curvature(i: int, samples: tree.Tree) -> Curvature:
        known = problem.known_curvature(i)
        if known is not None:
            return Curvature(*known)
        flat, restore = ravel_pytree(x0)
        hessian = jax.hessian(lambda v: jnp.mean(problem.loss(restore(v), samples)))(flat)
        eigenvalues = np.linalg.eigvalsh(hessian)
        return Curvature(float(eigenvalues[0]), float(eigenvalues[-1]))

    def solve(k: int, i: int, sub: Subproblem) -> Solution:
        samples = precisions.samples(problem.data.client(i), dtype)
        size = len(next(iter(samples.values())))
        batches = local.batches(size, common.client_rng(seed, i, state.updates.get(i, 0)))
        facts = Facts(curvature(i, samples) if local.certified else Curvature(), k, p[i])
        progress = local.init(sub, facts)
        lr = 0.0 if sub.descent is None else descent.length(local)
        gradients = []
        for t in range(local.num_steps(size)):
            if progress.done:
                break
            rows = np.arange(size) if batches is None else batches.rows[t][: batches.used[t]]
            x = progress.point if sub.descent is None else sub.descent.model(progress.point, t * lr, g.prox)
            gradients.append(gradient(x, {name: array[rows] for name, array in samples.items()}))
            progress = local.step(progress, sub.gradient(x, gradients[-1]))
            if sub.descent is not None:
                progress = progress._replace(point=sub.descent.follow(progress.point, lr, g.prox))
        mean = tree.map(lambda *steps: np.mean(steps, axis=0, dtype=dtype), *gradients)
        if sub.probe is not None:
            mean = tree.cast(gradient(sub.probe, samples), dtype)
        return Solution(tree.cast(progress.point, dtype), len(gradients), progress.error, mean, len(gradients) * lr)

    def play(k: int, active: tree.Tree) -> None:
        message = tree.cast(algorithm.broadcast(state.server), dtype)
        total: tree.Tree = None
        weight = joined = 0.0
        for i in map(int, active):
            c = state.clients[i] if i in state.clients else algorithm.client(x0, message)
            sub = algorithm.subproblem(c, message)
            with precisions.scope(dtype):
                solution = solve(k, i, sub)
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
        x = tree.cast(state.server.xbar, dtype)
        history.rows.append(
            Row(
                round=k,
                bytes_up=state.bytes_up,
                bytes_down=state.bytes_down,
                local_steps=state.local_steps,
                F=problem.F(x),
                f=problem.f(x),
                g=problem.F(x) - problem.f(x),
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
