"""A client that leaves: (INV) holds over those who stay, and the method goes to the solution of their problem."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr.algorithms import Roles, Uploads
from feddr.algorithms.algorithm import ClientWeights, Leavable
from feddr.local import Solution

SHARES = np.array([0.5, 0.3, 0.2])
MINIMISERS = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 1.0]])
STRENGTH = 0.4


def shrink(x: Any, eta: float) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - eta * STRENGTH, 0.0)


class Federation:
    """Quadratic clients f_i(x) = ||x - a_i||^2 / 2 with exact prox, and the rules of a method in a plain loop."""

    def __init__(self, rules: Any) -> None:
        self.roles = Roles(rules, SHARES)
        self.v = self.roles.mean_weights
        self.s, self.clients = rules.server(np.zeros(2)), dict[int, Any]()

    def round(self, active: list[int]) -> None:
        total, new = np.zeros(2), [i for i in active if i not in self.clients]
        for i in active:
            rules, xbar = self.roles.client(i), self.roles.server.broadcast(self.s)
            c = self.clients[i] if i in self.clients else rules.client(np.zeros(2), xbar)
            sub = rules.subproblem(c, xbar)
            x = (MINIMISERS[i] + sub.center / sub.eta) / (1 + 1 / sub.eta)
            self.clients[i], upload = rules.finish(c, xbar, sub, Solution(x, 1, 0.0))
            total += self.v[i] * upload
        sums = (sum(self.v[active]), sum(self.v[new]), sum(SHARES[new]))
        self.s = self.roles.server.aggregate(self.s, Uploads(total, *sums), shrink)

    def leave(self, i: int) -> None:
        member = ClientWeights(float(self.v[i]), float(SHARES[i]))
        self.s = self.roles.server.leave(self.s, self.clients.pop(i).xhat, member, shrink)


def solution(members: list[int]) -> Any:
    """argmin sum_i w_i ||x - a_i||^2 / 2 / sum_i w_i ... + g: the prox of the mean, as everything is quadratic."""
    w = SHARES[members]
    return shrink(w @ MINIMISERS[members] / w.sum(), 1.0 / w.sum() * w.sum())


@pytest.mark.parametrize("init", ["lazy", "joining"])
@pytest.mark.parametrize("mean", ["all", "active"])
@pytest.mark.parametrize("eta", [0.8, [0.5, 1.0, 2.0]], ids=["one eta", "own etas"])
def test_those_who_stay_reach_their_own_solution(init: str, mean: str, eta: Any) -> None:
    federation = Federation(feddr.FedDR(eta=eta, alpha=1.2, init=init, mean=mean))
    rng = np.random.default_rng(0)
    for _ in range(5):
        federation.round([0, 1, 2])
    federation.leave(1)
    kept = federation.v[0] * federation.clients[0].xhat + federation.v[2] * federation.clients[2].xhat
    weight = federation.v[0] + federation.v[2]
    np.testing.assert_allclose(federation.s.xtilde, kept / weight, atol=1e-12)  # (INV) over members
    assert federation.s.weight == pytest.approx(weight)
    for _ in range(600):
        federation.round([0, 2] if rng.random() < 0.5 else [int(rng.choice([0, 2]))] if mean == "all" else [0, 2])
    np.testing.assert_allclose(federation.s.xbar, solution([0, 2]), atol=1e-8)
    assert np.abs(solution([0, 2]) - solution([0, 1, 2])).max() > 0.1


def test_at_once_xbar_is_that_of_those_who_stay() -> None:
    federation = Federation(feddr.FedDR(eta=0.8, alpha=1.2, init="joining", mean="all"))
    federation.round([0, 1, 2])
    stayed = [federation.clients[i].xhat for i in (0, 2)]
    federation.leave(1)
    expected = shrink((0.5 * stayed[0] + 0.2 * stayed[1]) / 0.7, 0.8)
    np.testing.assert_allclose(federation.s.xbar, expected, atol=1e-14)


def test_who_was_never_counted_takes_nothing_along() -> None:
    rules = feddr.FedDR(eta=1.0, alpha=1.0, init="joining", mean="all")
    s = rules.server(np.zeros(2))
    assert rules.leave(s, None, ClientWeights(0.5, 0.5), shrink) is s
    assert feddr.FedAvg().leave(s, None, ClientWeights(0.5, 0.5), shrink) is s


def test_methods_that_need_everybody_or_remember_otherwise_have_no_such_rule() -> None:
    for method in (feddr.FedPD(eta=1.0), feddr.FedDyn(eta=1.0), feddr.Scaffold(), feddr.CA2FL()):
        assert not isinstance(method, Leavable)
