"""Errors and warnings of runs: divergence (NaN, infinity), growth of F, a solver that misses its stopping rule."""

import math
import warnings
from typing import Any

import numpy as np

from feddr import tree
from feddr.engines.shared.aggregation import finite
from feddr.history import History
from feddr.local import Solution
from feddr.tree import Tree


class DivergedError(FloatingPointError):
    """A run met a NaN or an infinity.

    Parameters
    ----------
    client
        Who sent it, or whose samples hold it; None where that cannot be said.
    round_
        The round that could not be completed.
    step
        The first local step of the client after which a number was not finite, 0 where it began with one; None where
        it was none of its steps.
    last_good_round
        The round whose state the engine still has, none of it spoilt; None where it has been overwritten.

    Attributes
    ----------
    history
        The rows up to then.

    Examples
    --------
    >>> error = DivergedError("Client 3 sent a NaN in round 7; try a smaller lr.", client=3, round_=7)
    >>> error.client, error.round
    (3, 7)
    """

    def __init__(
        self, message: str, client: int | None, round_: int, step: int | None = None, last_good_round: int | None = None
    ) -> None:
        super().__init__(message)
        self.client, self.round, self.step, self.last_good_round = client, round_, step, last_good_round
        self.history = History()


class DivergenceWarning(UserWarning):
    """F has grown far beyond its first value, and may grow without bound."""


class AccuracyWarning(UserWarning):
    """A certified solver ended before its stopping rule held, and rounding does not explain it."""


class WorkerWarning(UserWarning):
    """A worker of a cluster died, and another one has taken its place."""


def check_finite(upload: Tree, client: int, round_: int, local: Any, algorithm: Any) -> None:
    """Stop a run whose client sends a NaN or an infinity."""
    if not finite(upload):
        raise DivergedError(
            f"Client {client} sent a number that is not finite in round {round_}. The local steps are probably "
            f"too long: {shorter(local, algorithm)}; else look at its samples.",
            client,
            round_,
        )


def shorter(local: Any, algorithm: Any) -> str:
    """Return what makes local steps shorter: a certified solver has no learning rate, it finds its steps itself.

    A server does not know the solvers of its clients, and names the clients instead. Not every algorithm has an eta.
    """
    ways = [] if getattr(local, "certified", False) else [f"the learning rate of {local}"]
    ways += [f"the eta of {algorithm}"] if hasattr(algorithm, "eta") or not ways else []
    return f"lower {', or '.join(ways)}"


def inaccurate(solution: Solution) -> bool:
    """Return whether a solver missed its stopping rule by more than rounding, half of the digits of x."""
    if not solution.missed:
        return False
    eps = max(np.finfo(leaf.dtype).eps for leaf in tree.leaves(solution.x))
    return not float(solution.error) <= math.sqrt(eps) * (1 + tree.norm(solution.x))


def warn_inaccurate(solution: Solution, client: int, round_: int, local: Any, algorithm: Any) -> None:
    """Warn of a solver that missed its stopping rule."""
    warnings.warn(
        f"The prox of client {client} in round {round_} may be wrong by {float(solution.error):.3g}: {local} ended "
        f"after {int(solution.steps)} gradients, before its stopping rule held. Lower the eta of {algorithm}, raise "
        "max_steps, or give the problem curvature=(l, L) with bounds that hold everywhere.",
        AccuracyWarning,
        stacklevel=5,
    )
