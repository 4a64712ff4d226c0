"""FedMid and FedDualAvg on convex composite problems: against hand-written methods and the pooled solution."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Lasso, LogisticRegression

import feddr
from feddr.algorithms import Algorithm
from feddr.engines.shared.randomness import client_rng
from feddr.engines.shared.state import Progress
from feddr.local import SGD
from tests.conftest import make_regression, make_signs

Vector = NDArray[np.float64]
STRENGTH = 0.2


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def logistic(params: Any, batch: Any) -> Any:
    return jnp.logaddexp(0.0, -batch["sign"] * (batch["x"] @ params))


def regression(g: feddr.prox.Regulariser | None = None, weights: str = "uniform") -> feddr.Problem:
    """Five clients with very different solutions; with STRENGTH, three of the six weights of the lasso vanish."""
    g = feddr.prox.L1(STRENGTH) if g is None else g
    return feddr.Problem(squares, make_regression((7, 40, 12, 25, 9), 6, seed=1), np.zeros(6), g, weights)


def classification(strength: float) -> feddr.Problem:
    return feddr.Problem(logistic, make_signs(), np.zeros(5), feddr.prox.L1(strength))


def lasso(problem: feddr.Problem, strength: float) -> Vector:
    """The pooled solution, by scikit-learn."""
    samples: Any = problem.data.train.samples
    model = Lasso(alpha=strength, fit_intercept=False, tol=1e-14, max_iter=100_000)
    model.fit(samples["x"], samples["y"], sample_weight=problem.sample_weights)
    return np.asarray(model.coef_)


def l1_logistic(problem: feddr.Problem, strength: float) -> Vector:
    """The pooled solution, by scikit-learn."""
    samples: Any = problem.data.train.samples
    model = LogisticRegression(
        l1_ratio=1.0, C=1.0 / strength, solver="saga", fit_intercept=False, tol=1e-12, max_iter=200_000
    )
    model.fit(samples["x"], samples["sign"], sample_weight=problem.sample_weights)
    return np.asarray(model.coef_[0])


def run(problem: feddr.Problem, algorithm: Algorithm, local: SGD, rounds: int, **more: Any) -> feddr.Result:
    more = {"precision": "float64", "evaluate_every": rounds, **more}
    return feddr.simulate(problem, algorithm, local=local, rounds=rounds, **more)


def iterates(problem: feddr.Problem, algorithm: Algorithm, local: SGD, rounds: int) -> list[Vector]:
    seen: list[Vector] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.state.server.xbar)

    run(problem, algorithm, local, rounds, callback=watch)
    return seen


def soft(x: Vector, threshold: float) -> Vector:
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_fedmid_with_one_step_and_g_on_the_server_is_the_proximal_gradient_method(weights: str) -> None:
    problem, lr, s = regression(weights=weights), 0.1, 0.8
    found = iterates(problem, feddr.FedMid(s, "server"), SGD(lr=lr, batch_size=None), 300)
    x = np.zeros(6)
    for xbar in found[:40]:
        assert np.max(np.abs(xbar - x)) < 1e-12
        x = soft(x - s * lr * problem.gradient(x), s * lr * STRENGTH)
    assert np.max(np.abs(found[-1] - lasso(problem, STRENGTH))) < 1e-6


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_feddualavg_with_one_step_is_dual_averaging(weights: str) -> None:
    problem, lr, s = regression(weights=weights), 0.1, 0.8
    found = iterates(problem, feddr.FedDualAvg(s), SGD(lr=lr, batch_size=None), 300)
    x, gradients = np.zeros(6), np.zeros(6)
    for k, xbar in enumerate(found[:40], 1):
        assert np.max(np.abs(xbar - x)) < 1e-12
        gradients += problem.gradient(x)
        x = soft(-s * lr * gradients, s * lr * k * STRENGTH)  # argmin <gradients, x> + k g(x) + |x|^2 / (2 s lr)
    assert np.max(np.abs(found[-1] - lasso(problem, STRENGTH))) < 1e-6


@pytest.mark.parametrize("algorithm", [feddr.FedMid(proximal="server"), feddr.FedDualAvg()], ids=repr)
def test_l1_logistic_with_one_step_reaches_the_pooled_solution(algorithm: Algorithm) -> None:
    strength = 0.02
    problem = classification(strength)
    result = run(problem, algorithm, SGD(lr=1.0, batch_size=None), 900)
    assert np.max(np.abs(result.params - l1_logistic(problem, strength))) < 1e-6
    assert result.history.last.gradient_mapping < 1e-7


@pytest.mark.parametrize(
    ("g", "once"),
    [(feddr.prox.L1(STRENGTH), feddr.prox.L1(2 * STRENGTH)), (feddr.prox.NonNegative(), feddr.prox.NonNegative())],
    ids=["l1", "constraint"],
)
def test_fedmid_as_published_counts_g_twice(g: feddr.prox.Regulariser, once: feddr.prox.Regulariser) -> None:
    """Equal clients, one step: twice the prox of l1 is the prox of twice l1; a projection may be repeated."""
    clients = [make_regression((30,), 6, seed=2).train.client(0)] * 3
    data = feddr.FederatedData.from_clients(clients)
    both = iterates(feddr.Problem(squares, data, np.zeros(6), g), feddr.FedMid(), SGD(lr=0.1, batch_size=None), 30)
    server = feddr.FedMid(proximal="server")
    ista = iterates(feddr.Problem(squares, data, np.zeros(6), once), server, SGD(lr=0.1, batch_size=None), 30)
    assert max(np.max(np.abs(a - b)) for a, b in zip(both, ista, strict=True)) < 1e-13


def test_fedmid_as_published_settles_at_the_solution_with_twice_the_strength() -> None:
    problem = regression()
    result = run(problem, feddr.FedMid(), SGD(lr=0.1, batch_size=None), 300)
    assert np.max(np.abs(result.params - lasso(problem, 2 * STRENGTH))) < 1e-9
    assert np.max(np.abs(result.params - lasso(problem, STRENGTH))) > 0.1


@pytest.mark.parametrize(
    ("algorithm", "strength"),
    [
        (feddr.FedMid(proximal="both"), 2 * STRENGTH),
        (feddr.FedMid(proximal="server"), STRENGTH),
        (feddr.FedMid(proximal="clients"), STRENGTH),
        (feddr.FedDualAvg(), STRENGTH),
    ],
    ids=repr,
)
def test_several_steps_lead_elsewhere_the_less_the_shorter_they_are(algorithm: Algorithm, strength: float) -> None:
    """Client drift is of the order of lr: half the step size, half the distance."""
    problem = regression()
    exact = lasso(problem, strength)
    distances = [
        float(np.max(np.abs(run(problem, algorithm, SGD(lr=lr, epochs=5, batch_size=None), rounds).params - exact)))
        for lr, rounds in ((0.08, 100), (0.04, 200))
    ]
    assert distances[0] > 0.05
    assert 1.5 < distances[0] / distances[1] < 2.5


def test_a_mean_of_dual_points_is_sparse_where_a_mean_of_sparse_models_is_not() -> None:
    problem, solver = regression(), SGD(lr=0.02, epochs=5, batch_size=None)
    support = lasso(problem, STRENGTH) != 0
    assert 0 < support.sum() < 6
    dual = run(problem, feddr.FedDualAvg(), solver, 400).params
    assert np.array_equal(dual != 0, support)

    mean = run(problem, feddr.FedMid(proximal="clients"), solver, 400).params
    assert np.all(mean != 0)
    models = by_hand(problem, feddr.FedMid(proximal="clients"), solver, mean, 0)
    assert any(np.any(x == 0) for x in models)  # the clients' own models are sparse


def by_hand(problem: feddr.Problem, algorithm: feddr.FedMid, solver: SGD, xbar: Vector, update: int) -> list[Vector]:
    """Return the models of the clients after their steps from xbar."""
    found = []
    for i in range(problem.data.num_clients):
        x = xbar
        for a, b in batches(problem, solver, i, update):
            x = x - solver.rate(k=1) * a.T @ (a @ x - b) / len(b)
            if algorithm.proximal != "server":
                x = soft(x, solver.rate(k=1) * STRENGTH)
        found.append(x)
    return found


def batches(problem: feddr.Problem, solver: SGD, i: int, update: int) -> list[tuple[Vector, Vector]]:
    samples: Any = problem.data.client(i)
    chosen = solver.batches(len(samples["y"]), client_rng(0, i, update))
    if chosen is None:
        return [(samples["x"], samples["y"])] * solver.epochs
    rows = [row[:used] for row, used in zip(chosen.rows, chosen.used, strict=True)]
    return [(samples["x"][row], samples["y"][row]) for row in rows]


@pytest.mark.parametrize("proximal", ["both", "server", "clients"])
def test_fedmid_with_unequal_numbers_of_steps_by_hand(proximal: Any) -> None:
    """Batches of four make 4 to 20 steps of a client; the server's prox has the weighted mean of their lengths."""
    problem, algorithm, solver = regression(weights="samples"), feddr.FedMid(0.7, proximal), SGD(0.03, 2, 4)
    w, x = problem.client_weights, np.zeros(6)
    length = sum(
        w_i * solver.rate(k=1) * solver.num_steps(int(n)) for w_i, n in zip(w, problem.data.sizes, strict=True)
    )
    for k, xbar in enumerate(iterates(problem, algorithm, solver, 5)):
        assert np.max(np.abs(xbar - x)) < 1e-12
        mean = sum(w_i * x_i for w_i, x_i in zip(w, by_hand(problem, algorithm, solver, x, k), strict=True))
        x = x + 0.7 * (mean - x)
        x = x if proximal == "clients" else soft(x, 0.7 * length * STRENGTH)


