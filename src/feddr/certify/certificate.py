"""The certificate of a run: which theorem applies, whether its hypotheses hold, how far inside its bound it was."""

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from feddr import tree
from feddr.algorithms import Asynchronous, FedDR
from feddr.certify.measure import RoundMeasurements
from feddr.local import Accelerated, LocalSolver, Relative
from feddr.sampling import Full, p_hat
from feddr.theory import relative, synchronous
from feddr.theory.smoothness import smoothness

if TYPE_CHECKING:
    from feddr.algorithms.algorithm import ProblemLike
    from feddr.engines.result import Result

BOOKKEEPING = 1e-9
"""The largest relative gap in (INV) that counts as rounding."""

EXACT_START = 1e-8
"""The largest error of a start that counts as exact."""


@dataclass(frozen=True)
class Hypothesis:
    """A condition of a theorem, with the value that was found.

    Examples
    --------
    >>> Hypothesis("step size", "eta < 0.5", "0.3", holds=True)
    Hypothesis(name='step size', requirement='eta < 0.5', value='0.3', holds=True)
    """

    name: str
    requirement: str
    value: str
    holds: bool


@dataclass(frozen=True)
class Certificate:
    """What a run has shown.

    Parameters
    ----------
    theorem
        The theorem that was applied.
    hypotheses
        Its conditions, with the values of this run.
    measured
        The average of ||G_eta(xbar^k)||^2 over the rounds that the theorem covers.
    bound
        The theorem's bound on its expectation, NaN where a hypothesis fails.
    facts
        Other measurements: the Lyapunov value at both ends and its largest rise, the errors of the proximal steps.
    refusals
        Why nothing can be certified, if so.
    estimated
        Whether the smoothness is an estimate: what is certified then holds if the estimate does.

    Examples
    --------
    >>> found = Certificate("Theorem 3.1", (), measured=0.2, bound=4.0, facts={}, refusals=())
    >>> found.certified, found.ratio
    (True, 0.05)
    """

    theorem: str
    hypotheses: tuple[Hypothesis, ...]
    measured: float
    bound: float
    facts: dict[str, float]
    refusals: tuple[str, ...]
    estimated: bool = False

    @property
    def certified(self) -> bool:
        """Whether every hypothesis holds and the run lies within the bound."""
        return not self.refusals and all(h.holds for h in self.hypotheses) and self.measured <= self.bound

    @property
    def ratio(self) -> float:
        """The measured average over its bound: how far inside the run was."""
        return self.measured / self.bound

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values for JSON, None for what is not a number."""
        plain = dataclasses.asdict(self) | {"certified": self.certified, "ratio": self.ratio}
        return {key: _finite(value) for key, value in plain.items()}

    def __str__(self) -> str:
        mark = {True: "holds", False: "FAILS"}
        verdict = "certified, if the estimate of L is right" if self.estimated else "certified"
        lines = [f"{self.theorem}: {verdict if self.certified else 'NOT certified'}"]
        lines += [f"  {h.name}: {h.value} ({h.requirement}): {mark[h.holds]}" for h in self.hypotheses]
        if not math.isnan(self.bound):
            lines.append(
                f"  average of ||G_eta||^2: {self.measured:.4g}, bound {self.bound:.4g}, ratio {self.ratio:.3g}"
            )
        lines += [f"  {name}: {value:.4g}" for name, value in self.facts.items()]
        lines += [f"  refused: {reason}" for reason in self.refusals]
        return "\n".join(lines)


def certificate(result: "Result", *, F_star: float = 0.0) -> Certificate:
    """Return the certificate of a run of FedDR.

    Parameters
    ----------
    result
        Of ``simulate(..., certify=True)``, which measures every round; without that there is nothing to compare with a
        bound.
    F_star
        A lower bound of F: 0 where losses and g are not negative.

    Notes
    -----
    A theorem bounds an expectation over the sampling; one run may lie above it, though the bounds are wide. It is
    applied with the errors that were measured, round by round, not with those that were asked for.

    The p_i are those of the sampling scheme, so all who are drawn must take part. Where updates were lost, late or
    skipped, clients took part less often, nobody knows how often, and nothing is certified.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> algorithm, solver = feddr.FedDR(eta=0.3, alpha=1.0), feddr.local.Accelerated(1e-6)
    >>> result = feddr.simulate(problem, algorithm, local=solver, rounds=1, certify=True)
    >>> found = certificate(result)
    >>> found.certified, found.measured <= found.bound
    (True, True)
    """
    problem, algorithm, local, watch = result.problem, result.algorithm, result.local, result.watch
    by_relative = isinstance(local, Accelerated) and isinstance(local.stopping, Relative)
    theorem = "Theorem on relative accuracies" if by_relative else "Theorem 3.1 (FedDR, inexact)"
    refusals = _refusals(algorithm, local, watch)
    if refusals:
        return Certificate(theorem, (), math.nan, math.nan, {}, refusals)
    assert isinstance(algorithm, FedDR)
    assert watch is not None
    assert result.sampling is not None

    begin = _beginning(watch)
    rounds = watch.rounds[begin:]
    # With step sizes of their own the theorems hold for (v_i, (eta_i / eta) f_i): feddr.algorithms.step_sizes.
    alpha, eta = float(algorithm.alpha), float(watch.roles.server.eta)
    p = p_hat(result.sampling, problem.data.num_clients)
    L, looser = _end_of_run(watch)
    # xbar^0 = prox(xtilde^0) is what covers k = 0; the lazy start has xbar^0 = x^0 instead.
    first = 0 if begin or algorithm.init != "lazy" or _minimises_g(problem, eta) else 1
    counted = [m.gradient_mapping**2 for m in rounds[first:-1]]
    K = len(rounds) - 2
    measured = float(np.sum(counted)) / (K + 1)
    M = looser * float(np.sum([m.errors for m in rounds]))
    gap = max(rounds[0].lyapunov - F_star, 0.0)
    largest_error = math.sqrt(looser * max(m.errors for m in rounds))
    bookkeeping = max(m.bookkeeping for m in rounds)
    lowest = min(m.F for m in rounds)
    limit = synchronous.alpha_max()
    start_up, *later = watch.rounds
    asked, missing = (int(sum(column)) for column in zip(*((m.asked, m.missing) for m in later), strict=True))
    absent = int(start_up.missing)
    hypotheses = [
        Hypothesis(
            "smoothness L",
            "known" if watch.smoothness.exact else "an estimate at both ends of the run and along the clients' steps",
            f"{L:.4g}",
            L > 0,
        ),
        Hypothesis("participation p_hat", "in (0, 1]", f"{p:.4g}", 0 < p <= 1),
        Hypothesis(
            "arrivals",
            "every update that was asked for",
            f"{missing} of {asked} missing" if missing else f"all {asked}",
            not missing,
        ),
        Hypothesis("relaxation alpha", f"in (0, {limit:.4g})", f"{alpha:.4g}", 0 < alpha < limit),
        Hypothesis("alpha_decay", "None", str(algorithm.alpha_decay), algorithm.alpha_decay is None),
        Hypothesis("lower bound F_star", f"at most {lowest:.4g}, the least F", f"{F_star:.4g}", F_star <= lowest),
        Hypothesis("bookkeeping (INV)", f"at most {BOOKKEEPING:g}", f"{bookkeeping:.2g}", bookkeeping <= BOOKKEEPING),
        Hypothesis(
            "start",
            "lazy, or full with everybody",
            f"{algorithm.init}, {absent} of {problem.data.num_clients} missing" if absent else algorithm.init,
            algorithm.init in ("lazy", "full") and not absent,
        ),
        Hypothesis(
            "mean",
            "of all clients, or everybody takes part",
            algorithm.mean,
            algorithm.mean == "all" or (isinstance(result.sampling, Full) and not missing),
        ),
        Hypothesis(
            "uploads",
            "every bit",
            "every bit" if algorithm.upload is None else repr(algorithm.upload),
            algorithm.upload is None,
        ),
        Hypothesis(
            "broadcasts",
            "every bit",
            "every bit" if algorithm.download is None else repr(algorithm.download),
            algorithm.download is None,
        ),
    ]
    bound = math.nan
    if by_relative:
        assert isinstance(local, Accelerated)
        assert isinstance(local.stopping, Relative)
        # What was reached, not what was asked for: rounding or max_steps may have stopped the solver before its rule.
        theta = max(local.stopping.theta_hat, looser * max(m.relative for m in rounds[1:]))
        start = math.sqrt(looser * rounds[0].errors)
        admissible = theta < relative.THETA_LIMIT
        largest = relative.eta_max(theta, L) if admissible and L > 0 else math.nan
        hypotheses += [
            Hypothesis("relaxation alpha", "exactly 1", f"{alpha:.4g}", alpha == 1.0),
            Hypothesis("theta_hat, as reached", f"below {relative.THETA_LIMIT:.4g}", f"{theta:.4g}", admissible),
            Hypothesis("error of the start", f"at most {EXACT_START:g}", f"{start:.2g}", start <= EXACT_START),
        ]
    else:
        largest = synchronous.eta_max(alpha, L) if 0 < alpha < limit and L > 0 else math.nan
    if 0 < eta < largest and all(h.holds for h in hypotheses):
        try:
            if by_relative:
                bound = relative.constants(L, p, eta, theta).bound(K, gap)
            else:
                constants = synchronous.constants(L, p, alpha, eta, gap=max(gap, 1e-12), M=max(M, 1e-300))
                bound = constants.bound(K, gap, M)
        except ValueError:
            largest = eta  # so close to the limit that rounding leaves no descent
    hypotheses.append(Hypothesis("step size eta", f"in (0, {largest:.4g})", f"{eta:.4g}", 0 < eta < largest))
    rises = np.diff([m.lyapunov for m in rounds])
    facts = {
        "V at the start": rounds[0].lyapunov,
        "V at the end": rounds[-1].lyapunov,
        "largest rise of V": float(max(rises.max(initial=0.0), 0.0)),
        "sum of squared prox errors": M,
        "largest prox error in a round": largest_error,
        "||G_eta|| at the end": rounds[-1].gradient_mapping,
    }
    return Certificate(theorem, tuple(hypotheses), measured, bound, facts, (), not watch.smoothness.exact)


def _end_of_run(watch: RoundMeasurements) -> tuple[float, float]:
    """Return L over both ends of the run and the clients' ways, and by how much the errors grow with what was found.

    Errors were measured with the curvature at the start; where that is an estimate, the rest may be more curved.
    """
    start = watch.smoothness
    etas = np.array([watch.roles.eta(i) for i in range(len(start.lowers))])
    scale = etas / float(watch.roles.server.eta)
    if start.exact:
        return float(np.max(scale * start.per_client)), 1.0
    end = smoothness(watch.problem, [watch.xbar]).including(watch.met)
    before, after = (1 / etas + np.minimum(bounds.lowers, 0.0) for bounds in (start, end))
    looser = float(np.max((before / after) ** 2)) if np.all(after > 0) else math.inf
    return float(np.max(scale * end.per_client)), looser


def _refusals(algorithm: Any, local: LocalSolver | None, watch: RoundMeasurements | None) -> tuple[str, ...]:
    if not isinstance(algorithm, FedDR) or isinstance(algorithm, Asynchronous):
        return (f"certificates are for FedDR, whose theorems are known, got {algorithm}.",)
    if local is None or not local.certified:
        return (
            f"no certified prox accuracy: {local} does a fixed amount of work; use Accelerated with a stopping rule.",
        )
    if watch is None or len(watch.rounds) < 2:
        return ("the rounds were not measured; run simulate(..., certify=True) for a round or more.",)
    if len(watch.rounds) - _beginning(watch) < 2:
        return ("g is infinite at x^0, and so is V until xbar is first computed; run a round more.",)
    if any(math.isnan(m.errors) for m in watch.rounds):
        return ("no certified prox accuracy: eta is not below 1/L, so the subproblems may not be convex; lower eta.",)
    return ()


def _beginning(watch: RoundMeasurements) -> int:
    """Return the first round in which V is finite: 0, unless the lazy start has xbar^0 = x^0 outside the set of g.

    The theorems hold from any round on, given what came before it, where xbar = prox_{eta g}(xtilde) there.
    """
    return next((k for k, m in enumerate(watch.rounds) if m.lyapunov < math.inf), len(watch.rounds))


def _minimises_g(problem: "ProblemLike", eta: float) -> bool:
    """Return whether x^0 is a fixed point of prox_{eta g}."""
    from feddr.prox.compiled import compiled_prox

    x0 = tree.cast(problem.init, np.float64)
    return tree.norm(tree.sub(compiled_prox(problem.regulariser)(x0, eta), x0)) <= 1e-12 * (1 + tree.norm(x0))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return value
