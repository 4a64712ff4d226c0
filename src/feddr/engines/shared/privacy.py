"""Privacy in an engine: a site's model is released before the rules see it, and what the rounds cost is counted."""

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from feddr.algorithms import Asynchronous, FedAvg
from feddr.algorithms.algorithm import HasRegulariser
from feddr.checkpoint import encoding
from feddr.local import LocalSolver, Solution, Subproblem
from feddr.privacy import SiteLevel, epsilon_of_models, epsilon_of_uploads
from feddr.privacy.accounting import check_models
from feddr.privacy.site_level import NormalNoise
from feddr.sampling import Sampling


def check_uploads(algorithm: Any) -> SiteLevel | None:
    """Return the privacy of a method, None without; refuse one whose uploads hold more than the released model."""
    privacy = getattr(algorithm, "privacy", None)
    if privacy is None:
        return None
    if not isinstance(privacy, SiteLevel):
        raise ValueError(f"privacy must be a feddr.privacy.SiteLevel, got {privacy!r}; None for no privacy.")
    if algorithm.needs_gradient:
        name = type(algorithm).__name__
        raise ValueError(f"{name} sends gradients, which SiteLevel does not clip; use FedDR or FedAvg, or no privacy.")
    return privacy


def check(algorithm: Any, problem: HasRegulariser, sampling: Sampling, local: LocalSolver) -> None:
    """Refuse a private method of which it is not known what its uploads tell.

    Raises
    ------
    ValueError
        Where uploads hold more of the data than the released model, step sizes follow from the data, or the adversary
        is to see the models alone and clients remember what they have sent.
    """
    privacy, name = check_uploads(algorithm), type(algorithm).__name__
    if privacy is None:
        return
    if local.certified and "auto" in (getattr(algorithm, "eta", None), getattr(algorithm, "alpha", None)):
        raise ValueError(
            f'With {type(local).__name__} "auto" looks at the curvature of the data, which nothing hides; give {name} '
            "eta and alpha as numbers, or use SGD."
        )
    if privacy.sees == "models":
        if not isinstance(algorithm, FedAvg) or isinstance(algorithm, Asynchronous) or algorithm.upload is not None:
            raise ValueError(
                f'sees="models" needs clients that remember nothing, got {algorithm}: what they remember of their '
                'noise shows in later sums; use sees="uploads", or FedAvg without compression.'
            )
        weights: Any = getattr(problem, "client_weights", None)
        check_models(sampling, weights)


def released(rules: Any, local: LocalSolver, sub: Subproblem, solution: Solution, rng: NormalNoise) -> Solution:
    """Return what the rules of a private method see of a solution: the released model, and nothing else of the data.

    Errors, curvatures and the steps of a solver that stops by itself depend on the data, too, and are left out.

    Parameters
    ----------
    rules
        The algorithm of the client, which has a ``privacy``.
    rng
        Where the noise comes from.
    """
    steps, length = (0, None) if local.certified else (solution.steps, solution.length)
    x = rules.privacy.release(solution.x, sub.start, rng)
    return Solution(x, steps, math.nan, length=length, draw=solution.draw)


class PrivacySpent:
    """Counts releases in rounds, and says what they cost and whether the next round is within the budget.

    A client counts when it is asked, whether its upload arrives or not: somebody may have seen it.

    Parameters
    ----------
    privacy
        That of the algorithm; None counts nothing.
    sampling, weights
        Who takes part, and the weights v_i of the mean, where the adversary sees the models alone.
    """

    def __init__(self, privacy: SiteLevel | None, sampling: Sampling, weights: Any) -> None:
        self.privacy, self.sampling, self.weights = privacy, sampling, weights
        self.releases: dict[int, int] = {}
        self.rounds = 0
        self.reason = ""

    def allows(self, active: Iterable[int]) -> bool:
        """Return whether a round with these clients stays within the budget; ``reason`` says why not."""
        if self.privacy is None or self.privacy.budget is None:
            return True
        most = max(self._most, max((self.releases.get(i, 0) for i in active), default=-1) + 1)
        epsilon = self._epsilon(most, self.rounds + 1)
        if epsilon > self.privacy.budget:
            self.reason = f"a further round would make epsilon {epsilon:.4g}, of {self.privacy.budget:g} at most"
        return not self.reason

    def spend(self, active: Iterable[int]) -> None:
        """Count a round in which these clients are asked."""
        self.rounds += 1
        for i in active if self.privacy is not None else ():
            self.releases[i] = self.releases.get(i, 0) + 1

    @property
    def columns(self) -> dict[str, float]:
        """The columns epsilon and delta of a row; none without privacy."""
        if self.privacy is None:
            return {}
        return {"epsilon": self._epsilon(self._most, self.rounds), "delta": self.privacy.delta}

    def settings(self, name: str, k: int, verbose: bool) -> dict[str, str]:
        """Return what settings say of a run that has ended at its budget after round k, and print it, if verbose."""
        if not self.reason:
            return {}
        if verbose:
            print(f"{name}: stopped after round {k}, {self.reason}.", file=sys.stderr)
        return {"stopped": f"after round {k}, {self.reason}"}

    def state_dict(self) -> encoding.Arrays:
        """Return the counts, for a checkpoint."""
        return encoding.pairs(self.releases, np.int64) | {"rounds": np.array(self.rounds, np.int64)}

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned."""
        self.rounds = arrays["rounds"].item()
        self.releases.update(encoding.mapping({name: a for name, a in arrays.items() if name != "rounds"}))

    @property
    def _most(self) -> int:
        return max(self.releases.values(), default=0)

    def _epsilon(self, releases: int, rounds: int) -> float:
        assert self.privacy is not None
        noise, delta = self.privacy.noise, self.privacy.delta
        if self.privacy.sees == "models":
            return epsilon_of_models(noise, delta, rounds, self.sampling, self.weights)
        return epsilon_of_uploads(noise, delta, releases)
