"""Local updates of clients in plain loops, one client and one batch at a time. Slow and easy to check."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from feddr import precision, tree
from feddr.algorithms.algorithm import ProblemLike
from feddr.local import Curvature, Estimate, LocalSolver, Solution, SolverContext, Subproblem, descent
from feddr.problem import Problem
from feddr.theory import curvature
from feddr.tree import Tree


class PlainClients:
    """Solves the subproblems of a problem's clients, a step at a time."""

    def __init__(self, problem: ProblemLike, local: LocalSolver, dtype: Any) -> None:
        self.problem, self.local, self.dtype = problem, local, np.dtype(dtype)

    def __call__(
        self, client: int, sub: Subproblem, rng: np.random.Generator, round_: int = 0, probability: float = 1.0
    ) -> Solution:
        """Solve the subproblem of a client, which takes part with a probability; the result is in NumPy arrays."""
        with precision.scope(self.dtype):
            return self._solve(client, sub, rng, round_, probability)

    def _solve(self, i: int, sub: Subproblem, rng: np.random.Generator, k: int, p: float) -> Solution:
        local, gradient, prox = self.local, self.problem.batch_gradient, self.problem.regulariser.prox
        samples = precision.samples(self.problem.data.client(i), self.dtype)
        size = len(next(iter(samples.values())))
        batches = local.batches(size, rng)
        lr = 0.0 if sub.descent is None else descent.length(local, k)
        if sub.descent is not None:
            sub = sub._replace(start=sub.descent.begin(sub.start, prox))
        state = local.init(sub, SolverContext(self._curvature(i, samples) if local.certified else Curvature(), k, p))
        gradients = []
        for t in range(local.num_steps(size)):
            if state.done:
                break
            rows = np.arange(size) if batches is None else batches.rows[t][: batches.used[t]]
            x = state.point if sub.descent is None else sub.descent.model(state.point, t * lr, prox)
            gradients.append(gradient(x, {name: array[rows] for name, array in samples.items()}))
            state = local.step(state, sub.gradient(x, gradients[-1]))
            if sub.descent is not None:
                state = state._replace(point=sub.descent.follow(state.point, lr, prox))
        mean = tree.map(lambda *steps: np.mean(steps, axis=0, dtype=self.dtype), *gradients)
        if sub.probe is not None:
            mean = tree.cast(gradient(sub.probe, samples), self.dtype)
        x, error, steps = tree.cast(state.point, self.dtype), float(state.error), len(gradients)
        met = None if state.met is None else Estimate(*map(float, state.met))
        return Solution(x, steps, error, mean, steps * lr, state.missed, met)

    def _curvature(self, i: int, samples: Tree) -> Curvature | Estimate:
        known = self.problem.known_curvature(i)
        if known is not None:
            return Curvature(*known)
        if not isinstance(self.problem, Problem):
            raise ValueError(
                f"{type(self.local).__name__} needs bounds on the curvature of f_{i}, which are known for JAX losses "
                "only; give the problem curvature=(l, L), or use SGD."
            )
        loss = self.problem.loss
        flat, restore = ravel_pytree(tree.cast(self.problem.init, self.dtype))
        hessian = jax.hessian(lambda v: jnp.mean(loss(restore(v), samples)))(flat)
        if not np.isfinite(hessian).all():
            raise curvature.not_finite(i)
        eigenvalues = np.linalg.eigvalsh(hessian)
        return Estimate(float(eigenvalues[0]), float(eigenvalues[-1]))