def test_feddualavg_with_unequal_numbers_of_steps_by_hand() -> None:
    problem, solver = regression(weights="samples"), SGD(0.03, 2, 4)
    x, z, tau = np.zeros(6), np.zeros(6), 0.0
    for k, xbar in enumerate(iterates(problem, feddr.FedDualAvg(0.7), solver, 5)):
        assert np.max(np.abs(xbar - x)) < 1e-12
        change, length = np.zeros(6), 0.0
        for i, w in enumerate(problem.client_weights):
            z_i, tau_i = z, tau
            for a, b in batches(problem, solver, i, k):
                z_i = z_i - solver.rate(k=1) * a.T @ (a @ soft(z_i, tau_i * STRENGTH) - b) / len(b)
                tau_i += solver.rate(k=1)
            change, length = change + w * (z_i - z), length + w * (tau_i - tau)
        z, tau = z + 0.7 * change, tau + 0.7 * length
        x = soft(z, tau * STRENGTH)


@pytest.mark.parametrize(
    "algorithm", [*(feddr.FedMid(1.0, p) for p in ("both", "server", "clients")), feddr.FedDualAvg()], ids=repr
)
def test_without_g_they_are_fedavg(algorithm: Algorithm) -> None:
    problem, solver = regression(feddr.prox.Zero()), SGD(lr=0.05, epochs=2, batch_size=4)
    some = {"sampling": feddr.sampling.Uniform(2)}
    ours, theirs = run(problem, algorithm, solver, 8, **some), run(problem, feddr.FedAvg(), solver, 8, **some)
    assert np.max(np.abs(ours.params - theirs.params)) < 1e-13


