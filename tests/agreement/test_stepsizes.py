"""Step sizes of the clients' own, where local work starts, and the momentum that follows from it."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import Lasso

import feddr
from feddr import certify, theory
from feddr.algorithms import Algorithm, Roles
from feddr.engines.shared.state import Progress
from feddr.theory.fixed_work import StepSizeWarning
from tests.agreement.test_pooled import Vector, cvxpy_squares, squares
from tests.conftest import make_regression
from tests.nonconvex_problems import make

ETAS = (0.4, 2.5, 1.0, 0.6, 4.0)
"""A step size for each of the five clients of ``regression_data``."""

EXACT = feddr.local.Accelerated(tol=1e-12)


def iterates(problem: feddr.Problem, algorithm: Algorithm, **arguments: Any) -> list[Vector]:
    seen: list[Vector] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.state.server.xbar)

    feddr.simulate(problem, algorithm, precision="float64", callback=watch, **arguments)
    return seen


@pytest.mark.parametrize("mean", ["all", "active"])
@pytest.mark.parametrize(("alpha", "decay"), [(1.1, None), (1.5, None), (2.0, None), (1.6, 4.0)])
def test_alpha_is_the_momentum_of_short_local_work(
    regression_data: feddr.FederatedData, alpha: float, decay: float | None, mean: str
) -> None:
    """With one step from xbar and eta beyond all bounds: s := (2 - alpha_k) s + d, xbar := xbar + s + d."""
    problem = feddr.Problem(squares, regression_data, np.ones(6), weights="samples")
    lr, algorithm = 0.05, feddr.FedDR(eta=1e13, alpha=alpha, alpha_decay=decay, mean=mean)
    seen = iterates(problem, algorithm, local=feddr.local.SGD(lr=lr, batch_size=None), rounds=30)
    xbar, s = np.ones(6), np.zeros(6)
    for k, found in enumerate(seen[1:]):
        d = -lr * problem.gradient(xbar)
        relaxation = alpha if decay is None else 1 + (alpha - 1) / (1 + k / decay) ** 2
        s = (2 - relaxation) * s + d
        xbar = xbar + s + d
        assert np.max(np.abs(found - xbar)) < 1e-11


def test_an_alpha_below_one_amplifies_and_is_warned_of(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem(squares, regression_data, np.zeros(6))
    local = feddr.local.SGD(lr=0.01, batch_size=None)
    with pytest.warns(
        StepSizeWarning, match=r"at least 1.*got 0.7.*momentum 2 - alpha = 1.3.*Leave alpha out, which takes 1.1 here"
    ):
        last = feddr.simulate(
            problem, feddr.FedDR(eta=1e6, alpha=0.7), local=local, rounds=15, evaluate_every=15
        ).history
    assert last.last.F > 3 * last.rows[0].F
    # None of these is a reason to warn, and warnings are errors here.
    feddr.simulate(problem, feddr.FedDR(eta=1e6, alpha=0.7, start="own"), local=local, rounds=1)
    feddr.simulate(problem, feddr.FedDR(eta=0.05, alpha=0.7), local=EXACT, rounds=1)


@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_own_step_sizes_are_one_step_size_in_another_metric(weights: str, init: str) -> None:
    """FedDR with eta_i on (w_i, f_i) is FedDR with eta on (v_i, (eta_i / eta) f_i); ``stepsizes`` says why."""
    etas = [0.02, 0.1, 0.05, 0.03]
    problem = make(1, g=feddr.prox.L1(0.02), weights=weights)
    roles = Roles(feddr.FedDR(eta=etas), problem.client_weights)
    eta, v = roles.server.eta, roles.mean_weights

    factors = np.array(etas) / eta
    clients = [
        {**problem.data.client(i), "factor": np.full(int(size), factors[i])}
        for i, size in enumerate(problem.data.sizes)
    ]

    def curvature(i: int) -> tuple[float, float]:
        low, high = problem.known_curvature(i) or (np.nan, np.nan)
        return factors[i] * low, factors[i] * high

    scaled = feddr.Problem(
        lambda params, batch: batch["factor"] * problem.loss(params, batch),
        feddr.FederatedData.from_clients(clients),
        problem.init,
        problem.g,
        v,
        curvature=curvature,
    )
    assert scaled.F(problem.init) == pytest.approx(problem.F(problem.init), rel=1e-12)
    arguments: dict[str, Any] = {"local": EXACT, "sampling": feddr.sampling.Uniform(2), "rounds": 25, "seed": 4}
    own = iterates(problem, feddr.FedDR(eta=etas, alpha=1.3, init=init), **arguments)
    one = iterates(scaled, feddr.FedDR(eta=eta, alpha=1.3, init=init), **arguments)
    # While clients join, g counts for the share of F that has joined, and the two problems share F out differently.
    for a, b in zip(own, one, strict=True) if init != "joining" else [(own[-1], one[-1])]:
        assert np.max(np.abs(a - b)) < (1e-9 if init != "joining" else 2e-2)


@pytest.mark.parametrize("decay", [None, 3.0])
@pytest.mark.parametrize("init", ["lazy", "full", "joining"])
def test_the_mean_of_active_clients_is_that_of_all_when_everybody_takes_part(
    regression_data: feddr.FederatedData, init: str, decay: float | None
) -> None:
    problem = feddr.Problem(squares, regression_data, np.ones(6), feddr.prox.L1(0.05), "samples")
    local = feddr.local.SGD(lr=0.02, epochs=2, batch_size=4)
    everyone, active = (
        iterates(problem, feddr.FedDR(ETAS, 1.3, init=init, mean=mean, alpha_decay=decay), local=local, rounds=20)
        for mean in ("all", "active")
    )
    assert max(np.max(np.abs(a - b)) for a, b in zip(everyone, active, strict=True)) < 1e-12


def test_the_mean_of_active_clients_contains_feddyn(regression_data: feddr.FederatedData) -> None:
    """Also when only some take part, which Algorithm 1 does not."""
    problem = feddr.Problem(squares, regression_data, np.ones(6), weights="samples")
    arguments: dict[str, Any] = {
        "local": feddr.local.SGD(lr=0.02, epochs=2, batch_size=4),
        "sampling": feddr.sampling.Uniform(2),
        "rounds": 20,
    }
    ours = iterates(problem, feddr.FedDR(0.7, 1.0, "lazy", mean="active"), **arguments)
    theirs = iterates(problem, feddr.FedDyn(0.7), **arguments)
    assert max(np.max(np.abs(a - b)) for a, b in zip(ours, theirs, strict=True)) < 1e-12
    other = iterates(problem, feddr.FedDR(0.7, 1.0, "lazy", mean="all"), **arguments)
    assert np.max(np.abs(ours[-1] - other[-1])) > 1e-3


def test_only_the_mean_of_all_is_certified() -> None:
    problem = make(0, g=feddr.prox.L1(0.02))
    for mean, scheme, holds in (
        ("all", feddr.sampling.Uniform(2), True),
        ("active", feddr.sampling.Uniform(2), False),
        ("active", feddr.sampling.Full(), True),
    ):
        algorithm = feddr.FedDR(mean=mean)
        result = feddr.simulate(
            problem, algorithm, local=EXACT, sampling=scheme, rounds=5, precision="float64", certify=True
        )
        found = certify.certificate(result)
        assert found.certified == holds
        assert [h.name for h in found.hypotheses if not h.holds] == ([] if holds else ["mean"])


REGULARISERS: dict[str, tuple[feddr.prox.Regulariser | None, Any, Any]] = {
    "none": (None, None, None),
    "l1": (feddr.prox.L1(0.05), lambda u: 0.05 * cp.norm(u, 1), None),
    "elastic net": (feddr.prox.ElasticNet(0.03, 0.1), lambda u: 0.03 * cp.norm(u, 1) + 0.05 * cp.sum_squares(u), None),
    "group": (
        feddr.prox.GroupL2(0.1, [[0, 1, 2], [3, 4, 5]]),
        lambda u: 0.1 * (cp.norm(u[:3], 2) + cp.norm(u[3:], 2)),
        None,
    ),
    "l-infinity": (feddr.prox.LInf(0.1), lambda u: 0.1 * cp.norm(u, "inf"), None),
    "box": (feddr.prox.Box(-0.2, 0.3), None, lambda u: [u >= -0.2, u <= 0.3]),
    "simplex": (feddr.prox.Simplex(), None, lambda u: [u >= 0, cp.sum(u) == 1]),
    "l2 ball": (feddr.prox.L2Ball(0.5), None, lambda u: [cp.norm(u, 2) <= 0.5]),
}


def synchronous(problem: feddr.Problem, eta: Any, init: str) -> feddr.Result:
    return feddr.simulate(
        problem,
        feddr.FedDR(eta=eta, alpha=1.2, init=init),
        local=feddr.local.Accelerated(tol=1e-11),
        sampling=feddr.sampling.Uniform(3),
        rounds=900,
        precision="float64",
        evaluate_every=900,
    )


def active(problem: feddr.Problem, eta: Any, init: str, decay: float | None = None) -> feddr.Result:
    return feddr.simulate(
        problem,
        feddr.FedDR(eta=eta, alpha=1.2, init=init, mean="active", alpha_decay=decay),
        local=feddr.local.Accelerated(tol=1e-11),
        sampling=feddr.sampling.Uniform(3),
        rounds=1500,
        precision="float64",
        evaluate_every=1500,
    )


def decaying(problem: feddr.Problem, eta: Any, init: str) -> feddr.Result:
    return active(problem, eta, init, decay=100.0)


def asynchronous(problem: feddr.Problem, eta: Any, init: str) -> feddr.Result:
    return feddr.simulate_async(
        problem,
        feddr.AsyncFedDR(eta=eta, alpha=0.8, init=init),
        local=feddr.local.Accelerated(tol=1e-11),
        clock=feddr.Clock(feddr.delays.Fixed([1.0, 1.3, 1.7, 2.1, 2.6])),
        updates=3000,
        precision="float64",
        evaluate_every=3000,
    )


QUICK = ((synchronous, "l1"), (active, "simplex"), (decaying, "l1"), (asynchronous, "l1"))
"""A penalty and a constraint; ``make test-slow`` has the others."""

CASES = [
    pytest.param(
        engine, name, id=f"{engine.__name__}-{name}", marks=[] if (engine, name) in QUICK else pytest.mark.slow
    )
    for engine in (synchronous, active, decaying, asynchronous)
    for name in REGULARISERS
]


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_own_step_sizes_reach_the_pooled_solution(
    regression_data: feddr.FederatedData, name: str, engine: Callable[..., feddr.Result]
) -> None:
    g, value, constraints = REGULARISERS[name]
    problem = feddr.Problem(squares, regression_data, np.full(6, 1 / 6), g, "samples")
    result = engine(problem, ETAS, "lazy")
    exact = cvxpy_squares(problem, 6, value, constraints, tol=1e-10 if name in ("group", "l2 ball") else 1e-13)
    assert np.max(np.abs(result.params - exact)) < 1e-6
    assert result.history.last.gradient_mapping < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("init", ["full", "joining"])
@pytest.mark.parametrize("engine", [synchronous, active, decaying, asynchronous])
def test_the_limit_is_that_of_one_step_size(
    regression_data: feddr.FederatedData, init: str, engine: Callable[..., feddr.Result]
) -> None:
    strength = 0.05
    problem = feddr.Problem(squares, regression_data, np.zeros(6), feddr.prox.L1(strength), "uniform")
    lasso = Lasso(alpha=strength, fit_intercept=False, tol=1e-14, max_iter=100_000)
    samples: Any = problem.data.train.samples
    lasso.fit(samples["x"], samples["y"], sample_weight=problem.sample_weights)
    for eta in (ETAS, 1.0):
        assert np.max(np.abs(engine(problem, eta, init).params - lasso.coef_)) < 1e-6


def test_where_local_work_starts_does_not_change_the_limit(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem(squares, regression_data, np.zeros(6), feddr.prox.L1(0.05), "samples")
    arguments: dict[str, Any] = {"local": EXACT, "sampling": feddr.sampling.Uniform(2), "rounds": 60}
    own, xbar = (iterates(problem, feddr.FedDR(ETAS, 1.2, start=start), **arguments) for start in ("own", "xbar"))
    assert max(np.max(np.abs(a - b)) for a, b in zip(own, xbar, strict=True)) < 1e-9


def test_local_work_starts_where_it_is_told() -> None:
    rules = feddr.FedDR(eta=1.0, alpha=1.0), feddr.FedDR(eta=1.0, alpha=1.0, start="own")
    x, xbar = np.ones(3), np.zeros(3)
    c = feddr.algorithms.feddr.FedDRClient(x, x, x, np.zeros(()))
    at_xbar, at_own = (one.subproblem(c, xbar) for one in rules)
    assert (at_xbar.start is xbar, at_own.start is x) == (True, True)
    assert np.array_equal(np.asarray(at_xbar.center), np.asarray(at_own.center))
    for method in (feddr.FedPD, feddr.FedSplit):
        for start, point in (("xbar", xbar), ("own", x)):
            algorithm = method(1.0, start=start)
            state: Any = algorithm.client(x, xbar)
            assert algorithm.subproblem(state._replace(x=x), xbar).start is point
        with pytest.raises(ValueError, match="start must be one of xbar, own, got 'zero'"):
            method(1.0, start="zero")


def test_relative_accuracy_is_measured_from_the_last_model() -> None:
    """It is the theorem's hypothesis, wherever the solver starts."""
    problem, theta = make(0, g=feddr.prox.L1(0.02)), 1e-3
    result = feddr.simulate(
        problem,
        feddr.FedDR(init="full"),
        local=feddr.local.Accelerated(stopping=feddr.local.Relative(theta)),
        rounds=20,
        precision="float64",
        certify=True,
    )
    assert certify.certificate(result).certified
    assert result.watch is not None
    assert 0 < max(m.relative for m in result.watch.rounds[1:]) <= theta * (1 + 1e-9)


