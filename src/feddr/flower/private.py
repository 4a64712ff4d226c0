"""Privacy in a deployment: each site keeps the account of what it has released, and the server ends in time.

The site is who must not exceed its budget, so the account is on its own disk, and is written before an upload leaves.
It is one number, the sum over all releases of (2 / noise)^2, the squared distance of two neighbouring federations in
units of the noise: Gaussian mechanisms compose by adding these, also over runs with different noises. It belongs to
the data, not to a run, so a second run over the same data finds what the first has spent. What hides a whole site hides
a record, too, and counts in the account of records; not the other way round.

The noise comes from the operating system, and nobody else can compute it: not from the seed of the run, which the
server knows. A task that arrives again with the same broadcast is answered with the release that is on the disk: it
tells nothing new and costs nothing. With another broadcast it is a new release.
"""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from feddr.engines.shared.privacy import Privacy, check_uploads, record_level, released
from feddr.flower import identity
from feddr.flower.refused import Refused
from feddr.local import LocalSolver, Solution, Subproblem
from feddr.privacy.accounting import epsilon_of_distance
from feddr.sites import SiteRefusal
from feddr.storage import lock, tensors
from feddr.tree import Tree


class SecretNoise:
    """Normal numbers from the operating system's cryptographic source; no seed, and never the same twice.

    Examples
    --------
    >>> noise = SecretNoise().standard_normal((1000,))
    >>> noise.shape, bool(abs(noise.mean()) < 0.2), bool(abs(noise.std() - 1.0) < 0.2)
    ((1000,), True, True)
    """

    def standard_normal(self, shape: Any) -> Any:
        """Return an array of this shape, by the transformation of Box and Muller of uniform numbers of 53 bits."""
        count = math.prod(shape)
        whole = np.frombuffer(os.urandom(16 * count), np.uint64) >> np.uint64(11)
        radius, angle = ((whole.astype(np.float64) + 0.5) * 2.0**-53).reshape(2, *shape)  # above 0, below 1
        return np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle)


class SiteAccount:
    """What a site has released of its data, in all runs, on its own disk.

    Parameters
    ----------
    folder
        The site's, for this client; its data are the same in all runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.records = folder, tensors.Generations(folder / "releases")

    @property
    def spent(self) -> float:
        """The sum of (2 / noise)^2 over all releases; DamagedError where the newest record cannot be read."""
        last = self._last()
        return 0.0 if last is None else float(last.header["spent"])

    def _last(self) -> tensors.Snapshot | None:
        numbers = self.records.numbers()
        return tensors.read(self.records.path(numbers[0])) if numbers else None

    def release(
        self,
        rules: Any,
        local: LocalSolver,
        sub: Subproblem,
        task: Sequence[object],
        solve: Callable[[], Solution],
    ) -> tuple[Solution, float]:
        """Return what the rules see of the site's solution, and what has been spent with it.

        Parameters
        ----------
        rules
            The algorithm of the client, which has a ``privacy``.
        task
            What tells this update from any other: the run, the number of the update, the broadcast.
        solve
            Solves the subproblem.

        Raises
        ------
        SiteRefusal
            Where the release would exceed the budget, or the account cannot say what it has told of a site as a whole;
            nothing is released then.
        """
        privacy: Privacy = rules.privacy
        key = [*map(str, task), identity.digest(sub.start)]
        with lock.locked(self.folder):
            number, spent, last = max(self.records.numbers(), default=0), self.spent, self._last()
            if last is not None and last.header["task"] == key:
                x = tensors.restore(sub.start, last.arrays)
                return Solution(x, last.header["steps"], math.nan), spent
            level = "record" if record_level(rules) is not None else "site"
            if last is not None and last.header.get("level") == "record" != level:
                raise SiteRefusal(
                    "This site has made releases that hide single records and not the site as a whole, which SiteLevel "
                    "cannot take back; use RecordLevel, or give new data a state of their own, since the account of "
                    f"these is in its privacy/{self.folder.name}."
                )
            total = spent + cost(privacy)
            reason = beyond(privacy, total)
            if reason:
                raise SiteRefusal(
                    f"A site keeps to its budget, {reason}; end the run, raise the budget, or give new data a state of "
                    f"their own, since the account of these is in its privacy/{self.folder.name}."
                )
            seen = released(rules, local, sub, solve(), SecretNoise())
            header = {"task": key, "spent": total, "steps": int(seen.steps), "level": level}
            self.records.save(number + 1, header, tensors.flatten(seen.x))  # before anything leaves
        return seen, total


def cost(privacy: Privacy) -> float:
    """Return what one update adds to an account."""
    return float(privacy.releases * (2.0 / privacy.noise) ** 2)


def beyond(privacy: Privacy, spent: float) -> str:
    """Return why an account may not come to this; an empty text where it may."""
    epsilon = epsilon_of_distance(math.sqrt(spent), privacy.delta) if privacy.budget is not None else 0.0
    if privacy.budget is None or epsilon <= privacy.budget:
        return ""
    return f"a further round would make epsilon {epsilon:.4g}, of {privacy.budget:g} at most"


class PrivacyWatch:
    """The server's side: what sites say that they have spent, and whether another round is within the budget."""

    def __init__(self, privacy: Privacy | None) -> None:
        self.privacy = privacy

    def refuses(self, spent: Sequence[float]) -> str:
        """Return why no round may begin with sites that have spent this; an empty text where one may."""
        if self.privacy is None:
            return ""
        return beyond(self.privacy, max(spent, default=0.0) + cost(self.privacy))

    def columns(self, spent: Sequence[float]) -> dict[str, float]:
        """Return the columns epsilon and delta; none without privacy."""
        if self.privacy is None:
            return {}
        delta = self.privacy.delta
        return {"epsilon": epsilon_of_distance(math.sqrt(max(spent, default=0.0)), delta), "delta": delta}


def check(algorithm: Any, evaluation: Any) -> None:
    """Refuse a private method that a deployment cannot account for."""
    privacy, name = check_uploads(algorithm), type(algorithm).__name__
    if privacy is None:
        return
    if privacy.sees != "uploads":
        raise ValueError(f'The server of a deployment sees uploads, got sees="{privacy.sees}"; use sees="uploads".')
    if hasattr(algorithm, "factor"):
        raise ValueError(f"Privacy is accounted in rounds, and {name} has none; use FedDR or FedAvg.")
    if evaluation == "nodes":
        raise ValueError(
            'Metrics of nodes have no noise, got evaluation="nodes" in a private run; leave it out, or evaluate on '
            "data of the server's own."
        )


def check_number(spent: Any, privacy: Privacy | None) -> None:
    """Refuse an upload that says nothing sensible of what has been spent."""
    if type(spent) not in (int, float):
        raise Refused("malformed", f"what a site has spent is a number, got {str(spent)[:40]!r}")
    if not 0.0 <= spent < math.inf or (privacy is not None and spent < 0.999 * cost(privacy)):
        raise Refused("malformed", f"a site that has sent an upload has spent something, it says {spent:g}")


def account(root: Path, client: int) -> SiteAccount:
    """Return the account of a client among the state of its node."""
    return SiteAccount(root / "privacy" / f"client-{client}")


def private_message(task: Any, number: int, message: Tree) -> list[object]:
    """Return what tells an update from any other."""
    return [task.run, task.uid, number, identity.digest(message)]
