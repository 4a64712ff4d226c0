"""What can be checked of a run: the bookkeeping law and the Lyapunov value of FedDR."""

import numpy as np

from feddr import precision, tree
from feddr.algorithms import FedDR
from feddr.engines.rounds import State
from feddr.problem import Problem
from feddr.tree import Tree


def bookkeeping_gap(problem: Problem, algorithm: FedDR, state: State) -> float:
    """Return || xtilde - sum_i w_i xhat_i / sum_i w_i ||, over the clients that the server counts.

    It is zero but for rounding: the law (INV) that the whole analysis of FedDR rests on. With ``init="lazy"`` the
    server counts every client from the start, those not heard from with xhat_i = x^0.
    """
    total = tree.zeros_like(state.server.xtilde)
    weight = 0.0
    x0 = tree.cast(problem.init, np.float64)
    for i, w in enumerate(problem.client_weights):
        if i not in state.clients and algorithm.init != "lazy":
            continue
        xhat = state.clients[i].xhat if i in state.clients else x0
        total = tree.map(lambda a, b, w=w: a + w * np.asarray(b, np.float64), total, xhat)
        weight += w
    if not weight:
        return 0.0
    return tree.norm(tree.sub(state.server.xtilde, tree.scale(1.0 / weight, total)))


def lyapunov(problem: Problem, algorithm: FedDR, state: State) -> float:
    """Return V = g(xbar) + sum_i w_i [ f_i(x_i) + <grad f_i(x_i), xbar - x_i> + ||xbar - x_i||^2 / (2 eta) ].

    With exact proximal steps, everybody active and alpha, eta within the theory, V never increases; in general its
    expectation does not. At the start it is F(x^0).
    """
    xbar: Tree = state.server.xbar
    x0 = tree.cast(problem.init, np.float64)
    with precision.scope(np.float64):
        total = float(problem.regulariser.value(xbar))
    for i, w in enumerate(problem.client_weights):
        x = tree.cast(state.clients[i].x, np.float64) if i in state.clients else x0
        f, gradient = problem.client_value_and_gradient(i, x)
        step = tree.sub(xbar, x)
        slope = sum(float(np.vdot(a, b)) for a, b in zip(tree.leaves(gradient), tree.leaves(step), strict=True))
        total += w * (f + slope + tree.norm(step) ** 2 / (2 * algorithm.eta))
    return total
