"""What a certificate says, what it refuses, and that it catches a wrong algorithm."""

import dataclasses
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import delays, local, tree
from feddr.algorithms.algorithm import Uploads
from feddr.algorithms.feddr import FedDRClient, FedDRServer
from feddr.certify import Certificate, certificate
from feddr.delays import Job, Timing
from feddr.engines.shared.errors import AccuracyWarning
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree
from tests.nonconvex_problems import make


def run(problem: feddr.Problem, algorithm: Any, **changes: Any) -> feddr.Result:
    arguments: dict[str, Any] = {"local": local.Accelerated(tol=1e-10), "rounds": 15, "certify": True}
    arguments |= {"precision": "float64", "evaluate_every": 15}
    return feddr.simulate(problem, algorithm, **(arguments | changes))


def safe(problem: feddr.Problem, **changes: Any) -> feddr.FedDR:
    L = feddr.theory.smoothness(problem).L
    arguments: dict[str, Any] = {"eta": 1 / (3 * L), "alpha": 1.0, "init": "full"}
    return feddr.FedDR(**(arguments | changes))


def failing(found: Certificate) -> set[str]:
    return {h.name for h in found.hypotheses if not h.holds}


def test_a_safe_run_is_certified_with_room_to_spare() -> None:
    problem = make(0)
    found = certificate(run(problem, safe(problem)))
    assert found.certified
    assert 0 < found.ratio < 1
    assert failing(found) == set()
    assert "Theorem 3.1 (FedDR, inexact): certified\n" in str(found)
    assert "estimate" not in str(found)


def test_every_round_is_measured_as_the_problem_says() -> None:
    """F and the gradient mapping, which are sums over shards of clients, beside those of all samples at once."""
    problem = dataclasses.replace(make(0, weights="samples"), g=feddr.prox.L1(0.02))
    algorithm, points = feddr.FedDR(eta=0.02, alpha=1.2), []
    result = run(problem, algorithm, rounds=3, callback=lambda report: points.append(report.state.server.xbar))
    assert result.watch is not None
    for xbar, measured in zip(points, result.watch.rounds, strict=True):
        assert measured._asdict()["F"] == pytest.approx(problem.F(xbar), rel=1e-12)
        assert measured.gradient_mapping == pytest.approx(tree.norm(problem.gradient_mapping(xbar, 0.02)), rel=1e-9)
        assert measured.bookkeeping < 1e-14
    starts = [points[0]] * problem.data.num_clients
    slopes = [tree.norm(problem.client_value_and_gradient(i, x)[1]) for i, x in enumerate(starts)]
    L = feddr.theory.smoothness(problem).lowers
    bounds = [slope / (1 / 0.02 + low) for slope, low in zip(slopes, L, strict=True)]  # at x^0, where x_i = y_i
    squares = float(np.dot(problem.client_weights, np.square(bounds)))
    assert result.watch.rounds[0].errors == pytest.approx(squares, rel=1e-12)


def test_an_estimate_of_the_smoothness_is_called_one() -> None:
    problem = make(0, known=False)
    found = certificate(run(problem, feddr.FedDR(eta=0.02, init="full")))
    assert found.certified
    assert found.estimated
    assert "certified, if the estimate of L is right" in str(found)


def test_fixed_epochs_of_sgd_are_refused() -> None:
    found = certificate(run(make(0), feddr.FedDR(eta=0.05), local=local.SGD(lr=0.05)))
    assert not found.certified
    assert "no certified prox accuracy" in found.refusals[0]
    assert "NOT certified" in str(found)


def test_other_algorithms_and_unwatched_runs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Certificates are for FedDR.*got FedAvg\(\)"):
        run(make(0), feddr.FedAvg(), local=local.SGD(lr=0.1))
    problem = make(0)
    unwatched = certificate(run(problem, safe(problem), certify=False))
    assert "certify=True" in unwatched.refusals[0]
    other = feddr.simulate(problem, feddr.FedAvg(), local=local.SGD(lr=0.1), rounds=1)
    assert "for FedDR" in certificate(other).refusals[0]


