"""Clients with quadratic losses f_i(x) = ||x - a_i||^2 / 2, solved in closed form plus a little noise.

The noise depends on the update's own randomness, so that an update that is done twice, or with another update's number,
changes the numbers.
"""

from functools import cache
from typing import Any

import numpy as np

import feddr
from feddr.local import Solution, Subproblem

CLIENTS = 3
MINIMISERS = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 1.0]])
WEIGHTS = [0.5, 0.3, 0.2]
NOISE = 0.01


@cache
def quadratic_problem() -> feddr.Problem:
    """Return the federation; its loss is a placeholder, since ``ClosedFormClients`` solves the subproblems."""
    data = feddr.FederatedData.from_clients([{"i": np.array([i])} for i in range(CLIENTS)])
    return feddr.Problem(lambda x, batch: 0.0 * batch["i"] + x[0], data, np.array([0.5, -0.5]), weights=WEIGHTS)


def solve(client: int, sub: Subproblem, rng: np.random.Generator) -> Solution:
    """Return argmin f_i(x) + ||x - center||^2 / (2 eta), with noise."""
    eta, center = (sub.eta, sub.center) if sub.center is not None else (np.inf, 0.0)
    x = (MINIMISERS[client] + center / eta) / (1 + 1 / eta) + NOISE * rng.normal(size=2)
    return Solution(x, 1, np.nan, x - MINIMISERS[client])


class ClosedFormClients:
    """Takes the place of ``CompiledClients`` on a node, which has one client."""

    def __init__(self, problem: feddr.Problem, *_: Any) -> None:
        self.client = int(problem.data.train.samples["i"][0])

    def __call__(self, _: int, sub: Subproblem, rng: np.random.Generator, *__: Any) -> Solution:
        return solve(self.client, sub, rng)
