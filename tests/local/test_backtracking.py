"""Accelerated where the curvature is an estimate: steps are tested, errors bound, and what was missed is told."""

import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import PoissonRegressor

import feddr
from feddr import local, tree
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.errors import AccuracyWarning, DivergedError
from feddr.engines.shared.evaluation import Evaluator
from feddr.local import Curvature, Estimate, SolverContext, Subproblem
from feddr.theory.advice import CurvatureWarning


def huber(params: Any, batch: Any) -> Any:
    r = jnp.abs(batch["x"] @ params - batch["y"])
    return jnp.where(r <= 0.1, 0.5 * r**2, 0.1 * (r - 0.05))


def log_cosh(params: Any, batch: Any) -> Any:
    r = 5 * (batch["x"] @ params - batch["y"])
    return jnp.logaddexp(r, -r)


def poisson(params: Any, batch: Any) -> Any:
    score = batch["x"] @ params
    return jnp.exp(score) - jnp.round(jnp.exp(batch["y"])) * score


LOSSES = {"huber": huber, "log-cosh": log_cosh, "poisson": poisson}


def make(loss: Any, **more: Any) -> feddr.Problem:
    """Three clients whose curvature at the start says little: residuals of 4 there, of 0.1 at the solution."""
    rng = np.random.default_rng(0)
    truth = np.array([2.0, -1.0, 1.0])
    clients = []
    for _ in range(3):
        x = rng.normal(size=(12, 3))
        clients.append({"x": x, "y": x @ truth + 0.1 * rng.normal(size=12)})
    return feddr.Problem(loss, feddr.FederatedData.from_clients(clients), np.zeros(3), **more)


def solve(problem: feddr.Problem, solver: local.LocalSolver, sub: Subproblem, dtype: Any = np.float64) -> Any:
    clients = CompiledClients(problem, Evaluator(problem, dtype).samples, solver, dtype, False)
    return clients(0, tree.cast(sub, dtype)._replace(eta=sub.eta), np.random.default_rng(0))


def minimiser(problem: feddr.Problem, sub: Subproblem) -> Any:
    def phi(x: Any) -> Any:
        value, gradient = problem.client_value_and_gradient(0, x)
        return value + np.sum((x - sub.center) ** 2) / (2 * sub.eta), gradient + (x - sub.center) / sub.eta

    return minimize(phi, sub.start, jac=True, method="BFGS", options={"gtol": 1e-11}).x


@pytest.mark.parametrize("name", LOSSES)
def test_steps_that_do_not_descend_are_taken_back(name: str) -> None:
    """The curvature at the start is much less than that on the way, for which M = L + 1/eta is too small."""
    problem = make(LOSSES[name])
    sub = Subproblem(np.zeros(3), center=np.array([1.0, -2.0, 3.0]), eta=20.0)
    solution = solve(problem, local.Accelerated(tol=1e-6), sub)
    assert np.linalg.norm(solution.x - minimiser(problem, sub)) <= solution.error + 1e-7  # scipy's own error
    assert solution.error <= 1e-6
    assert not solution.missed
    single = solve(problem, local.Accelerated(tol=1e-9), sub, np.float32)
    assert single.steps < 2000
    assert np.linalg.norm(single.x - solution.x) < 1e-3


def test_bounds_that_hold_cost_no_test() -> None:
    sub = Subproblem(np.zeros(3), np.ones(3), 1.0)
    assert local.Accelerated().init(sub, SolverContext(Curvature(0.0, 1.0))).memory.trial is None
    assert local.Accelerated().init(sub, SolverContext(Estimate(0.0, 1.0))).memory.trial is not None


def cosine(params: Any, batch: Any) -> Any:
    """Convex where it starts, at 0, with a second derivative of 1; it is -1 at pi."""
    return -batch["a"] * jnp.cos(params)


def wave() -> feddr.Problem:
    return feddr.Problem(cosine, feddr.FederatedData.from_clients([{"a": np.ones(1)}]), np.zeros(()))


@pytest.mark.parametrize("tol", [0.3, 0.1, 1e-6])
def test_an_error_is_a_bound_although_the_loss_turns_concave(tol: float) -> None:
    """phi'' is 2.1 at the start and 0.1 at pi; with mu = 1.1 the error would be too small by a factor of up to 11."""
    sub = Subproblem(np.zeros(()), center=np.asarray(3.6), eta=1 / 1.1)
    solution = solve(wave(), local.Accelerated(tol=tol), sub)
    assert abs(solution.x - minimiser(wave(), sub)) <= solution.error


