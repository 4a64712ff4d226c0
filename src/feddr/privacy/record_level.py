"""Record-level differential privacy: clip the gradient of each record, and add Gaussian noise in each local step."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.privacy.site_level import NormalNoise, Sees, check_numbers
from feddr.tree import Tree
from feddr.validation import scalars


@dataclass(frozen=True)
class RecordLevel:
    """The Gaussian mechanism in each step of a site, which hides whether a record was this or any other.

    It is DP-SGD (Abadi et al. 2016). Step t of the local solver takes, in the place of the mean gradient of f_i over
    its batch, of b records at most,

        g_t = (sum over the records j of the batch of clipped grad loss_j(x_t) + N(0, (noise clip)^2 I)) / b

    where a gradient longer than ``clip`` is shortened to that length. Linear and proximal terms of the subproblem are
    public, and stay as they are. Whatever a site keeps and sends follows from the g_t and from broadcasts alone. In a
    pass over the records each is in one batch, so that a pass costs one release of a Gaussian mechanism.

    Parameters
    ----------
    clip
        The largest length of a record's gradient that is not shortened, over all parameters together.
    noise
        Standard deviation of the noise of each parameter in a sum of gradients, relative to ``clip``; ``noise_for`` has
        the one that a budget needs, where each pass is a release.
    delta
        The delta of (epsilon, delta): well below one over the number of records of a site.
    budget
        The largest epsilon; a round that would lead beyond it is not begun. None to account without a limit.
    epochs
        Passes over its records that a site makes in an update: that of the local solver, ``SGD`` or ``Optax``. A server
        does not know the solver of its sites, and accounts by this number; another one is refused.

    Raises
    ------
    ValueError
        Where a number is out of its range.

    References
    ----------
    M. Abadi, A. Chu, I. Goodfellow, H. B. McMahan, I. Mironov, K. Talwar, L. Zhang. Deep Learning with Differential
    Privacy. CCS 2016.

    Examples
    --------
    >>> import feddr
    >>> privacy = RecordLevel(clip=1.0, noise=20.0, delta=1e-4, budget=4.0, epochs=5)
    >>> method, local = feddr.FedDR(privacy=privacy), feddr.local.SGD(lr=0.1, epochs=5, batch_size=None)
    >>> privacy.clipped(np.array([3.0, 4.0])).round(6).tolist()
    [0.6, 0.8]
    """

    clip: float
    noise: float
    delta: float
    budget: float | None = None
    epochs: int = 1

    sees: ClassVar[Sees] = "uploads"

    def __post_init__(self) -> None:
        check_numbers(self)
        scalars.count(self, "epochs", 1)

    @property
    def releases(self) -> int:
        """Gaussian mechanisms in an update of a site."""
        return self.epochs

    def clipped(self, gradient: Tree) -> Tree:
        """Return the gradient of one record, shortened to ``clip``; zero where its length is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            length = tree.norm(gradient)
        if not np.isfinite(length):
            return tree.zeros_like(gradient)
        return gradient if length <= self.clip else tree.scale(self.clip / length, gradient)

    def step_noise(self, steps: int, like: Tree, rng: NormalNoise) -> Tree:
        """Return the noise of the sums of gradients of so many steps.

        Parameters
        ----------
        like
            The parameters.
        rng
            Where the noise comes from: a secret of the site wherever data are real.

        Returns
        -------
        Tree
            A tree like the parameters, whose arrays have a first axis more, one entry for each step.

        Examples
        --------
        >>> noise = RecordLevel(clip=2.0, noise=1.5, delta=1e-5).step_noise(7, np.zeros(3), np.random.default_rng(0))
        >>> noise.shape
        (7, 3)
        """
        deviation = self.noise * self.clip

        def draw(leaf: Any) -> NDArray[Any]:
            normal = rng.standard_normal((steps, *np.shape(leaf)))
            return np.asarray(deviation * normal, np.asarray(leaf).dtype)

        return tree.map(draw, like)