def test_step_sizes_outside_the_theory_are_named() -> None:
    problem = make(0)
    L = feddr.theory.smoothness(problem).L
    too_long = certificate(run(problem, safe(problem, eta=0.99 / (0.25 * L), alpha=1.0)))
    assert failing(too_long) == {"step size eta"}
    assert not too_long.certified
    over_relaxed = certificate(run(problem, safe(problem, alpha=2.0)))
    assert "relaxation alpha" in failing(over_relaxed)
    decaying = certificate(run(problem, replace(safe(problem), alpha_decay=5.0)))
    assert failing(decaying) == {"alpha_decay"}
    joining = certificate(run(problem, safe(problem, init="joining"), sampling=feddr.sampling.Uniform(2)))
    assert failing(joining) == {"start"}
    finished = run(problem, safe(problem))
    first, last = finished.history.rows[0].F, finished.history.last.F
    assert last < first
    # Between the two, F_star is below F at the start and still no lower bound of F.
    wrong_bound = certificate(finished, F_star=(first + last) / 2)
    assert failing(wrong_bound) == {"lower bound F_star"}


def test_a_step_size_at_the_limit_is_refused_not_divided_by() -> None:
    """One number below (2 - alpha) / (2 L) rounding has left nothing of the descent."""
    L, alpha = 0.035768481382380396, 1.022323948309845
    eta = np.nextafter(feddr.theory.synchronous.eta_max(alpha, L), 0.0)
    with pytest.raises(ValueError, match="eta must lie in"):
        feddr.theory.synchronous.constants(L, 1.0, alpha, eta)
    problem = dataclasses.replace(make(0), curvature=(-L, L))
    solver = local.Accelerated(stopping=local.Epochs(2))
    found = certificate(run(problem, feddr.FedDR(eta=float(eta), alpha=alpha), local=solver, rounds=1))
    assert failing(found) == {"step size eta"}


def outside(**changes: Any) -> feddr.Result:
    """A run that starts outside of the set to which g confines xbar."""
    problem = dataclasses.replace(make(0), g=feddr.prox.NonNegative(), init=np.full(4, -0.3))
    return run(problem, feddr.FedDR(eta=1 / (3 * feddr.theory.smoothness(problem).L), init="lazy"), **changes)


def test_a_lazy_start_outside_the_set_is_certified_from_the_first_feasible_round() -> None:
    result = outside()
    assert result.watch is not None
    assert result.watch.rounds[0].lyapunov == np.inf
    found = certificate(result)
    assert found.certified
    assert found.facts["V at the start"] == result.watch.rounds[1].lyapunov
    assert found.measured == pytest.approx(np.mean([m.gradient_mapping**2 for m in result.watch.rounds[1:-1]]))
    assert "run a round more" in certificate(outside(rounds=1)).refusals[0]


def test_a_run_that_starts_at_the_solution_has_a_certificate() -> None:
    """The gap is 0, and so is all that is measured."""
    clients = [make(0).data.client(i) for i in range(4)]
    data = feddr.FederatedData.from_clients([{"x": c["x"], "y": np.zeros(len(c["y"]))} for c in clients])
    problem = dataclasses.replace(make(0), data=data, init=np.zeros(4))
    assert certificate(run(problem, safe(problem), rounds=1)).certified


def test_a_relative_accuracy_that_was_not_reached_is_not_certified() -> None:
    """With a single step a client, max_steps stops the solver long before its rule would."""
    problem = make(0)
    rule = local.Relative(1e-3, start=1e9)
    eta = feddr.theory.recommend_for(feddr.theory.smoothness(problem).L, 4, 1.0, theta_hat=1e-3).eta
    kept = certificate(run(problem, safe(problem, eta=eta), local=local.Accelerated(stopping=local.Relative(1e-3))))
    assert kept.certified
    with pytest.warns(AccuracyWarning, match="in round 1"):
        result = run(problem, safe(problem, eta=eta), local=local.Accelerated(stopping=rule, max_steps=1))
    hasty = certificate(result)
    assert not hasty.certified
    assert "theta_hat, as reached" in failing(hasty)


