"""Step sizes for a problem: what the theory recommends once the smoothness is known."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from feddr.theory.choice import choose
from feddr.theory.smoothness import Smoothness, smoothness
from feddr.theory.tuning import Recommendation, recommend_for

if TYPE_CHECKING:
    from feddr.algorithms.algorithm import ProblemLike
    from feddr.problem import Problem
    from feddr.sampling import Sampling


def recommend(
    problem: "Problem",
    sampling: "Sampling | None" = None,
    *,
    alpha: float | None = None,
    eta: float | Sequence[float] | None = None,
    F_star: float | None = None,
    exact: bool = False,
    M: float | None = None,
    theta_hat: float | None = None,
    tau: int | None = None,
    T: int | None = None,
    points: Sequence[Any] = (),
    met: Mapping[int, tuple[float, float]] | None = None,
    curvature: Smoothness | None = None,
) -> Recommendation:
    """Return the (alpha, eta) with the best guarantee for a problem and a sampling scheme, with the reasons.

    Parameters
    ----------
    sampling
        Who takes part in a round; everybody by default.
    alpha, eta
        One of them, where it is given and the other is wanted. A list has a step size for each client; the eta that is
        returned is then the server's, and L the one of ``feddr.algorithms.step_sizes``.
    F_star
        A lower bound of F. None takes 0, right where losses and g are not negative; where F(x^0) is below that, no
        bound is known, and the gap is taken to be 1.
    exact, M, theta_hat, tau, T
        As in ``tuning.recommend_for``. For delays and weights that differ, the constants are those of 1 / max_i w_i
        equal clients.
    points
        Where else to look at the curvature of a loss that has no known bounds, such as the end of an earlier run.
    met
        Curvatures that clients met on their way, by client: ``result.state.met`` of an earlier run.
    curvature
        The smoothness, where it is known; None estimates it, from ``points`` and ``met``, too.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 3)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> best = feddr.theory.recommend(problem, feddr.sampling.Uniform(1), exact=True)
    >>> best.alpha < 2 and best.eta < 1 / 1.5
    True
    """
    from feddr.sampling import Full, p_hat

    if curvature is None:
        curvature = smoothness(problem, points).including(met or {})
    n = problem.data.num_clients
    p = p_hat(Full() if sampling is None else sampling, n)
    gap, about_gap = start_gap(problem, F_star)
    L, weights = curvature.L, problem.client_weights
    if isinstance(eta, Sequence):
        etas = np.array(eta)
        eta = 1.0 / float(np.sum(weights / etas))
        weights = eta * weights / etas
        L = float(np.max(etas * curvature.per_client)) / eta
    gap, largest = max(gap, 1e-12), float(weights.max())
    delays: dict[str, Any] = {"tau": tau, "T": T, "largest_weight": None if largest * n < 1 + 1e-9 else largest}
    if alpha is None and eta is None:
        best = recommend_for(L, n, p, exact=exact, gap=gap, M=M, theta_hat=theta_hat, **delays)
    else:
        budget = 0.0 if exact or tau is not None else gap / L if M is None else M
        best = choose(L, n, p, alpha=alpha, eta=eta, gap=gap, M=budget, **delays)
    return dataclasses.replace(best, reasons=(f"{curvature.words(L)}.", *about_gap, *best.reasons))


def start_gap(problem: "Problem", F_star: float | None = None) -> tuple[float, tuple[str, ...]]:
    """Return F(x^0) - F_star, and what there is to say about it; ``recommend`` says what None stands for.

    Where g is infinite at x^0, which then lies outside of a set, F is taken where the server's first prox leads to.

    Raises
    ------
    ValueError
        Where F_star is not a lower bound of F, or f is not finite at x^0.
    """
    from feddr import tree
    from feddr.prox.compiled import compiled_prox

    x = problem.init
    words: tuple[str, ...] = ()
    start = _objective(problem, x)
    if start == math.inf and math.isfinite(problem.f(x)):
        start = _objective(problem, compiled_prox(problem.regulariser)(tree.cast(x, np.float64), 1.0))
        words = ("g is infinite at x^0: the gap is that of prox_g(x^0), to which the server brings xbar.",)
    if not math.isfinite(start):
        raise ValueError(f"F must be finite at the start, got {start}; give another init.")
    if F_star is None and start < 0:
        return 1.0, (*words, "F(x^0) is below 0, and no lower bound of F is known: the gap is taken to be 1.")
    F_star = F_star or 0.0
    if start < F_star:
        raise ValueError(f"F_star must be a lower bound of F, got {F_star} above F(x^0) = {start:.6g}; give one.")
    return start - F_star, words


def _objective(problem: "Problem", x: Any) -> float:
    """Return F(x) over all clients, as L is, also where metrics are those of a panel."""
    if problem.data.on_demand is None:
        return problem.F(x)
    from feddr import precision, tree

    x = tree.cast(x, np.float64)
    with precision.scope(np.float64):
        return problem.value_and_gradient(x)[0] + float(problem.regulariser.value(x))


class Resolved(NamedTuple):
    """An algorithm with numbers for eta and alpha, and how they were chosen.

    Parameters
    ----------
    algorithm
        With nothing left "auto".
    words
        How the numbers were chosen, with all reasons; none where they were given.
    smoothness
        The one that they were chosen for, where the theory chose them.
    recommend
        From another smoothness to what the theory would have chosen for it.
    in_short
        The words for a terminal, where they are many.
    """

    algorithm: Any
    words: str = ""
    smoothness: Smoothness | None = None
    recommend: Callable[[Smoothness], Recommendation] | None = None
    in_short: str = ""


class CurvatureWarning(UserWarning):
    """Step sizes that were chosen for a smoothness L, in a run whose clients met a larger one."""


def review(chosen: Resolved, met: Mapping[int, tuple[float, float]]) -> None:
    """Warn, at the end of a run, where the clients met more curvature than the step sizes were chosen for."""
    if chosen.smoothness is None or chosen.recommend is None:
        return
    wider = chosen.smoothness.including(met)
    if wider.L > (1 + ROUNDING) * chosen.smoothness.L:
        better = chosen.recommend(wider)
        warnings.warn(
            f"The step sizes of {type(chosen.algorithm).__name__} were chosen for an estimated smoothness of "
            f"L = {chosen.smoothness.L:.4g}, and clients met {wider.L:.4g} on their way: nothing is guaranteed. "
            f"For that the theory recommends eta={better.eta:.4g}, alpha={better.alpha:.4g}.",
            CurvatureWarning,
            stacklevel=3,
        )


ROUNDING = 0.01
"""By how much a larger L is no news: estimates are that far off."""


def resolve(algorithm: Any, problem: "Problem | ProblemLike", sampling: "Sampling", local: Any) -> Resolved:
    """Return the algorithm with nothing left "auto", and how it was chosen; warn of an alpha below 1.

    It prints nothing: whoever faces the user shows the words (``EngineOptions.announce`` in the engines).

    Parameters
    ----------
    local
        Decides where the numbers come from: a solver of fixed work leads to ``fixed_work``, a certified one to
        ``recommend``, with the theorem on relative accuracies where its stopping rule is relative.

    Raises
    ------
    ValueError
        Where the solver does not say how long its work is.
    """
    from feddr.algorithms import FedDR  # JAX would keep ``feddr theory`` waiting
    from feddr.theory import fixed_work

    if isinstance(algorithm, FedDR):
        algorithm = algorithm.settled(local.certified)
    participation = float(np.mean(sampling.probabilities(problem.data.num_clients)))
    if "auto" not in (_of(algorithm, "eta"), _of(algorithm, "alpha")):
        resolved = Resolved(algorithm)
    elif local.certified:
        resolved = _recommended(algorithm, problem, sampling, local)
    else:
        work = fixed_work.work(local, problem.data.sizes) if _of(algorithm, "eta") == "auto" else None
        federation = fixed_work.StepSizeInputs(problem.client_weights, participation, problem.regulariser, problem.init)
        resolved = Resolved(*fixed_work.choose(algorithm, work, federation))
        if work is not None and callable(getattr(local, "lr", None) or getattr(local, "schedule", None)):
            resolved = resolved._replace(words=f"{resolved.words} lr is that of the first round.")
    if not local.certified:
        fixed_work.warn(resolved.algorithm, participation)
    return resolved


def _recommended(algorithm: Any, problem: Any, sampling: "Sampling", local: Any) -> Resolved:
    fixed = {name: _of(algorithm, name) for name in ("alpha", "eta") if _of(algorithm, name) != "auto"}
    tau, theta_hat = _of(algorithm, "tau"), getattr(getattr(local, "stopping", None), "theta_hat", None)
    more: dict[str, Any] = {} if fixed else {"theta_hat": theta_hat}
    if tau is not None:
        more = {"tau": tau, "T": problem.data.num_clients - 1}
    curvature = smoothness(problem)

    def recommendation(curvature: Smoothness) -> Recommendation:
        return recommend(problem, sampling, curvature=curvature, **fixed, **more)

    best = recommendation(curvature)
    numbers = f"alpha = {best.alpha:.4g}, eta = {best.eta:.4g}"
    words = " ".join((f"{numbers}.", *best.reasons))
    in_short = (
        f"{numbers}, as theory recommends. {best.reasons[0]} Larger step sizes often do better, without a guarantee; "
        "the settings of the run (step_sizes) have the reasons."
    )
    algorithm = dataclasses.replace(algorithm, **{"alpha": best.alpha, "eta": best.eta, **fixed})
    return Resolved(algorithm, words, curvature, recommendation, in_short)


def _of(algorithm: Any, name: str) -> Any:
    return getattr(algorithm, name, None)
