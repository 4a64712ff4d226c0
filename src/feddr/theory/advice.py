"""Step sizes for a problem: what the theory recommends once the smoothness is known."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from feddr.theory.choice import choose
from feddr.theory.smoothness import smoothness
from feddr.theory.tuning import Recommendation, recommend_for

if TYPE_CHECKING:
    from feddr.problem import Problem
    from feddr.sampling import Sampling


def recommend(
    problem: "Problem",
    sampling: "Sampling | None" = None,
    *,
    alpha: float | None = None,
    eta: float | None = None,
    F_star: float = 0.0,
    exact: bool = False,
    M: float | None = None,
    theta_hat: float | None = None,
    tau: int | None = None,
    T: int | None = None,
) -> Recommendation:
    """Return the (alpha, eta) with the best guarantee for a problem and a sampling scheme, with the reasons.

    Parameters
    ----------
    sampling
        Who takes part in a round; everybody by default.
    alpha, eta
        One of them, where it is given and the other is wanted.
    F_star
        A lower bound of F: 0 where losses and g are not negative.
    exact, M, theta_hat, tau, T
        As in ``tuning.recommend_for``.

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

    n = problem.data.num_clients
    p = p_hat(Full() if sampling is None else sampling, n)
    found = smoothness(problem)
    gap = max(problem.F(problem.init) - F_star, 1e-12)
    if alpha is None and eta is None:
        best = recommend_for(found.L, n, p, exact=exact, gap=gap, M=M, theta_hat=theta_hat, tau=tau, T=T)
    else:
        budget = 0.0 if exact or tau is not None else gap / found.L if M is None else M
        best = choose(found.L, n, p, alpha=alpha, eta=eta, gap=gap, M=budget, tau=tau, T=T)
    how = "is known for this loss" if found.exact else "is an estimate at the start, by Lanczos iteration"
    return dataclasses.replace(best, reasons=(f"The smoothness L = {found.L:.4g} {how}.", *best.reasons))


def resolve(algorithm: Any, problem: "Problem", sampling: "Sampling", local: Any, **given: Any) -> Any:
    """Return the algorithm with the recommended numbers where its eta or alpha is "auto", and print them.

    A relative stopping rule of the local solver leads to the theorem for it. ``given`` holds the eta or alpha that
    replace those of the algorithm, "auto" among them.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if given:
        missing = [name for name in given if not hasattr(algorithm, name)]
        if missing:
            name, value = missing[0], given[missing[0]]
            raise ValueError(
                f"{type(algorithm).__name__} has no {name}, got {name}={value!r}; leave it out, or use FedDR."
            )
        algorithm = dataclasses.replace(algorithm, **given)
    auto = [name for name in ("alpha", "eta") if getattr(algorithm, name, None) == "auto"]
    if not auto:
        return algorithm
    fixed = {name: getattr(algorithm, name) for name in ("alpha", "eta") if name not in auto}
    tau, theta_hat = getattr(algorithm, "tau", None), getattr(getattr(local, "stopping", None), "theta_hat", None)
    more: dict[str, Any] = {} if fixed else {"theta_hat": theta_hat}
    if tau is not None:
        more = {"tau": tau, "T": problem.data.num_clients - 1}
    best = recommend(problem, sampling, **fixed, **more)
    chosen = dataclasses.replace(algorithm, alpha=best.alpha, eta=best.eta)
    print(
        f"Recommended for {type(algorithm).__name__}: alpha = {best.alpha:.4g}, eta = {best.eta:.4g}.", file=sys.stderr
    )
    for reason in best.reasons:
        print(f"  {reason}", file=sys.stderr)
    return chosen