@pytest.mark.parametrize("init", ["lazy", "full"])
def test_certificates_hold_for_own_step_sizes(init: str) -> None:
    problem = make(2, g=feddr.prox.L1(0.02), weights="samples")
    L = theory.smoothness(problem).per_client
    arguments: dict[str, Any] = {
        "local": EXACT,
        "sampling": feddr.sampling.Uniform(2),
        "rounds": 30,
        "precision": "float64",
        "certify": True,
    }
    inside = feddr.simulate(problem, feddr.FedDR(eta=tuple(0.4 / L), alpha=1.0, init=init), **arguments)
    found = certify.certificate(inside)
    assert found.certified, str(found)
    assert found.facts["largest rise of V"] < 1e-9 or init == "lazy"
    # What decides is max_i eta_i L_i, below (2 - alpha) / 2 with an exact prox.
    etas = 0.4 / L
    etas[1] = 0.51 / L[1]
    outside = certify.certificate(
        feddr.simulate(problem, feddr.FedDR(eta=tuple(etas), alpha=1.0, init=init), **arguments)
    )
    assert [h.name for h in outside.hypotheses if not h.holds] == ["step size eta"]


def test_v_never_rises_with_own_step_sizes() -> None:
    for seed in range(3):
        problem = make(seed, g=feddr.prox.L1(0.02), weights="samples")
        algorithm = feddr.FedDR(eta=tuple(0.45 / theory.smoothness(problem).per_client), alpha=1.0, init="full")
        values: list[float] = []

        def watch(
            progress: Progress,
            problem: feddr.Problem = problem,
            algorithm: feddr.FedDR = algorithm,
            values: list[float] = values,
        ) -> None:
            values.append(certify.lyapunov(problem, algorithm, progress.state))

        feddr.simulate(problem, algorithm, local=EXACT, rounds=25, precision="float64", callback=watch)
        assert np.diff(values).max() < 1e-10
        assert values[-1] < values[0]


