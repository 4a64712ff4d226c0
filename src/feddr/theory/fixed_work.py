"""Step sizes for local solvers of fixed work, such as SGD for some epochs: a rule that was found by measurement.

What counts is eta_i beside the length T_i of the client's work, lr x steps: far below it the proximal term holds the
client at y_i, far above it the term does nothing. With T the mean of the T_i,

    eta_i = C T (T_i / T)^Q

Clients with more work have larger step sizes, and count for less in the server's mean, but for less than in
proportion. docs/WHY.md has the reasons and docs/REPRODUCTION.md the figures. Nothing is guaranteed.
"""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from feddr.local import LocalSolver

C, Q = 20.0, 0.75
ALPHA, ALPHA_ASYNCHRONOUS = 1.1, 1.2
"""Relaxations: xbar has the momentum 2 - alpha."""


class StepSizeWarning(UserWarning):
    """Step sizes with which a run may grow without bound."""


def work(local: "LocalSolver", sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the length of the local work of clients with so many samples each.

    Raises
    ------
    ValueError
        Where the solver does not say it.
    """
    length: Any = getattr(local, "work", None)
    distinct, which = np.unique(sizes, return_inverse=True)
    found = [None if length is None else length(int(size)) for size in distinct]
    if any(one is None or not 0 < one < float("inf") for one in found):
        raise ValueError(
            f'"auto" needs to know the length of the local work, which {local} does not say; '
            "give eta a number, or the solver a method work(size)."
        )
    return np.array(found, np.float64)[which]


def etas(work: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the step sizes of clients whose work has these lengths.

    Examples
    --------
    >>> etas(np.array([1.0, 1.0]))
    array([20., 20.])
    """
    mean = float(np.mean(work))
    return C * mean * (work / mean) ** Q


def choose(algorithm: Any, work: NDArray[np.float64] | None) -> tuple[Any, str]:
    """Return the algorithm with numbers where its eta or alpha is "auto", and how they were chosen.

    Parameters
    ----------
    algorithm
        ``FedDR`` or ``AsyncFedDR``.
    work
        The length of each client's work; only needed where eta is "auto".

    Examples
    --------
    >>> import feddr
    >>> choose(feddr.FedDR(), np.array([0.5, 0.5]))[0]
    FedDR(eta=10.0, alpha=1.1, init='lazy', start='xbar')
    """
    chosen: dict[str, Any] = {}
    words = []
    if algorithm.alpha == "auto":
        chosen["alpha"] = ALPHA_ASYNCHRONOUS if hasattr(algorithm, "buffer") else ALPHA
        words.append(f"alpha = {chosen['alpha']:g}")
    if algorithm.eta == "auto":
        assert work is not None
        found, mean = etas(work), float(np.mean(work))
        low, high = float(found.min()), float(found.max())
        chosen["eta"] = low if low == high else found.tolist()
        length = f"the mean length T = {mean:.4g} of the local work, lr x steps"
        if low == high:
            words.append(f"eta = {low:.4g}, {C:g} times {length}")
        else:
            words.append(f"eta_i = {C:g} T (T_i / T)^{Q:g}, from {low:.4g} to {high:.4g}, with {length}")
    return dataclasses.replace(algorithm, **chosen), "; ".join(words) + "."


def warn(algorithm: Any) -> None:
    """Warn of step sizes that amplify: with a start at xbar the momentum of xbar is 2 - alpha."""
    alpha = getattr(algorithm, "alpha", 2.0)
    if getattr(algorithm, "start", "own") == "xbar" and alpha < 1:
        warnings.warn(
            f"alpha should be at least 1 where local work has a fixed length and starts at xbar, got {alpha:g}: xbar "
            f"has the momentum 2 - alpha = {2 - alpha:g}, which amplifies. Take alpha = 1.1, or start='own'.",
            StepSizeWarning,
            stacklevel=4,
        )
