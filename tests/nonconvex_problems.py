"""Nonconvex federations with known curvature: robust regression with the loss r^2 / (1 + r^2) (Geman and McClure 1985).

Its second derivative lies between -1/2 and 2, so the Hessian of f_i lies between -1/2 and 2 times the largest
eigenvalue of A_i^T A_i / n_i; and the loss is not negative, so F* >= 0.
"""

from typing import Any

import numpy as np

import feddr
from tests.conftest import make_regression


def loss(params: Any, batch: Any) -> Any:
    r = batch["x"] @ params - batch["y"]
    return r**2 / (1 + r**2)


def make(
    seed: int,
    g: feddr.prox.Regulariser | None = None,
    sizes: tuple[int, ...] = (6, 17, 11, 30),
    weights: str = "uniform",
    known: bool = True,
) -> feddr.Problem:
    data = make_regression(sizes, dimension=4, seed=seed)

    def curvature(i: int) -> tuple[float, float]:
        x = np.asarray(data.train.client(i)["x"], np.float64)
        largest = float(np.linalg.norm(x, 2)) ** 2 / len(x)
        return -0.5 * largest, 2.0 * largest

    init = 0.3 * np.random.default_rng(seed).normal(size=4)
    return feddr.Problem(loss, data, init, g, weights, curvature=curvature if known else None)
