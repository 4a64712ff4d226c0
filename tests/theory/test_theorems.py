"""The theorems on small nonconvex federations: quadratics of either curvature in a box, with a closed-form prox."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from feddr.theory import asynchronous, recommend_for, relative, synchronous

Array = NDArray[np.float64]
SEEDS = range(3)


@dataclass(frozen=True)
class Box:
    """f_i(x) = <x, A_i x> / 2 + <b_i, x> with ||A_i|| <= L, and g the indicator of [-1, 1]^2."""

    A: Array
    b: Array

    @property
    def n(self) -> int:
        return len(self.b)

    @property
    def L(self) -> float:
        return float(np.abs(np.linalg.eigvalsh(self.A)).max())

    def f(self, x: Array) -> Array:
        """Return f(x), for any number of points x."""
        return np.asarray(np.einsum("...i,ij,...j->...", x, self.A.mean(0), x) / 2 + x @ self.b.mean(0))

    def project(self, x: Array) -> Array:
        return np.clip(x, -1.0, 1.0)

    def mapping(self, x: Array, eta: float) -> float:
        """Return ||G_eta(x)||^2."""
        return float(np.sum((x - self.project(x - eta * (self.A.mean(0) @ x + self.b.mean(0)))) ** 2) / eta**2)

    def minimum(self) -> float:
        """Return F* to the width of a grid, from above: the gap comes out too small rather than too large."""
        line = np.linspace(-1.0, 1.0, 401)
        return float(self.f(np.stack(np.meshgrid(line, line), -1)).min())


def federation(seed: int, n: int = 4) -> Box:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, 2, 2))
    return Box(A + A.transpose(0, 2, 1), 2 * rng.standard_normal((n, 2)))


class Run:
    """Algorithm 1, and Algorithm 2 by a delay, as the paper writes them; x, y and xhat have one row a client."""

    def __init__(self, problem: Box, alpha: float, eta: float, x0: Array, start: str, reflection: float = 2.0) -> None:
        self.problem, self.alpha, self.eta, self.reflection = problem, alpha, eta, reflection
        same = np.tile(x0, (problem.n, 1))
        self.inverses = np.linalg.inv(np.eye(2) + eta * problem.A)
        prox = np.array([self.prox(i, x0) for i in range(problem.n)])
        self.x = prox if start in ("full", "printed") else same
        self.y = same + eta * (problem.A @ x0 + problem.b) if start == "gradient" else same.copy()
        self.xhat = reflection * self.x - (reflection - 1) * self.y
        self.xtilde = x0 if start == "printed" else self.xhat.mean(0)
        self.xbars = [problem.project(self.xtilde)]

    def prox(self, i: int, y: Array) -> Array:
        return np.asarray(self.inverses[i] @ (y - self.eta * self.problem.b[i]))

    @property
    def xbar(self) -> Array:
        return self.xbars[-1]

    def round(self, active: list[int], error: Callable[[Array, Array], Array] | None = None, delay: int = 0) -> Array:
        """Run one round and return the squared step of each client; error(z, x) is added to the prox z."""
        seen, old = self.xbars[max(0, len(self.xbars) - 1 - delay)], self.x.copy()
        for i in active:
            self.y[i] += self.alpha * (seen - self.x[i])
            z = self.prox(i, self.y[i])
            self.x[i] = z if error is None else z + error(z, old[i])
            xhat = self.reflection * self.x[i] - (self.reflection - 1) * self.y[i]
            self.xtilde = self.xtilde + (xhat - self.xhat[i]) / self.problem.n
            self.xhat[i] = xhat
        self.xbars.append(self.problem.project(self.xtilde))
        return np.asarray(np.sum((self.x - old) ** 2, 1))

    def lyapunov(self) -> float:
        """Return V^k; g(xbar) is 0."""
        p, step = self.problem, self.xbar - self.x
        slopes = np.einsum("nij,nj->ni", p.A, self.x) + p.b
        values = np.sum((slopes + p.b) * self.x, 1) / 2
        return float(np.mean(values + np.sum(slopes * step, 1) + np.sum(step**2, 1) / (2 * self.eta)))

    def errors(self) -> float:
        """Return (1/n) sum_i ||x_i - prox(y_i)||^2."""
        prox = [self.prox(i, y) for i, y in enumerate(self.y)]
        return float(np.mean(np.sum((self.x - np.array(prox)) ** 2, 1)))

    def offset(self) -> float:
        """Return how far xtilde is from the mean of the xhat_i."""
        return float(np.linalg.norm(self.xtilde - self.xhat.mean(0)))

    def average(self, K: int) -> float:
        """Return the average of ||G_eta(xbar^k)||^2 over k = 0..K."""
        return float(np.mean([self.problem.mapping(x, self.eta) for x in self.xbars[: K + 1]]))


X0 = np.array([0.9, -0.7])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("m", [1, 2, 4])
def test_theorem_and_corollary_for_an_exact_prox(seed: int, m: int) -> None:
    problem, rng, K = federation(seed), np.random.default_rng(seed), 30
    chosen = recommend_for(problem.L, 4, m / 4, exact=True)
    for alpha, eta in ((chosen.alpha, chosen.eta), (1.0, 1 / (3 * problem.L))):
        c = synchronous.constants(problem.L, m / 4, alpha, eta)
        averages = []
        for _ in range(25):
            run = Run(problem, alpha, eta, X0, "gradient")
            assert run.lyapunov() <= float(problem.f(X0)) + 1e-12
            for _ in range(K):
                run.round(rng.permutation(4)[:m].tolist())
            averages.append(run.average(K))
        bound = c.bound(K, float(problem.f(X0)) - problem.minimum())
        assert 1e-3 * bound < np.mean(averages) <= bound


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("injected", [False, True])
def test_theorem_for_a_lazy_start_and_an_inexact_prox(seed: int, injected: bool) -> None:
    problem, rng, K = federation(seed), np.random.default_rng(seed), 30
    best = recommend_for(problem.L, 4, 0.5, M=0.1)
    c = synchronous.constants(problem.L, 0.5, best.alpha, best.eta, best.gammas)
    averages, errors = [], []
    for _ in range(25):
        run = Run(problem, best.alpha, best.eta, X0, "lazy")
        assert run.lyapunov() == pytest.approx(float(problem.f(X0)))
        realised = [run.errors()]
        for k in range(K + 1):
            accuracy = 0.3 / (k + 2) if injected else 0.0
            direction = rng.standard_normal(2)
            push = accuracy * direction / np.linalg.norm(direction)
            run.round(rng.permutation(4)[:2].tolist(), lambda *_, push=push: push)
            realised.append(run.errors())
        averages.append(run.average(K))
        errors.append(realised)
    expected = np.mean(errors, 0)
    later = 0.09 * sum((k + 2) ** -2 for k in range(K + 1)) if injected else 0.0
    assert expected.sum() <= 1.1 * synchronous.error_budget(float(expected[0]), later, 0.5)
    gap = float(problem.f(X0)) - problem.minimum()
    assert np.mean(averages) <= c.bound_for_errors(gap, expected.tolist()) <= c.bound(K, gap, float(expected.sum()))


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_for_relative_accuracies(seed: int) -> None:
    problem, rng, K, theta = federation(seed), np.random.default_rng(seed), 40, 1e-3
    best = recommend_for(problem.L, 4, 0.5, theta_hat=theta)
    c = relative.constants(problem.L, 0.5, best.eta, theta)

    def worst(z: Array, x: Array) -> Array:
        """Return the largest error in a random direction that the criterion allows: r^2 = theta_i ||z + r v - x||^2."""
        theta_i, v, w = theta * 0.5, rng.standard_normal(2), z - x
        v /= np.linalg.norm(v)
        root = np.sqrt((theta_i * (v @ w)) ** 2 + (1 - theta_i) * theta_i * (w @ w))
        error: Array = (theta_i * (v @ w) + root) / (1 - theta_i) * v
        assert error @ error == pytest.approx(theta_i * np.sum((z + error - x) ** 2))
        return error

    averages = []
    for _ in range(30):
        run = Run(problem, 1.0, best.eta, X0, "gradient")
        for _ in range(K):
            run.round(rng.permutation(4)[:2].tolist(), worst)
        averages.append(run.average(K))
    assert np.mean(averages) <= c.bound(K, float(problem.f(X0)) - problem.minimum())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tau", [0, 3, 6])
@pytest.mark.parametrize("robin", [False, True])
def test_asynchronous_theorem_and_sure_descent(seed: int, tau: int, robin: bool) -> None:
    problem, rng, K, n = federation(seed, 6), np.random.default_rng(seed), 60, 6
    p_hat, T = (1.0, n - 1) if robin else (1 / n, 0)
    best = recommend_for(problem.L, n, p_hat, tau=tau, T=T)
    c = asynchronous.constants(problem.L, n, p_hat, best.alpha, best.eta, tau=tau, T=T)

    def value(run: Run) -> float:
        path = [run.xbars[0]] * tau + run.xbars
        moves = [(tau - j) * np.sum((path[-1 - j] - path[-2 - j]) ** 2) for j in range(tau)]
        return run.lyapunov() + tau / (n * run.eta) * float(sum(moves))

    averages = []
    for _ in range(4):
        run = Run(problem, best.alpha, best.eta, X0, "gradient")
        for k in range(K):
            before = value(run)
            step = run.round([k % n if robin else int(rng.integers(n))], delay=int(rng.integers(tau + 1)))
            assert value(run) <= before - c.rho / 2 * step.sum() + 1e-12
        averages.append(run.average(K))
    assert np.mean(averages) <= c.bound(K, float(problem.f(X0)) - problem.minimum())


def test_asynchronous_constant_needs_the_length_of_the_window() -> None:
    """Round robin over n equal clients f_i(x) = x^2 / 2 without delay: the sum exceeds the constant without T + 1."""
    n, alpha, eta = 30, 0.05, 0.05
    c = asynchronous.constants(1.0, n, 1.0, alpha, eta, tau=0, T=n - 1)
    y, x, gap = [1 + eta] * n, [1.0] * n, 0.5  # the gradient start from x^0 = 1
    xbar, total = 1 - eta, 0.0
    for k in range(40000):
        total += xbar**2  # G_eta = grad f, because g = 0
        i = k % n
        old = 2 * x[i] - y[i]
        y[i] += alpha * (xbar - x[i])
        x[i] = y[i] / (1 + eta)
        xbar += (2 * x[i] - y[i] - old) / n
    assert 2 * c.total(gap) / n < total <= c.total(gap)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("start", ["gradient", "full"])
def test_lyapunov_value_never_grows_without_errors(seed: int, start: str) -> None:
    """Surely, for every set of active clients and up to the end of the admissible range."""
    problem, rng = federation(seed), np.random.default_rng(seed)
    for alpha in (0.3, 1.0, 1.7):
        run = Run(problem, alpha, 0.99 * synchronous.eta_max(alpha, problem.L), X0, start)
        values = [run.lyapunov()]
        for _ in range(50):
            run.round(np.flatnonzero(rng.random(4) < 0.6).tolist())
            values.append(run.lyapunov())
            assert run.offset() < 1e-12
        assert np.all(np.diff(values) <= 1e-12)
        assert values[-1] >= problem.minimum() - 1e-4


@pytest.mark.parametrize("fault", ["the sign of alpha", "the reflection"])
def test_a_wrong_sign_breaks_the_descent(fault: str) -> None:
    problem, everyone = federation(0), [0, 1, 2, 3]
    eta = 0.9 * synchronous.eta_max(1.0, problem.L)
    if fault == "the sign of alpha":
        run = Run(problem, -1.0, eta, X0, "gradient")
    else:
        run = Run(problem, 1.0, eta, X0, "gradient", reflection=-2.0)
    values = [run.lyapunov()]
    for _ in range(20):
        run.round(everyone)
        values.append(run.lyapunov())
    assert np.max(np.diff(values)) > 1e-3


def test_the_printed_start_breaks_the_bookkeeping_for_good() -> None:
    """The offset stays, and the limit has grad f = offset / eta instead of 0."""
    problem = Box(np.array([np.eye(2), np.diag([0.5, 1.0])]), np.array([[1.0, 0.3], [-0.4, 0.2]]))
    starts = ("printed", "full", "lazy", "gradient")
    runs = {start: Run(problem, 1.0, 1 / (3 * problem.L), X0, start) for start in starts}
    offset = runs["printed"].offset()
    assert offset > 0.05
    for _ in range(200):
        for run in runs.values():
            run.round([0, 1])
    assert runs["printed"].offset() == pytest.approx(offset)
    for start, run in runs.items():
        assert (run.offset() < 1e-12) == (start != "printed")
        assert (problem.mapping(run.xbar, run.eta) < 1e-10) == (start != "printed")


def test_corollary_from_a_minimiser_needs_the_gradient_start() -> None:
    """Two clients that pull apart, started at the minimiser of F: F(x^0) = F*, so Corollary 3.1 says G = 0 for ever."""
    pull = np.array([[1.0, 0.0], [-1.0, 0.0]])
    problem, x0 = Box(np.tile(np.eye(2), (2, 1, 1)), pull), np.zeros(2)
    assert float(problem.f(x0)) == pytest.approx(problem.minimum())
    for start in ("gradient", "full", "lazy"):
        run = Run(problem, 1.0, 1 / 3, x0, start)
        run.round([0])
        moved = problem.mapping(run.xbar, run.eta) > 1e-3
        assert moved == (start != "gradient"), start
    full = Run(problem, 1.0, 1 / 3, x0, "full")
    steps = float(np.mean(np.sum((full.x - x0) ** 2, 1)))
    assert float(problem.f(x0)) + 0.05 < full.lyapunov() <= float(problem.f(x0)) + steps * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_docstrings_say_about_the_measure_and_the_full_start(seed: int) -> None:
    """||G_eta|| never grows with eta; the full start has V^0 <= F(x^0) + (1 / (n eta)) sum_i ||x^0 - x_i^0||^2."""
    problem, rng = federation(seed), np.random.default_rng(seed)
    etas = np.linspace(0.02, 1, 50) / problem.L
    for _ in range(20):
        x0 = rng.uniform(-1, 1, 2)
        assert np.all(np.diff([problem.mapping(x0, float(eta)) for eta in etas]) <= 1e-10)
        run = Run(problem, 1.0, float(rng.uniform(0.05, 0.95)) / problem.L, x0, "full")
        steps = float(np.mean(np.sum((run.x - x0) ** 2, 1)))
        assert run.lyapunov() <= float(problem.f(x0)) + steps / run.eta + 1e-12
