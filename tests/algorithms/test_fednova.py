"""FedNova: the right objective where clients take different numbers of steps, and FedAvg where they do not."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feddr
from feddr.local import SGD
from tests.algorithms.test_composite_methods import batches, iterates, run
from tests.algorithms.test_feddecoupled import Uneven
from tests.algorithms.test_scaffnew import problem


def minimiser(p: feddr.Problem, weights: Any) -> NDArray[np.float64]:
    """The solution of least squares with these weights of the clients."""
    rows = [p.data.client(i) for i in range(p.data.num_clients)]
    hessian = sum(w * one["x"].T @ one["x"] / len(one["x"]) for w, one in zip(weights, rows, strict=True))
    linear = sum(w * one["x"].T @ one["y"] / len(one["x"]) for w, one in zip(weights, rows, strict=True))
    return np.linalg.solve(hessian, linear)


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_with_short_steps_it_minimises_f_and_fedavg_something_else(weights: str) -> None:
    """Where it settles is off by the order of lr; FedAvg settles as near to the minimiser of sum_i w_i K_i f_i."""
    p = problem(weights=weights)
    steps = [Uneven(lr=1.0).num_steps(int(size)) for size in p.data.sizes]
    right = minimiser(p, p.client_weights)
    wrong = minimiser(p, p.client_weights * steps)
    assert np.max(np.abs(right - wrong)) > 0.1
    gaps = []
    for lr, rounds in ((0.04, 500), (0.02, 1000)):
        solver = Uneven(lr=lr, batch_size=None)
        nova, fedavg = (run(p, method, solver, rounds).params for method in (feddr.FedNova(), feddr.FedAvg()))
        gaps.append([np.max(np.abs(nova - right)), np.max(np.abs(fedavg - wrong)), np.max(np.abs(fedavg - right))])
    for near in (0, 1):
        assert 1.7 < gaps[0][near] / gaps[1][near] < 2.3
    assert gaps[1][0] < 0.1 * gaps[1][2]


def test_unequal_numbers_of_steps_by_hand() -> None:
    p, solver, s = problem(weights="samples"), SGD(lr=0.03, epochs=2, batch_size=4), 0.7
    x = np.zeros(6)
    for k, xbar in enumerate(iterates(p, feddr.FedNova(s), solver, 5)):
        assert np.max(np.abs(xbar - x)) < 1e-12
        direction, effective = np.zeros(6), 0.0
        for i, w in enumerate(p.client_weights):
            x_i, taken = x, batches(p, solver, i, k)
            for a, b in taken:
                x_i = x_i - 0.03 * a.T @ (a @ x_i - b) / len(b)
            direction, effective = direction + w * (x_i - x) / len(taken), effective + w * len(taken)
        x = x + s * effective * direction


def test_with_equal_numbers_of_steps_it_is_fedavg() -> None:
    p, solver = problem(weights="samples"), SGD(lr=0.05, epochs=3, batch_size=None)
    some = {"sampling": feddr.sampling.Uniform(2)}
    ours, theirs = (run(p, method, solver, 8, **some) for method in (feddr.FedNova(), feddr.FedAvg()))
    assert np.max(np.abs(ours.params - theirs.params)) < 1e-13