def test_a_subproblem_that_turns_out_not_to_be_convex_is_not_certified() -> None:
    sub = Subproblem(np.zeros(()), center=np.asarray(4.0), eta=2.0)
    solution = solve(wave(), local.Accelerated(tol=1e-6), sub)
    assert solution.error == np.inf
    assert solution.missed


@pytest.mark.slow
def test_engines_take_back_the_same_steps() -> None:
    settings: dict[str, Any] = {"local": local.Accelerated(stopping=local.Epochs(12)), "rounds": 1}
    problem = make(poisson)
    ours, plain = (
        engine(problem, feddr.FedDR(eta=20.0, alpha=1.0), precision="float64", **settings)
        for engine in (feddr.simulate, feddr.reference)
    )
    assert np.linalg.norm(ours.params - plain.params) < 1e-9


def test_poisson_regression_agrees_with_scikit_learn() -> None:
    problem = make(poisson)
    solver = local.Accelerated(tol=1e-9)
    found = feddr.simulate(problem, feddr.FedDR(eta=0.5, alpha=1.0), local=solver, rounds=150, precision="float64")
    data = problem.data.train.samples
    theirs = PoissonRegressor(alpha=0.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    theirs.fit(data["x"], np.round(np.exp(data["y"])))
    assert np.linalg.norm(found.params - theirs.coef_) < 1e-5


@pytest.mark.parametrize(
    ("engine", "problem", "solver"),
    [
        (feddr.simulate, make(huber, curvature=(0.0, 1e-2)), local.Accelerated()),
        (feddr.simulate, make(huber), local.Accelerated(max_steps=3)),
        pytest.param(feddr.reference, make(huber), local.Accelerated(max_steps=3), marks=pytest.mark.slow),
    ],
    ids=["bounds that do not hold", "too few steps", "reference"],
)
def test_a_missed_rule_is_told_once(engine: Any, problem: feddr.Problem, solver: local.Accelerated) -> None:
    with pytest.warns(AccuracyWarning, match=r"prox of client 0 in round 1 may be wrong by .* max_steps") as told:
        engine(problem, feddr.FedDR(eta=20.0, alpha=1.0), local=solver, rounds=1)
    assert len(told) == 1


def test_rounding_is_not_told() -> None:
    """In float32 nobody comes within 1e-8; half of the digits are right."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = feddr.simulate(make(huber), feddr.FedDR(eta=20.0, alpha=1.0), local=local.Accelerated(), rounds=3)
    assert 1e-8 < result.history.last.prox_error < 1e-3


def test_errors_advise_what_the_solver_has() -> None:
    problem = feddr.Problem(poisson, make(poisson).data, np.full(3, 1e3), curvature=(0.0, 1.0))
    with pytest.raises(DivergedError, match="lower the eta of FedDR") as error:
        feddr.reference(problem, feddr.FedDR(eta=0.5, alpha=1.0), local=local.Accelerated(), rounds=1)
    assert "learning rate" not in str(error.value)


def test_a_start_where_phi_is_not_finite_is_not_passed_over() -> None:
    """Whoever takes the upload looks whether it is finite."""
    solution = solve(make(poisson), local.Accelerated(), Subproblem(np.full(3, 1e3), np.zeros(3), 1.0))
    assert not np.all(np.isfinite(solution.x))
    assert solution.steps == 1


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.reference])
def test_a_curvature_that_is_not_finite_is_refused(engine: Any) -> None:
    """The loss and its gradient are finite at zero, its second derivative is not."""
    data = feddr.FederatedData.from_clients([{"a": np.ones(1)}])
    problem = feddr.Problem(lambda x, b: b["a"] * jnp.maximum(x, 0.0) ** 1.5, data, np.zeros(()))
    with pytest.raises(ValueError, match="second derivatives of f_0 must be finite at x"):
        engine(problem, feddr.FedDR(eta=1.0, alpha=1.0), local=local.Accelerated(), rounds=1)


def narrow(params: Any, batch: Any) -> Any:
    """A valley of width 0.1 around y: its curvature is 100 at the bottom and 0 a little further away."""
    r = (params - batch["y"]) / 0.1
    return jnp.sqrt(1 + jnp.sum(r**2, axis=-1))


def apart() -> feddr.Problem:
    """Two clients with valleys at 1 and at -1: where all are together, at 0, nobody shows how curved it gets."""
    data = feddr.FederatedData.from_clients([{"y": np.full((1, 1), y)} for y in (1.0, -1.0)])
    return feddr.Problem(narrow, data, np.zeros(1))


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("name", LOSSES)
def test_epochs_are_steps_however_many_trials_they_take(name: str, steps: int) -> None:
    problem, z = make(LOSSES[name]), np.array([0.5, 0.3, -0.2])
    sub = Subproblem(start=np.zeros(3), center=z, eta=20.0)
    found = solve(problem, local.Accelerated(stopping=local.Epochs(steps)), sub)
    assert not found.missed
    assert found.steps >= 2 * steps  # the gradient of each step and the one that tests it
    distances = [np.linalg.norm(x - minimiser(problem, sub)) for x in (sub.start, found.x)]
    assert distances[1] < distances[0]


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_epochs_of_a_round_bowl_are_two_gradients_each_and_one_refused_trial(steps: int) -> None:
    """A step of 1/M ends where the gradient is 0, too little for the test; with 2 M every step passes."""
    data = feddr.FederatedData.from_clients([{"x": np.eye(3), "y": np.ones(3)}])
    problem = feddr.Problem(lambda params, batch: 0.5 * (batch["x"] @ params - batch["y"]) ** 2, data, np.zeros(3))
    sub = Subproblem(start=np.zeros(3), center=np.full(3, 2.0), eta=2.0)
    assert solve(problem, local.Accelerated(stopping=local.Epochs(steps)), sub).steps == 2 * steps + 1


def test_the_curvature_that_a_solver_met_is_between_those_of_the_loss() -> None:
    sub = Subproblem(start=np.zeros(1), center=np.zeros(1), eta=1.0)
    found = solve(apart(), local.Accelerated(tol=1e-10), sub).met
    assert 0 <= found.lower <= 0.1
    assert 10 < found.upper <= 100
    known = feddr.Problem(narrow, apart().data, np.zeros(1), curvature=(0.0, 100.0))
    assert solve(known, local.Accelerated(tol=1e-10), sub).met is None


def certified(problem: feddr.Problem, engine: Any = feddr.simulate, eta: Any = 0.2, **more: Any) -> feddr.Result:
    algorithm = feddr.FedDR(eta=eta, alpha=1.0 if eta != "auto" else "auto")
    return engine(problem, algorithm, local=local.Accelerated(tol=1e-10), precision="float64", **more)


def test_engines_meet_the_same_curvature_and_checkpoints_keep_it(tmp_path: Path) -> None:
    whole = certified(apart(), rounds=4).state.met
    assert sorted(whole) == [0, 1]
    plain = certified(apart(), feddr.reference, rounds=4).state.met
    assert np.allclose(list(whole.values()), list(plain.values()), rtol=1e-6)
    certified(apart(), rounds=2, checkpoint=tmp_path)
    assert certified(apart(), rounds=4, checkpoint=feddr.Checkpoint(tmp_path, resume=True)).state.met == whole


def test_certificates_count_what_clients_met() -> None:
    """At the ends of the run the loss is flat; a client that has been in its valley knows better."""
    result = certified(apart(), rounds=3, certify=True)
    at_ends = feddr.theory.smoothness(apart(), [result.params]).L
    met = max(found.upper for found in result.state.met.values())
    assert at_ends < 1 / 0.2 < met
    found = feddr.certify.certificate(result)
    assert not found.certified
    assert not next(h for h in found.hypotheses if h.name == "step size eta").holds


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.reference])
def test_step_sizes_for_too_small_an_estimate_are_told(engine: Any) -> None:
    with pytest.warns(CurvatureWarning, match="clients met") as told:
        result = certified(apart(), engine, eta="auto", rounds=3)
    better = feddr.theory.recommend(apart(), met=result.state.met)
    algorithm = result.algorithm
    assert isinstance(algorithm, feddr.FedDR)
    assert isinstance(algorithm.eta, float)
    assert better.eta < algorithm.eta / 2
    assert f"eta={better.eta:.4g}, alpha={better.alpha:.4g}" in str(told[0].message)


def test_an_estimate_that_is_right_is_not_talked_about() -> None:
    def squares(params: Any, batch: Any) -> Any:
        return 0.5 * (batch["x"] @ params - batch["y"]) ** 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certified(make(squares), eta="auto", rounds=3)
