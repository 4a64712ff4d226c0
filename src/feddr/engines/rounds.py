"""What every engine does alike: randomness by (seed, client, update), weighted sums, bytes, the shape of a result."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import limits, precision, tree
from feddr.algorithms import Uploads
from feddr.algorithms.algorithm import Prox
from feddr.history import History, Row
from feddr.local import Estimate, Solution
from feddr.prox import Regulariser, Zero
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
    good
        The round whose state the engine still has, none of it spoilt; None where it has been overwritten.

    Attributes
    ----------
    history
        The rows up to then.
    """

    def __init__(
        self, message: str, client: int | None, round_: int, step: int | None = None, good: int | None = None
    ) -> None:
        super().__init__(message)
        self.client, self.round, self.step, self.good = client, round_, step, good
        self.history = History()


class DivergenceWarning(UserWarning):
    """F has grown far beyond its first value, and may grow without bound."""


class AccuracyWarning(UserWarning):
    """A certified solver ended before its stopping rule held, and rounding does not explain it."""


@dataclass
class State:
    """Everything that changes while a run goes on.

    Parameters
    ----------
    server
        The algorithm's server state, float64.
    clients
        The algorithm's state of each client that has taken part, by client.
    updates
        How many updates each of them has made.
    skipped
        How many updates were left out because they were not finite.
    met
        The least and the largest curvature of f_i that the solver of client i met, where it had to be estimated.
    """

    server: Any
    clients: MutableMapping[int, Any] = field(default_factory=dict)
    updates: dict[int, int] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    local_steps: int = 0
    prox_error: float = float("nan")
    skipped: int = 0
    met: dict[int, Estimate] = field(default_factory=dict)

    def meet(self, client: int, found: Estimate | None) -> None:
        """Take in the curvature that the solver of a client met in an update."""
        if found is not None:
            before = self.met.get(client, found)
            self.met[client] = Estimate(min(before.lower, float(found.lower)), max(before.upper, float(found.upper)))


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each round.

    Parameters
    ----------
    row
        There when the round was evaluated.
    asked
        Clients that were asked for an update in this round, of whom not all need have sent one; 0 without rounds.
    """

    round: int
    rounds: int
    state: State
    row: Row | None
    asked: int = 0


Callback = Callable[[Progress], bool | None]
"""Called after each round; returning True ends the run there, with a last evaluation."""

OnBadClient = Literal["stop", "skip"]
"""What to do about a client that sends a NaN or an infinity."""

BLOCK = 2**16
"""Numbers of uploads that are added up at a time, about."""

_CLIENT, _SAMPLING = 0, 1


def client_rng(seed: int, client: int, update: int) -> np.random.Generator:
    """Return the randomness of a client's k-th update: the same in every engine, order and thread."""
    return _rng(_CLIENT, seed, client, update)


def sampling_rng(seed: int, round_: int) -> np.random.Generator:
    """Return the randomness that draws the active clients of a round."""
    return _rng(_SAMPLING, seed, round_)


def _rng(*key: int) -> np.random.Generator:
    """Return ``np.random.default_rng(key)``, faster where the numbers are small, as they almost always are."""
    words = np.array(key, np.uint32) if max(key) < 2**32 else key
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


class Accepted(NamedTuple):
    """An upload that the server takes in.

    Parameters
    ----------
    weight, share
        The client's weight v_i in the server's mean, and its weight w_i in the problem.
    new
        Whether it is the first of its client.
    upload
        What the client sent.
    factor
        Of the weight, where the upload is stale.
    """

    weight: float
    share: float
    new: bool
    upload: Tree
    factor: float = 1.0


def gather(uploads: Iterable[Accepted]) -> Uploads:
    """Add up uploads in float64, in the given order."""
    total: Tree = None
    weight = joined = joined_share = discounted = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # whoever takes the sum looks whether it is finite
        for some in _blocks(iter(uploads)):
            factors = np.array([one.factor * one.weight for one in some])
            added = tree.map(lambda *leaves, c=factors: _weighted_sum(c, leaves), *(one.upload for one in some))
            if total is None:
                total = tree.map(lambda a: np.zeros(a.shape), added)
            tree.map(lambda sum_, more: np.add(sum_, more, out=sum_), total, added)
            for one in some:
                weight += one.weight
                discounted += one.factor * one.weight
                if one.new:
                    joined, joined_share = joined + one.weight, joined_share + one.share
    return Uploads(total, weight, joined, joined_share, discounted / weight)


def _blocks(uploads: Iterator[Accepted]) -> Iterator[list[Accepted]]:
    """Yield small uploads some at a time, large ones one by one: NumPy takes a microsecond for any call."""
    for first in uploads:
        yield [first, *itertools.islice(uploads, BLOCK // max(tree.size(first.upload), 1))]


def _weighted_sum(factors: NDArray[np.float64], leaves: Sequence[Any]) -> NDArray[np.float64]:
    if len(leaves) == 1:
        return np.multiply(factors[0], leaves[0], dtype=np.float64)
    stacked = np.array(leaves, np.float64)
    stacked *= factors.reshape(-1, *[1] * (stacked.ndim - 1))
    return np.add.reduce(stacked, axis=0)


def server_prox(g: Regulariser) -> Prox:
    """Return prox_{eta g} on the server's float64 arrays, compiled."""
    if isinstance(g, Zero):
        return lambda x, _: x
    compiled = jax.jit(g.prox)

    def prox(x: Tree, eta: float) -> Tree:
        with precision.scope(np.float64):
            return tree.map(np.asarray, compiled(x, eta))

    return prox


def wire_bytes(message: Tree, dtype: Any) -> int:
    """Return the bytes of a message whose numbers travel as dtype."""
    return tree.size(message) * int(np.dtype(dtype).itemsize)


def finite(a: Tree) -> bool:
    """Return whether every entry of a tree is finite."""
    return all(np.isfinite(leaf).all() for leaf in tree.leaves(a))


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

    A server does not know the solvers of its clients, and names the clients instead.
    """
    eta = f"the eta of {algorithm}"
    return f"lower {eta}" if getattr(local, "certified", False) else f"lower the learning rate of {local}, or {eta}"


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


def check_on_bad_client(on_bad_client: str, algorithm: Any) -> None:
    """Refuse to leave clients out where the algorithm needs every one of them."""
    if on_bad_client not in ("stop", "skip"):
        raise ValueError(f'on_bad_client must be "stop" or "skip", got {on_bad_client!r}.')
    if on_bad_client == "skip" and not algorithm.partial:
        name = type(algorithm).__name__
        raise ValueError(f'{name} needs every client in every round, got on_bad_client="skip"; use FedDR, or "stop".')


class Counts(NamedTuple):
    """The whole numbers that every engine is given."""

    rounds: int
    evaluate_every: int
    seed: int


def check_settings(rounds: int, evaluate_every: int, seed: int, name: str = "rounds") -> Counts:
    """Return the numbers of a run; refuse those that cannot be run. ``name`` is what its rounds are called."""
    return Counts(
        limits.whole(name, rounds, 0),
        limits.whole("evaluate_every", evaluate_every, 1),
        limits.whole("seed", seed, 0),
    )
