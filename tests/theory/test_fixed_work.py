"""Step sizes for local solvers of fixed work."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import optax
import pytest

import feddr
from feddr import local
from feddr.local import LocalSolver
from feddr.theory import fixed_work
from tests.agreement.test_pooled import squares


def travelled(solver: LocalSolver, size: int) -> float:
    """How far a solver goes along a constant gradient of one, step by step."""
    state = solver.init(local.Subproblem(start=np.zeros(1, np.float32)), local.SolverContext())
    for _ in range(solver.num_steps(size)):
        state = solver.step(state, np.ones(1, np.float32))
    return float(np.abs(state.point[0]))


@pytest.mark.parametrize(
    "solver",
    [
        local.SGD(lr=0.01, epochs=3, batch_size=10),
        local.SGD(lr=0.3, epochs=4, batch_size=None),
        local.SGD(lr=0.02, epochs=2, batch_size=7, momentum=0.9),
        local.Optax(optax.sgd(0.01, momentum=0.8), epochs=2, batch_size=10),
        local.Optax(optax.adam(1e-3), epochs=2, batch_size=10),
        local.Optax(optax.sgd(optax.cosine_decay_schedule(0.1, 20)), epochs=3, batch_size=10),
    ],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("size", [1, 10, 33])
def test_work_is_how_far_the_steps_lead(solver: LocalSolver, size: int) -> None:
    assert solver.work(size) == pytest.approx(travelled(solver, size), rel=1e-4)


def test_the_rule(regression_data: feddr.FederatedData) -> None:
    solver = local.SGD(lr=0.1, epochs=2, batch_size=5)
    problem = feddr.Problem(squares, regression_data, np.zeros(6))
    lengths = 0.1 * 2 * np.ceil(problem.data.sizes / 5)
    assert fixed_work.work(solver, problem.data.sizes) == pytest.approx(lengths)
    mean = lengths.mean()
    expected = fixed_work.C * mean * (lengths / mean) ** fixed_work.Q
    for engine in (feddr.simulate, feddr.reference):
        result = engine(problem, feddr.FedDR(), local=solver, rounds=2)
        chosen: Any = result.algorithm
        assert chosen.eta == pytest.approx(tuple(expected))
        assert (chosen.alpha, chosen.alpha_decay) == (1 + fixed_work.A, fixed_work.DECAY)
        assert (chosen.init, chosen.mean) == ("joining", "active")
        assert result.settings["step_sizes"].startswith("alpha = 1.1, falling to 1 with alpha_decay = 20; eta_i = ")
    asynchronous: Any = feddr.simulate_async(problem, feddr.AsyncFedDR(), local=solver, updates=2).algorithm
    assert asynchronous.eta == chosen.eta
    assert (asynchronous.alpha, asynchronous.mean) == (fixed_work.ALPHA_ASYNCHRONOUS, "all")
    assert asynchronous.alpha_decay == fixed_work.DECAY
    some: Any = feddr.simulate(
        problem, feddr.FedDR(), local=solver, sampling=feddr.sampling.Uniform(2), rounds=1
    ).algorithm
    assert some.eta == pytest.approx(tuple(np.sqrt(0.4) * expected))
    assert some.alpha == pytest.approx(1 + fixed_work.A * np.sqrt(0.4))


def test_what_is_given_stays(regression_data: feddr.FederatedData) -> None:
    problem, solver = feddr.Problem(squares, regression_data, np.zeros(6)), local.SGD(lr=0.1)
    first: Any = feddr.simulate(problem, feddr.FedDR(eta=3.0), local=solver, rounds=1).algorithm
    second: Any = feddr.simulate(problem, feddr.FedDR(alpha=1.7), local=solver, rounds=1).algorithm
    slower: Any = feddr.simulate(problem, feddr.FedDR(alpha_decay=70.0), local=solver, rounds=1).algorithm
    assert (first.eta, first.alpha, first.alpha_decay) == (3.0, 1 + fixed_work.A, fixed_work.DECAY)
    assert (len(second.eta), second.alpha, second.alpha_decay) == (5, 1.7, None)
    assert (slower.alpha, slower.alpha_decay) == (1 + fixed_work.A, 70.0)
    third = feddr.simulate(problem, feddr.FedDR(eta=3.0, alpha=1.7), local=solver, rounds=1)
    assert "step_sizes" not in third.settings


def test_equal_clients_have_one_step_size() -> None:
    four = fixed_work.StepSizeInputs(np.full(4, 0.25), 1.0, feddr.prox.Zero(), np.ones(2))
    algorithm, words = fixed_work.choose(feddr.FedDR(), np.full(4, 0.25), four)
    assert algorithm.eta == 0.25 * fixed_work.C
    assert "eta = " in words


@pytest.mark.parametrize("participation", [1.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 1e-4], ids=["long work", "short work"])
@pytest.mark.parametrize("groups", [None, [[0, 1], [2, 3, 4]]], ids=["l1", "groups"])
def test_step_sizes_do_not_empty_the_model(groups: Any, scale: float, participation: float) -> None:
    """prox_{K eta g} leaves the start the share KEPT of its norm, and no more is given away than that."""
    rng = np.random.default_rng(0)
    x0, work = rng.normal(0.0, 0.1, 5), scale * np.array([3.0, 30.0, 7.0])
    strength = 0.05 if scale == 1 else 1.5  # such that long work has K = 1 and short work has not
    g = feddr.prox.L1(strength) if groups is None else feddr.prox.GroupL2(strength, groups)
    weights = np.array([0.2, 0.5, 0.3])
    inputs = fixed_work.StepSizeInputs(weights, participation, g, x0)
    algorithm, words = fixed_work.choose(feddr.FedDR(), work, inputs)
    free, _ = fixed_work.choose(feddr.FedDR(), work, inputs._replace(g=feddr.prox.Zero()))
    eta = 1 / np.sum(weights / np.array(algorithm.eta))
    rounds = max(1.0, eta / (fixed_work.B * participation * work.mean()))
    assert (rounds > 1) == (scale < 1)
    kept = np.linalg.norm(np.asarray(g.prox(x0, rounds * eta))) / np.linalg.norm(x0)
    assert fixed_work.KEPT <= kept < fixed_work.KEPT + 0.02
    ratios = np.array(free.eta) / np.array(algorithm.eta)
    assert np.ptp(ratios) < 1e-9 * ratios[0]
    assert "which could empty the model" in words


@pytest.mark.parametrize(
    ("g", "x0"),
    [
        (feddr.prox.L1(1e-6), np.ones(4)),
        (feddr.prox.L2Ball(0.1), np.ones(4)),
        (feddr.prox.L1(1.0), np.zeros(4)),
        (feddr.prox.Zero(), np.ones(4)),
    ],
    ids=["weak", "constraint", "zero start", "none"],
)
def test_step_sizes_are_lowered_only_where_that_helps(g: feddr.prox.Regulariser, x0: Any) -> None:
    assert fixed_work.largest(g, x0, 50.0, pace=10.0) == 1.0


def test_certified_solvers_have_what_the_theory_recommends(
    regression_data: feddr.FederatedData, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = feddr.Problem.regression(feddr.models.linear(6), regression_data)
    result = feddr.simulate(problem, feddr.FedDR(), local=local.Accelerated(), rounds=1)
    chosen: Any = result.algorithm
    best = feddr.theory.recommend(problem)
    assert (chosen.alpha, chosen.eta) == (best.alpha, best.eta)
    assert (chosen.init, chosen.mean) == ("lazy", "all")
    assert result.settings["step_sizes"] == " ".join(
        (f"alpha = {best.alpha:.4g}, eta = {best.eta:.4g}.", *best.reasons)
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"FedDR: alpha = {best.alpha:.4g}, eta = {best.eta:.4g}, as theory recommends. The smoothness"
    )
    assert best.reasons[-1] not in line  # the terminal has the numbers, the settings have the reasons


@dataclass(frozen=True)
class Silent(local.SGD):
    """A solver that does not say how long its work is."""

    work: Any = None


def test_a_solver_that_does_not_say_its_work_is_refused(regression_data: feddr.FederatedData) -> None:
    problem = feddr.Problem(squares, regression_data, np.zeros(6))
    with pytest.raises(ValueError, match=r"needs to know the length of the local work.*give eta a number"):
        feddr.simulate(problem, feddr.FedDR(), local=Silent(lr=0.1), rounds=1)
    feddr.simulate(problem, feddr.FedDR(eta=1.0), local=Silent(lr=0.1), rounds=1)