@dataclass(frozen=True)
class WrongSign(feddr.FedDR):
    def subproblem(self, c: FedDRClient, xbar: Tree) -> Subproblem:
        y = tree.axpy(-float(self.alpha), tree.sub(xbar, c.x), c.y)
        return super().subproblem(c, xbar)._replace(center=y)


@dataclass(frozen=True)
class PrintedStart(feddr.FedDR):
    """xtilde^0 := x^0 although the clients' xhat_i^0 differ from it, as the paper prints it."""

    def aggregate(self, s: FedDRServer, uploads: Uploads, prox: Prox) -> FedDRServer:
        if s.weight == 0:
            return super().aggregate(s, uploads._replace(sum=tree.scale(uploads.joined, s.xtilde)), prox)
        return super().aggregate(s, uploads, prox)


def test_a_wrong_sign_is_caught_by_the_lyapunov_value() -> None:
    problem = make(0)
    eta = 1 / (3 * feddr.theory.smoothness(problem).L)
    right = certificate(run(problem, feddr.FedDR(eta=eta, init="full")))
    wrong = certificate(run(problem, WrongSign(eta=eta, init="full")))
    assert right.facts["largest rise of V"] < 1e-12
    assert wrong.facts["largest rise of V"] > 1e-3


def test_a_wrong_start_is_caught_by_the_bookkeeping() -> None:
    problem = make(0)
    eta = 1 / (3 * feddr.theory.smoothness(problem).L)
    found = certificate(run(problem, PrintedStart(eta=eta, init="full")))
    assert failing(found) == {"bookkeeping (INV)"}
    assert not found.certified


def test_a_certificate_is_saved_with_its_run(tmp_path: Path) -> None:
    problem = make(0)
    folder = run(problem, safe(problem)).save(tmp_path)
    saved = json.loads((folder / "certificate.json").read_text())
    assert saved["certified"] is True
    assert saved["hypotheses"][0]["name"] == "smoothness L"
    refused = run(problem, safe(problem), local=local.SGD(lr=0.01)).save(tmp_path / "refused")
    assert json.loads((refused / "certificate.json").read_text())["bound"] is None


def test_measured_errors_bound_what_the_solver_promised() -> None:
    """With a tolerance tol for every client, sqrt(sum_i w_i eps_i^2) <= tol in every round."""
    problem = make(1)
    result = run(problem, safe(problem), local=local.Accelerated(tol=1e-6), sampling=feddr.sampling.Uniform(2))
    assert result.watch is not None
    assert all(m.errors**0.5 <= 1.0001e-6 for m in result.watch.rounds)


def test_auto_takes_the_recommended_step_sizes_and_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    problem = make(0)
    result = run(problem, feddr.FedDR(eta="auto", alpha="auto", init="full"))
    best = feddr.theory.recommend(problem)
    assert result.algorithm == feddr.FedDR(eta=best.eta, alpha=best.alpha, init="full", mean="all")
    assert f"eta = {best.eta:.4g}" in capsys.readouterr().err
    assert certificate(result).certified
    one = run(problem, feddr.FedDR(eta="auto", alpha=1.2, init="full"))
    assert one.algorithm.alpha == 1.2  # type: ignore[attr-defined]
    assert certificate(one).certified
    other = run(problem, feddr.FedDR(eta=best.eta, alpha="auto", init="full"))
    assert certificate(other).certified
    accurate = local.Accelerated(stopping=local.Relative(1e-3))
    relative = run(problem, feddr.FedDR(eta="auto", alpha="auto", init="full"), local=accurate)
    assert certificate(relative).certified


