"""Privacy in an engine: what the rules see of a site is private before they see it, and what rounds cost is counted."""

import math
import sys
from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from feddr.algorithms import Asynchronous, FedAvg
from feddr.algorithms.algorithm import HasRegulariser
from feddr.checkpoint import encoding
from feddr.data.tables import WEIGHT
from feddr.local import SGD, LocalSolver, Optax, Solution, Subproblem
from feddr.privacy import RecordLevel, SiteLevel, epsilon_of_models, epsilon_of_uploads
from feddr.privacy.accounting import check_models
from feddr.privacy.site_level import NormalNoise
from feddr.sampling import Sampling

Privacy = SiteLevel | RecordLevel
"""What is hidden: the data of a site, or a record."""


def record_level(algorithm: Any) -> RecordLevel | None:
    """Return the privacy of a method whose local steps are private, None for any other."""
    privacy = getattr(algorithm, "privacy", None)
    return privacy if isinstance(privacy, RecordLevel) else None


def check_uploads(algorithm: Any) -> Privacy | None:
    """Return the privacy of a method, None without; refuse one whose uploads hold more than what was released."""
    privacy = getattr(algorithm, "privacy", None)
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise ValueError(
            f"privacy must be a feddr.privacy.SiteLevel or RecordLevel, got {privacy!r}; None for no privacy."
        )
    if algorithm.needs_gradient:
        name, kind = type(algorithm).__name__, type(privacy).__name__
        raise ValueError(
            f"{name} sends gradients, for which {kind} does not account; use FedDR or FedAvg, or no privacy."
        )
    return privacy


def check_local(privacy: Privacy | None, local: LocalSolver) -> None:
    """Refuse local work that ``RecordLevel`` does not account for.

    Raises
    ------
    ValueError
        Where the solver is not known to use nothing of the data but gradients over shuffled batches, or makes another
        number of passes.
    """
    if not isinstance(privacy, RecordLevel):
        return
    if not isinstance(local, SGD | Optax):
        raise ValueError(f"RecordLevel makes the steps of SGD and Optax private, got {local}; use feddr.local.SGD.")
    if local.epochs != privacy.epochs:
        raise ValueError(
            f"RecordLevel accounts for the passes over the records in an update, epochs={privacy.epochs}, and "
            f"{type(local).__name__} makes {local.epochs}; give both the same epochs."
        )


def check_samples(privacy: Privacy | None, arrays: Container[str]) -> None:
    """Refuse samples whose gradients depend on other samples of the site, where single records are to be hidden.

    Parameters
    ----------
    arrays
        The names of what there is of each sample.
    """
    if isinstance(privacy, RecordLevel) and WEIGHT in arrays:
        raise ValueError(
            f"{WEIGHT} and class_weight are scaled by their sum over a site, so that one record moves the gradients of "
            "all others, which RecordLevel does not hide; leave them out, or use SiteLevel."
        )


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
    check_local(privacy, local)
    with_data: Any = problem
    check_samples(privacy, with_data.data.train.samples)
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

    Errors, curvatures and the steps of a solver that stops by itself depend on the data, too, and are left out. With
    ``RecordLevel`` each step was private, and so is the model that they have led to.

    Parameters
    ----------
    rules
        The algorithm of the client, which has a ``privacy``.
    rng
        Where the noise comes from.
    """
    fixed = not local.certified
    steps, length = (solution.steps, solution.length) if fixed else (0, None)
    privacy: Privacy = rules.privacy
    x = solution.x if isinstance(privacy, RecordLevel) else privacy.release(solution.x, sub.start, rng)
    return Solution(x, steps, math.nan, length=length, draw=solution.draw)


class PrivacySpent:
    """Counts private updates in rounds, and says what they cost and whether the next round is within the budget.

    A client counts when it is asked, whether its upload arrives or not: somebody may have seen it.

    Parameters
    ----------
    privacy
        That of the algorithm; None counts nothing.
    sampling, weights
        Who takes part, and the weights v_i of the mean, where the adversary sees the models alone.
    """

    def __init__(self, privacy: Privacy | None, sampling: Sampling, weights: Any) -> None:
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
        return epsilon_of_uploads(noise, delta, releases * self.privacy.releases)