@pytest.mark.parametrize(
    ("algorithm", "g"),
    [
        (feddr.FedMid(), feddr.prox.Simplex()),
        (feddr.FedDualAvg(), feddr.prox.LInf(0.1)),
        (feddr.FedDualAvg(), feddr.prox.LInf(1e-9)),
    ],
    ids=repr,
)
def test_other_regularisers_and_single_precision(algorithm: Algorithm, g: feddr.prox.Regulariser) -> None:
    """A tau of zero at the start harms nobody, and float32 follows float64."""
    problem = feddr.Problem(squares, make_regression((7, 20), 4, seed=1), np.full(4, 0.25), g)
    solver = SGD(lr=0.05, epochs=2, batch_size=5)
    double, single = (run(problem, algorithm, solver, 10, precision=p).params for p in ("float64", "float32"))
    assert single.dtype == np.float32
    assert np.max(np.abs(double - single)) < 1e-5
    assert np.isfinite(problem.F(double))


@dataclass(frozen=True)
class Divides:
    """A regulariser whose prox is not a number for a short step."""

    def value(self, x: Any) -> Any:
        return 0.0 * jnp.sum(x)

    def prox(self, x: Any, eta: Any) -> Any:
        return x + 0.0 / jnp.floor(eta)


@pytest.mark.parametrize("algorithm", [feddr.FedMid(), feddr.FedDualAvg()], ids=repr)
def test_a_wrong_prox_is_not_blamed_on_the_steps(algorithm: Algorithm) -> None:
    with pytest.raises(
        feddr.DivergedError, match=r"The prox of Divides\(\) is not finite at a point that is: look at g"
    ):
        run(regression(Divides()), algorithm, SGD(lr=0.05, batch_size=None), 2)


def test_a_prox_that_is_wrong_at_the_start_is_blamed() -> None:
    g = feddr.prox.Translated(feddr.prox.L1(0.1), np.full(6, np.nan))
    with pytest.raises(feddr.DivergedError, match=r"At xbar at the start, .* The prox of Translated\(.* is not finite"):
        run(regression(g), feddr.FedDR(1.0, 1.0), SGD(lr=0.05), 2)