def test_a_client_that_is_never_in_time_is_no_participant() -> None:
    """The theorem's p_i > 0 is that of updates that arrive, not of clients that are asked."""
    problem = make(0)
    never = {"clock": feddr.Clock(delays.Fixed([1.0, 1.0, 1.0, math.inf]), deadline=2.0)}
    lazy = certificate(run(problem, safe(problem, init="lazy"), **never))
    assert failing(lazy) == {"arrivals"}
    assert not lazy.certified
    assert "arrivals: 15 of 60 missing (every update that was asked for): FAILS" in str(lazy)
    full = certificate(run(problem, safe(problem), **never))
    assert failing(full) == {"arrivals", "start"}
    assert math.isnan(full.bound)


@dataclass(frozen=True)
class Lost:
    """Loses the first job of client 2."""

    def check(self, n: int) -> None:
        """Fit any federation."""

    def apply(self, job: Job, timing: Timing) -> Timing:
        return timing._replace(lost_after=0.5) if (job.client, job.number) == (2, 0) else timing


def test_a_full_start_without_somebody_is_none() -> None:
    problem = make(0)
    found = certificate(run(problem, safe(problem), clock=feddr.Clock(Lost())))
    assert failing(found) == {"start"}
    assert "start: full, 1 of 4 missing (lazy, or full with everybody): FAILS" in str(found)


def test_delays_that_lose_nothing_change_no_certificate() -> None:
    problem = make(0)
    slow = {"clock": feddr.Clock(delays.Fixed([1.0, 2.0, 3.0, 4.0]), deadline=5.0)}
    assert certificate(run(problem, safe(problem), **slow)) == certificate(run(problem, safe(problem)))


@dataclass(frozen=True)
class Broken(feddr.FedDR):
    """A client with a small step size sends a NaN."""

    def finish(self, c: FedDRClient, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[FedDRClient, Tree]:
        state, upload = super().finish(c, xbar, sub, solution)
        return state, tree.scale(math.nan, upload) if sub.eta < 0.03 else upload


def test_updates_that_are_skipped_are_missing() -> None:
    problem = make(0)
    algorithm = Broken(eta=[0.04, 0.04, 0.04, 0.02], alpha=1.0)
    found = certificate(run(problem, algorithm, on_bad_client="skip", sampling=feddr.sampling.Uniform(3)))
    assert failing(found) == {"arrivals"}


def on_demand(problem: feddr.Problem) -> feddr.Problem:
    """The same federation with samples that are made on demand, and metrics of its first client alone."""
    data = feddr.FederatedData.generated(problem.data.client, problem.data.sizes, panel=[0])
    return replace(problem, data=data)


@pytest.mark.parametrize("known", [True, False], ids=["known", "estimated"])
def test_a_panel_changes_no_certificate_and_no_recommendation(known: bool) -> None:
    """A theorem is about all clients: L, V, F and the gradient mapping are theirs, whoever the metrics are of."""
    problem = make(0, feddr.prox.L1(0.01), known=known)
    made = on_demand(problem)
    assert abs(made.F(made.init) - problem.F(problem.init)) > 0.01
    ours, theirs = (feddr.theory.recommend(one) for one in (made, problem))
    assert (ours.alpha, ours.eta) == pytest.approx((theirs.alpha, theirs.eta), rel=1e-6)
    assert ours.reasons == theirs.reasons
    algorithm = feddr.FedDR(eta=0.02, alpha=1.0)
    found, expected = (certificate(run(one, algorithm)) for one in (made, problem))
    assert expected.certified
    assert found.certified
    assert (found.measured, found.bound) == pytest.approx((expected.measured, expected.bound), rel=1e-8)
    assert found.facts["V at the start"] == pytest.approx(problem.F(problem.init), rel=1e-12)
    assert found.hypotheses == expected.hypotheses
