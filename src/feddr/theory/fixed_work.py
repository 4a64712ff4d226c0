"""Step sizes for local solvers of fixed work, such as SGD for some epochs: a rule that was found by measurement.

What counts is eta_i beside the length T_i of the client's work, lr x steps: far below it the proximal term holds the
client at y_i, far above it the term does nothing. Where lr changes from round to round, T_i has that of the first. With
T the mean of the T_i and p the share of clients in a round,

    eta_i = C sqrt(p) T (T_i / T)^Q,    alpha_k = 1 + A sqrt(p) / (1 + k / DECAY)^2

where k counts the updates of a client. Clients with more work have larger step sizes, and count for less in the
server's mean, but for less than in proportion. The fewer take part, the longer an error of one round is remembered:
step sizes are smaller, and so is the damping of the momentum, which reaches a client only when it takes part. Damping
helps at the start, where xbar moves far; later it holds xbar back, so that it decays.

A penalty g is the server's affair, whose prox_{eta g} sets entries below eta times the strength of an l1 norm to zero.
A network that is all zero hardly moves again. xbar shrinks from the first round on, and the clients' memory, which
counters that, needs about eta / (p T) rounds to form. So all step sizes are lowered together until

    || prox_{K eta g}(x^0) || >= KEPT || x^0 ||,    K = max(1, eta / (B p T))

where K stands for the rounds whose shrinkage adds up. docs/WHY.md has the reasons. Nothing is guaranteed.
"""

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.tree import Tree

if TYPE_CHECKING:
    from feddr.local import LocalSolver
    from feddr.prox import Regulariser

C, Q, A, DECAY = 20.0, 0.75, 0.1, 20.0
KEPT, B = 0.7, 6.0
ALPHA_ASYNCHRONOUS = 1.2
"""The relaxation where clients are heard one at a time; eta_i is then as for p = 1."""


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
    lengths = [None if length is None else length(int(size)) for size in distinct]
    if any(one is None or not 0 < one < float("inf") for one in lengths):
        raise ValueError(
            f'"auto" needs to know the length of the local work, which {local} does not say; '
            "give eta a number, or the solver a method work(size)."
        )
    return np.array(lengths, np.float64)[which]


def etas(work: NDArray[np.float64], participation: float = 1.0) -> NDArray[np.float64]:
    """Return the step sizes of clients whose work has these lengths, and of whom such a share takes part in a round.

    Examples
    --------
    >>> etas(np.array([1.0, 1.0]), participation=0.25)
    array([10., 10.])
    """
    mean = float(np.mean(work))
    return C * math.sqrt(participation) * mean * (work / mean) ** Q


class StepSizeInputs(NamedTuple):
    """What the step sizes of a run follow from.

    Parameters
    ----------
    weights
        The weights w_i of the clients.
    participation
        The share of clients that takes part in a round, on average.
    g, x0
        The regulariser and the start.
    """

    weights: NDArray[np.float64]
    participation: float
    g: "Regulariser"
    x0: Tree


def choose(algorithm: Any, work: NDArray[np.float64] | None, federation: StepSizeInputs) -> tuple[Any, str]:
    """Return the algorithm with numbers where its eta or alpha is "auto", and how they were chosen.

    Parameters
    ----------
    algorithm
        ``FedDR`` or ``AsyncFedDR``.
    work
        The length of each client's work; only needed where eta is "auto".
    federation
        What else counts.

    Examples
    --------
    >>> import feddr
    >>> two = StepSizeInputs(np.array([0.5, 0.5]), 1.0, feddr.prox.Zero(), np.zeros(3))
    >>> choose(feddr.FedDR(), np.array([0.5, 0.5]), two)[0]
    FedDR(eta=10.0, alpha=1.1, init='auto', start='xbar', mean='auto', alpha_decay=20.0)
    """
    chosen: dict[str, Any] = {}
    words = []
    p = 1.0 if hasattr(algorithm, "buffer") else federation.participation
    if algorithm.alpha == "auto":
        chosen["alpha"] = relaxation(algorithm, p)
        words.append(f"alpha = {chosen['alpha']:.4g}")
        if algorithm.alpha_decay is None:
            chosen["alpha_decay"] = DECAY
            words[-1] += f", falling to 1 with alpha_decay = {DECAY:g}"
    if algorithm.eta == "auto":
        assert work is not None
        sizes, mean = etas(work, p), float(np.mean(work))
        bearable = largest(federation.g, federation.x0, 1.0 / float(np.sum(federation.weights / sizes)), p * mean)
        sizes = sizes * bearable
        low, high = float(sizes.min()), float(sizes.max())
        chosen["eta"] = low if low == high else sizes.tolist()
        factor = f"{C * math.sqrt(p) * bearable:.3g}"
        length = f"the mean length T = {mean:.4g} of the local work, lr x steps"
        if low == high:
            words.append(f"eta = {low:.4g}, {factor} times {length}")
        else:
            words.append(f"eta_i = {factor} T (T_i / T)^{Q:g}, from {low:.4g} to {high:.4g}, with {length}")
        if bearable < 1:
            words.append(
                f"{1 / bearable:.3g} times smaller than without g = {federation.g}, which could empty the model"
            )
    return dataclasses.replace(algorithm, **chosen), "; ".join(words) + "."


def relaxation(algorithm: Any, participation: float) -> float:
    """Return the alpha that "auto" begins with, where so large a share of the clients takes part in a round.

    Examples
    --------
    >>> import feddr
    >>> relaxation(feddr.FedDR(), participation=1.0), relaxation(feddr.AsyncFedDR(), participation=1.0)
    (1.1, 1.2)
    """
    return ALPHA_ASYNCHRONOUS if hasattr(algorithm, "buffer") else 1.0 + A * math.sqrt(participation)


def largest(g: "Regulariser", x0: Tree, eta: float, pace: float) -> float:
    """Return the largest factor, up to 1, such that g leaves the start enough of its norm with that part of eta.

    pace is p T, the mean length of the work that a client does in a round, of all clients. The factor is 1 where none
    helps: for constraints, whose prox does not depend on eta, and for a start at zero.
    """

    def kept(factor: float) -> float:
        part = factor * eta
        with precision.scope(np.float64):
            return tree.norm(tree.map(np.asarray, g.prox(start, part * max(1.0, part / (B * pace)))))

    start = tree.cast(x0, np.float64)
    enough = KEPT * tree.norm(start)
    low, high = 1e-9, 1.0
    if kept(high) >= enough or kept(low) < enough:
        return 1.0
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) >= enough else (low, middle)
    return low


def warn(algorithm: Any, participation: float) -> None:
    """Warn of step sizes that amplify: with a start at xbar the momentum of xbar is 2 - alpha.

    Parameters
    ----------
    algorithm
        With numbers for "auto"; one without alpha never amplifies.
    participation
        The share of clients that takes part in a round, on average.
    """
    alpha = getattr(algorithm, "alpha", 2.0)
    if getattr(algorithm, "start", "own") == "xbar" and alpha < 1:
        warnings.warn(
            f"alpha should be at least 1 where local work has a fixed length and starts at xbar, got {alpha:g}: xbar "
            f"has the momentum 2 - alpha = {2 - alpha:g}, which amplifies. Leave alpha out, which "
            f"takes {relaxation(algorithm, participation):.4g} here, or use start='own'.",
            StepSizeWarning,
            stacklevel=4,
        )
