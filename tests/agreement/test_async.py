"""The virtual clock against the simulator, against itself, and against other people's solvers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

import feddr
from feddr import delays, tree
from feddr.algorithms import Asynchronous
from feddr.engines.shared.state import Progress
from feddr.tree import Tree
from feddr.xla import batching
from feddr.xla.batching import BatchingPolicy
from tests.agreement.test_pooled import cvxpy_squares, squares
from tests.conftest import make_regression
from tests.xla.test_batching import ALONE

SGD = feddr.local.SGD(lr=0.05, epochs=2, batch_size=4)
ROUGH = delays.Combined(
    [delays.LogNormal(0.5), delays.Network(0.1, 1e4), delays.Periodic(7.0, 5.0), delays.Dropout(0.2, pause=1.5)]
)
"""Everything that can go wrong at once."""


@pytest.fixture(scope="module")
def problem(class_data: feddr.FederatedData) -> feddr.Problem:
    model = feddr.models.softmax(5, 3)
    return feddr.Problem.classification(model, class_data, g=feddr.prox.L1(0.01), weights="samples")


def same(a: Tree, b: Tree) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True))


class Replay:
    """The clients of a list, one in each round."""

    def __init__(self, clients: list[int]) -> None:
        self.clients = iter(clients)

    def check(self, n: int) -> None:
        """Fit any federation."""

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG002
        return np.array([next(self.clients)])

    def probabilities(self, n: int) -> NDArray[np.float64]:
        return np.full(n, 1.0 / n)


@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("clock", [None, feddr.Clock(delays.UniformSpeed(1.0, 2.0))], ids=["no spread", "spread"])
def test_one_client_at_a_time_is_feddr_with_one_active_client(
    problem: feddr.Problem, init: str, clock: feddr.Clock | None
) -> None:
    """Nobody works while another does, so nothing is stale: the iterates agree bit for bit."""
    ours: list[Tree] = []
    theirs: list[Tree] = []

    def keep(seen: list[Tree]) -> Callable[[Progress], None]:
        return lambda progress: seen.append(progress.state.server.xbar)

    shared: dict[str, Any] = {"local": SGD, "seed": 3, "evaluate_every": 5}
    algorithm = feddr.AsyncFedDR(eta=0.8, alpha=1.4, init=init)
    result = feddr.simulate_async(
        problem, algorithm, updates=20, concurrency=1, clock=clock, callback=keep(ours), **shared
    )
    arrivals = [event.client for event in result.events if event.arrived >= 0]
    arrivals = arrivals[problem.data.num_clients :] if init == "full" else arrivals
    assert len(arrivals) == 20
    assert len(set(arrivals)) > 1
    plain = feddr.simulate(problem, algorithm, rounds=20, sampling=Replay(arrivals), callback=keep(theirs), **shared)
    assert result.tau == 0
    assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    for a, b in zip(result.history.rows, plain.history.rows, strict=True):
        assert (a.round, a.F, a.bytes_up, a.bytes_down, a.local_steps) == (
            *(b.round, b.F, b.bytes_up, b.bytes_down),
            b.local_steps,
        )


ASYNCHRONOUS: list[Asynchronous] = [
    feddr.AsyncFedDR(eta=0.8, alpha=1.2),
    feddr.AsyncFedDR(eta=0.8, alpha=1.2, init="joining", buffer=3),
    feddr.FedAsync(rho=0.1),
    feddr.FedBuff(buffer=2),
    feddr.CA2FL(buffer=2),
]


@pytest.mark.parametrize("algorithm", ASYNCHRONOUS, ids=repr)
@pytest.mark.parametrize(
    "how", [batching.CPU, pytest.param(ALONE, marks=pytest.mark.slow)], ids=["shared calls", "calls in threads"]
)
def test_late_batches_equal_early_jobs_bit_for_bit(
    class_data: feddr.FederatedData, algorithm: Asynchronous, how: BatchingPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "choose", lambda: how)
    smooth = feddr.Problem.classification(feddr.models.softmax(5, 3), class_data)

    def run(**changes: Any) -> feddr.Result:
        arguments: dict[str, Any] = {
            "local": SGD,
            "updates": 40,
            "clock": feddr.Clock(ROUGH),
            "seed": 1,
            "evaluate_every": 20,
        }
        return feddr.simulate_async(smooth, algorithm, **(arguments | changes))

    late = run()
    others = [run(eager=True), run(threads=1), run(threads=5, eager=True), run(evaluate_every=1, personal=True)]
    for other in others:
        assert same(late.params, other.params)
        assert late.events == other.events
        assert (late.tau, late.T, late.history.last.time) == (other.tau, other.T, other.history.last.time)
        assert late.history.last.F == other.history.last.F
    assert not same(late.params, run(seed=2).params)


def steps_until_solved(problem: feddr.Problem, **changes: Any) -> feddr.Result:
    arguments: dict[str, Any] = {"clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0)), "updates": 2500} | changes
    return feddr.simulate_async(
        problem,
        feddr.AsyncFedDR(eta=1.0, alpha=1.2),
        local=feddr.local.Accelerated(tol=1e-11),
        precision="float64",
        evaluate_every=arguments["updates"],
        **arguments,
    )


@pytest.mark.parametrize("weights", [pytest.param("uniform", marks=pytest.mark.slow), "samples"])
def test_l1_least_squares_with_stale_reads_against_scikit_learn(
    regression_data: feddr.FederatedData, weights: str
) -> None:
    problem = feddr.Problem(squares, regression_data, np.zeros(6), feddr.prox.L1(0.05), weights)
    result = steps_until_solved(problem)
    assert result.tau is not None
    assert result.tau >= 4
    samples: Any = problem.data.train.samples
    lasso = Lasso(alpha=0.05, fit_intercept=False, tol=1e-14, max_iter=100_000)
    lasso.fit(samples["x"], samples["y"], sample_weight=problem.sample_weights)
    assert np.max(np.abs(result.params - lasso.coef_)) < 1e-6
    assert result.history.last.gradient_mapping < 1e-8


@pytest.mark.slow
def test_simplex_with_drop_outs_against_cvxpy(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem(squares, regression_data, np.full(6, 1 / 6), feddr.prox.Simplex(), "samples")
    result = steps_until_solved(problem, clock=feddr.Clock(ROUGH))
    exact = cvxpy_squares(problem, 6, constraints=lambda u: [u >= 0, cp.sum(u) == 1])
    assert any(event.kind == "lost" for event in result.events)
    assert np.max(np.abs(result.params - exact)) < 1e-6


FOUR_USERS = """client,start,duration
0,0,1
0,4.5,2.5
1,0,2
1,2,3
2,0,3
2,3,3
3,0,4
3,4,4
"""


@pytest.fixture
def four_users(tmp_path: Path) -> delays.Trace:
    path = tmp_path / "four.csv"
    path.write_text(FOUR_USERS)
    return delays.Trace(str(path))


def test_the_four_users_of_the_paper_step_by_step(four_users: delays.Trace) -> None:
    """C4 makes update 4, after which C1 reads; C2 and C3 make updates 5 and 6 before C1 makes update 7."""
    problem = feddr.Problem(squares, make_regression((5, 9, 4, 7), 3, seed=5), np.zeros(3))
    algorithm = feddr.AsyncFedDR(eta=0.5, alpha=0.8)
    xhat: list[list[Any]] = []  # by update, by user
    x1: list[tuple[Any, Any]] = []

    def keep(progress: Progress) -> None:
        clients = progress.state.clients
        xhat.append([clients[i].xhat if i in clients else np.zeros(3) for i in range(4)])
        x1.append((clients[0].x, clients[0].y) if 0 in clients else (np.zeros(3), np.zeros(3)))

    result = feddr.simulate_async(
        problem,
        algorithm,
        local=feddr.local.Accelerated(tol=1e-12),
        clock=feddr.Clock(four_users),
        updates=8,
        precision="float64",
        callback=keep,
    )
    arrivals = [(event.arrived + 1, event.client + 1, event.read) for event in result.events if event.arrived >= 0]
    assert arrivals == [(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (5, 2, 2), (6, 3, 3), (7, 1, 4), (8, 4, 4)]
    assert (result.tau, result.T) == (3, 5)  # C1 is missing in updates 2 to 6, C4 in 5 to 7
    # The xbar behind update 7 is the mean of xhat_1^6, xhat_2^4, xhat_3^5 and xhat_4^6, not of the newest.
    stale = np.mean([xhat[6][0], xhat[4][1], xhat[5][2], xhat[6][3]], axis=0)
    (x, y), (_, new) = x1[6], x1[7]
    assert np.max(np.abs(new - (y + 0.8 * (stale - x)))) < 1e-14
    assert np.max(np.abs(stale - np.mean(xhat[6], axis=0))) > 1e-3


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (feddr.AsyncFedDR(eta=0.8, alpha=1.3, buffer=4), feddr.FedDR(eta=0.8, alpha=1.3)),
        (feddr.FedBuff(buffer=4), feddr.FedAvg()),
        (feddr.CA2FL(buffer=4), feddr.FedAvg()),
    ],
    ids=["AsyncFedDR", "FedBuff", "CA2FL"],
)
def test_a_buffer_of_everybody_makes_rounds_where_speeds_are_equal(
    class_data: feddr.FederatedData, ours: Asynchronous, theirs: Any
) -> None:
    """Nobody begins before the last has arrived; where speeds differ, the fast begin with the old xbar."""
    smooth = feddr.Problem.classification(feddr.models.softmax(5, 3), class_data, weights="samples")
    shared: dict[str, Any] = {"local": SGD, "precision": "float64"}
    result = feddr.simulate_async(smooth, ours, updates=3, **shared)
    assert tree.norm(tree.sub(result.params, feddr.simulate(smooth, theirs, rounds=3, **shared).params)) < 1e-14
    assert result.tau == 0
    apart = delays.Fixed([1.0, 1.25, 1.5, 1.75])
    assert feddr.simulate_async(smooth, ours, updates=2, clock=feddr.Clock(apart), **shared).tau == 1