def test_recommendations_complete_own_step_sizes() -> None:
    problem = make(0)
    L = theory.smoothness(problem).per_client
    best = theory.recommend(problem, eta=list(0.4 / L), exact=True)
    assert best.eta == pytest.approx(1 / float(np.sum(problem.client_weights * L / 0.4)))
    assert 0 < best.alpha < 2 - 2 * 0.4
    with pytest.raises(ValueError, match="eta must lie in"):
        theory.recommend(problem, eta=list(1.1 / L), exact=True)


def test_joining_is_feddr_on_the_federation_of_members() -> None:
    """Also its g: those who have joined minimise their own f_i plus all of g."""
    data = make_regression(sizes=(9, 33, 14), dimension=4, seed=3)
    etas = (0.5, 2.0, 1.0)

    class FirstTwo(feddr.sampling.Uniform):
        def draw(self, n: int, rng: Any) -> Any:  # noqa: ARG002
            return np.array([0, 1])

    problem = feddr.Problem(squares, data, np.zeros(4), feddr.prox.L1(0.1), "samples")
    members = feddr.FederatedData.from_clients([data.client(0), data.client(1)])
    two = feddr.Problem(squares, members, np.zeros(4), feddr.prox.L1(0.1), "samples")
    arguments: dict[str, Any] = {"local": EXACT, "rounds": 15}
    ours = iterates(problem, feddr.FedDR(etas, 1.2, init="joining"), sampling=FirstTwo(2), **arguments)
    theirs = iterates(two, feddr.FedDR(etas[:2], 1.2, init="joining"), **arguments)
    assert max(np.max(np.abs(a - b)) for a, b in zip(ours, theirs, strict=True)) < 1e-9


def test_wrong_step_sizes_are_refused(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem(squares, regression_data, np.zeros(6))
    local = feddr.local.SGD(lr=0.01)
    for engine in (feddr.simulate, feddr.reference):
        with pytest.raises(ValueError, match="one for each of the 5 clients, got 2 of them"):
            engine(problem, feddr.FedDR(eta=[1.0, 2.0]), local=local, rounds=1)
    with pytest.raises(ValueError, match=r"positive for every client, got -1.0 for client 1"):
        feddr.FedDR(eta=[1.0, -1.0])
    with pytest.raises(ValueError, match="eta must be positive, one such number for each client, or"):
        feddr.FedDR(eta="large")  # type: ignore[arg-type]
