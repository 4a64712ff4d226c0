"""CA2FL: the published rule without the server's table, its memory, and clients of different speed."""

from typing import Any

import numpy as np

import feddr
from feddr.algorithms import Uploads
from feddr.local import SGD, Solution
from tests.algorithms.test_scaffnew import SIZES, problem, solution

APART = feddr.delays.Fixed([1.0, 1.3, 7.0, 2.1, 9.0])


def test_the_published_rule_by_hand() -> None:
    """The paper's server keeps the last change of everybody; ours their mean alone. Equal weights."""
    rng, n, buffer, lr = np.random.default_rng(0), 5, 3, 0.7
    rules = feddr.CA2FL(buffer, lr)
    s, clients = rules.server(np.zeros(4)), [rules.client(np.zeros(4), np.zeros(4))] * n
    x, table = np.zeros(4), np.zeros((n, 4))
    for _ in range(8):
        mean, total, ours = table.mean(axis=0), np.zeros(4), np.zeros(4)
        for i in rng.permutation(n)[:buffer]:
            read, model = rng.normal(size=4), rng.normal(size=4)
            clients[i], upload = rules.finish(
                clients[i], read, rules.subproblem(clients[i], read), Solution(model, 1, np.nan)
            )
            ours += upload / n
            total += model - read - table[i]
            table[i] = model - read
        x = x + lr * (mean + total / buffer)
        s = rules.aggregate(s, Uploads(ours, buffer / n, 0.0, 0.0), lambda point, _: point)
        assert np.max(np.abs(s.xbar - x)) < 1e-12
        assert np.max(np.abs(s.memory - table.mean(axis=0))) < 1e-12


def play(p: feddr.Problem, algorithm: Any, updates: int, **more: Any) -> feddr.Result:
    settings: dict[str, Any] = {"clock": feddr.Clock(APART), "updates": updates, "evaluate_every": updates, **more}
    return feddr.simulate_async(p, algorithm, local=SGD(lr=0.05, batch_size=None), **settings)


def test_the_memory_is_the_mean_of_the_clients_changes() -> None:
    p = problem(weights="samples")
    state = play(p, feddr.CA2FL(buffer=2), 150, precision="float64").state
    assert sorted(state.clients) == list(range(len(SIZES)))
    total = sum(w * state.clients[i].change for i, w in enumerate(p.client_weights))
    assert np.max(np.abs(state.server.memory - total)) < 1e-12


def test_with_one_step_fast_and_slow_clients_count_alike() -> None:
    """The memory is then a mean of gradients, some of them old, and settles where it is zero; FedBuff's does not."""
    p = problem(weights="samples")
    exact = solution(p)
    ours, theirs = (
        play(p, method, 4000, precision="float64").params
        for method in (feddr.CA2FL(buffer=2, server_lr=0.5), feddr.FedBuff(buffer=2, server_lr=0.5))
    )
    assert np.max(np.abs(ours - exact)) < 1e-8
    assert np.max(np.abs(theirs - exact)) > 0.1
