"""Local updates of clients in plain loops, one client and one batch at a time. Slow and easy to check."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from feddr import precision, tree
from feddr.algorithms.algorithm import ProblemLike
from feddr.local import Curvature, Estimate, LocalSolver, Solution, SolverContext, Subproblem, descent
from feddr.privacy import RecordLevel
from feddr.privacy.site_level import NormalNoise
from feddr.problem import Problem
from feddr.theory import curvature
from feddr.tree import Tree


class PlainClients:
    """Solves the subproblems of a problem's clients, a step at a time.

    Parameters
    ----------
    privacy
        Where each step is private: how gradients of records are clipped, and the noise. None for gradients as they are.
    """

    def __init__(
        self, problem: ProblemLike, local: LocalSolver, dtype: Any, privacy: RecordLevel | None = None
    ) -> None:
        self.problem, self.local, self.dtype, self.privacy = problem, local, np.dtype(dtype), privacy

    def __call__(
        self,
        client: int,
        sub: Subproblem,
        rng: np.random.Generator,
        round_: int = 0,
        probability: float = 1.0,
        noise: NormalNoise | None = None,
    ) -> Solution:
        """Solve the subproblem of a client, which takes part with a probability; the result is in NumPy arrays."""
        with precision.scope(self.dtype):
            return self._solve(client, sub, rng, round_, probability, noise)

    def _solve(
        self, i: int, sub: Subproblem, rng: np.random.Generator, k: int, p: float, source: NormalNoise | None
    ) -> Solution:
        local, gradient, prox = self.local, self.problem.batch_gradient, self.problem.regulariser.prox
        samples = precision.samples(self.problem.data.client(i), self.dtype)
        size = len(next(iter(samples.values())))
        batches = local.batches(size, rng)
        lr = 0.0 if sub.descent is None else descent.length(local, k)
        if sub.descent is not None:
            sub = sub._replace(start=sub.descent.begin(sub.start, prox))
        state = local.init(sub, SolverContext(self._curvature(i, samples) if local.certified else Curvature(), k, p))
        gradients, steps_at_most = [], local.num_steps(size)
        noise = None
        if self.privacy is not None:
            assert source is not None, "private steps need a source of noise"
            noise = self.privacy.step_noise(steps_at_most, tree.cast(sub.start, self.dtype), source)
        for t in range(steps_at_most):
            if state.done:
                break
            rows = np.arange(size) if batches is None else batches.rows[t][: batches.used[t]]
            x = state.point if sub.descent is None else sub.descent.model(state.point, t * lr, prox)
            batch = {name: array[rows] for name, array in samples.items()}
            if noise is None:
                gradients.append(gradient(x, batch))
            else:
                full = min(size, local.batch_size or size)
                gradients.append(self._private(x, batch, len(rows), full, tree.map(lambda a, t=t: a[t], noise)))
            state = local.step(state, sub.gradient(x, gradients[-1]))
            if sub.descent is not None:
                state = state._replace(point=sub.descent.follow(state.point, lr, prox))
        mean = tree.map(lambda *steps: np.mean(steps, axis=0, dtype=self.dtype), *gradients)
        if sub.probe is not None:
            mean = tree.cast(gradient(sub.probe, samples), self.dtype)
        x, error, steps = tree.cast(state.point, self.dtype), float(state.error), len(gradients)
        met = None if state.met is None else Estimate(*map(float, state.met))
        return Solution(x, steps, error, mean, steps * lr, state.missed, met)

    def _private(self, x: Tree, batch: Tree, used: int, full: int, noise: Tree) -> Tree:
        """Return the sum of the clipped gradients of single records and its noise, over the size of a full batch."""
        assert self.privacy is not None
        total = noise
        for j in range(used):
            record = {name: array[j : j + 1] for name, array in batch.items()}
            one = tree.cast(self.problem.batch_gradient(x, record), self.dtype)
            total = tree.add(total, self.privacy.clipped(one))
        return tree.scale(1.0 / full, total)

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
