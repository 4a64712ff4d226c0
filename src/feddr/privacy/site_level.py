"""Site-level differential privacy: clip how far a site's model is from where it started, and add Gaussian noise."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from feddr import tree
from feddr.tree import Tree
from feddr.validation import scalars

Sees = Literal["uploads", "models"]
"""What an adversary sees: each upload with its sender, or the broadcast models alone."""


class NormalNoise(Protocol):
    """Where noise comes from: a generator of NumPy, or a site's own source.

    Examples
    --------
    >>> source: NormalNoise = np.random.default_rng(0)
    >>> source.standard_normal((2, 3)).shape
    (2, 3)
    """

    def standard_normal(self, shape: Any, /) -> Any:
        """Return an array of this shape of independent normal numbers with mean 0 and variance 1."""


@dataclass(frozen=True)
class SiteLevel:
    """The Gaussian mechanism at each site, which hides whether a site's data were these or any others.

    A site solves its subproblem as it would without, from the start point s, and then replaces its model x by

        s + (x - s) min(1, clip / ||x - s||) + N(0, (noise clip)^2 I)

    before the rules of the method see it. What a site keeps and what it sends follow from such models and from
    broadcasts alone, so each update costs one release of a Gaussian mechanism.

    Parameters
    ----------
    clip
        The largest distance between a site's model and its start that is not shortened, over all parameters together.
    noise
        Standard deviation of the noise of each parameter, relative to ``clip``; ``noise_for`` has the one that a budget
        needs.
    delta
        The delta of (epsilon, delta): well below one over the number of sites.
    budget
        The largest epsilon; a round that would lead beyond it is not begun. None to account without a limit.
    sees
        ``"uploads"``: the adversary sees every upload and whose it is, as the server of a deployment does. The epsilon
        is that of the site that has sent most.
        ``"models"``: it sees the broadcasts alone, and a trusted server, or a secure sum, adds up. Noises add up, too,
        and a random sample of the clients that the adversary does not know costs less; only for methods whose clients
        remember nothing, such as FedAvg.

    Raises
    ------
    ValueError
        Where a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> privacy = SiteLevel(clip=1.0, noise=0.5, delta=1e-5, budget=8.0)
    >>> far, start = np.array([3.0, 4.0]), np.zeros(2)
    >>> quiet = SiteLevel(clip=1.0, noise=1e-9, delta=1e-5)
    >>> quiet.release(far, start, np.random.default_rng(0)).round(6).tolist()
    [0.6, 0.8]
    """

    clip: float
    noise: float
    delta: float
    budget: float | None = None
    sees: Sees = "uploads"

    releases: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.sees not in ("uploads", "models"):
            raise ValueError(f'sees must be "uploads" or "models", got {self.sees!r}.')

    def release(self, x: Tree, start: Tree, rng: NormalNoise) -> Tree:
        """Return the model that the rules of the method may see in place of x.

        Parameters
        ----------
        x, start
            The site's model and where its local work started, trees of arrays of the same shapes.
        rng
            Where the noise comes from: a secret of the site wherever data are real.

        Returns
        -------
        Tree
            A tree like x. Where x holds a NaN or an infinity it is the start with noise: to stop, or to send something
            else, would tell of the data.
        """
        change = tree.map(lambda a, b: np.subtract(a, b, dtype=np.float64), x, start)
        with np.errstate(over="ignore", invalid="ignore"):
            length = tree.norm(change)
        if not np.isfinite(length):
            change, length = tree.map(np.zeros_like, change), 0.0
        factor, deviation = 1.0 if length <= self.clip else self.clip / length, self.noise * self.clip

        def noisy(start: Any, change: Any) -> Any:
            noise = deviation * rng.standard_normal(np.shape(change))
            return np.asarray(start + (factor * change + noise), np.asarray(start).dtype)

        return tree.map(noisy, start, change)


def check_numbers(privacy: Any) -> None:
    """Refuse a clip, a noise, a delta or a budget that is out of its range."""
    scalars.positive(privacy, "clip", "noise", *(() if privacy.budget is None else ("budget",)))
    scalars.numbers(privacy, "delta")
    if not 0 < privacy.delta < 1:
        raise ValueError(f"delta must be above 0 and below 1, got {privacy.delta}; 1e-5 is usual.")
