"""What an algorithm is: pure rules from state to state, written for one client."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from feddr.algorithms import step_sizes, uploading
from feddr.data import ClientSamples, FederatedData
from feddr.local import Solution, Subproblem
from feddr.prox import Regulariser, Zero
from feddr.prox.regulariser import Prox
from feddr.sampling import Full, Sampling
from feddr.tree import Tree


class Uploads(NamedTuple):
    """What the server knows of a round.

    Parameters
    ----------
    sum
        Sum over the active clients of v_i * upload_i, in float64; each with its factor where uploads may be stale. The
        weights v_i are those of the problem, w_i, unless clients have step sizes of their own (``step_sizes``).
    weight
        Sum of v_i over the active clients.
    joined, joined_share
        Sums of v_i and of w_i over those heard from for the first time.
    discount
        Mean of the factors, weighted by v_i: 1 where nothing is stale.

    Examples
    --------
    >>> import numpy as np
    >>> uploads = Uploads(sum=np.array([0.5, 1.0]), weight=0.25, joined=0.0, joined_share=0.0)
    >>> (uploads.sum / uploads.weight).tolist()  # the mean over those who took part
    [2.0, 4.0]
    """

    sum: Tree
    weight: float
    joined: float
    joined_share: float
    discount: float = 1.0


class ClientWeights(NamedTuple):
    """A client in the server's mean: its weight v_i there, and its weight w_i in the problem.

    Examples
    --------
    >>> ClientWeights(weight=0.25, share=0.5)
    ClientWeights(weight=0.25, share=0.5)
    """

    weight: float
    share: float


class Algorithm(Protocol):
    """The rules of a method.

    An engine calls them in this order and owns everything else: loop, randomness, clock, data.

    States are named tuples. The server's has a field ``xbar``, the global model, where every metric is evaluated; a
    client's that has a field ``x`` has a model of its own. The server's state is kept in float64, a client's in the
    precision of the run.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> rules: Algorithm = feddr.FedAvg()
    >>> s = rules.server(np.zeros(2))
    >>> message = rules.broadcast(s)
    >>> sub = rules.subproblem(rules.client(np.zeros(2), message), message)
    >>> _, upload = rules.finish(None, message, sub, Solution(np.array([2.0, 4.0]), 1, float("nan")))
    >>> heard = Uploads(sum=0.5 * upload, weight=0.5, joined=0.5, joined_share=0.5)  # of one client with w_i = 1/2
    >>> rules.aggregate(s, heard, lambda x, eta: x).xbar.tolist()
    [2.0, 4.0]
    """

    @property
    def composite(self) -> bool:
        """Whether the method handles g other than zero."""

    @property
    def partial(self) -> bool:
        """Whether the method works when only some clients take part in a round."""

    @property
    def full_start(self) -> bool:
        """Whether every client takes part in a start-up round before the first one."""

    @property
    def needs_gradient(self) -> bool:
        """Whether ``finish`` needs a mean gradient: of the solver's steps, or over all samples at the probe."""

    def server(self, x0: Tree, /) -> Any:
        """Return the server's first state."""

    def broadcast(self, s: Any, /) -> Tree:
        """Return what the server sends to each active client."""

    def client(self, x0: Tree, message: Tree, /) -> Any:
        """Return a client's state when it receives its first message."""

    def subproblem(self, c: Any, message: Tree, /) -> Subproblem:
        """Return what the client has to solve."""

    def finish(self, c: Any, message: Tree, sub: Subproblem, solution: Solution, /) -> tuple[Any, Tree]:
        """Return the client's next state and what it sends to the server."""

    def aggregate(self, s: Any, uploads: Uploads, prox: Prox, /) -> Any:
        """Return the server's next state."""


@runtime_checkable
class Asynchronous(Algorithm, Protocol):
    """The rules of a method whose uploads arrive one at a time, computed from an xbar that may be stale.

    Examples
    --------
    >>> import feddr
    >>> isinstance(feddr.FedBuff(), Asynchronous), isinstance(feddr.FedDR(), Asynchronous)
    (True, False)
    >>> feddr.AsyncFedDR(buffer=5).factor(staleness=10)
    1.0
    """

    @property
    def buffer(self) -> int:
        """How many uploads the server waits for before it aggregates."""

    def factor(self, staleness: int, /) -> float:
        """Return the factor of an upload's weight; the staleness is how often xbar has changed since it was read."""


@runtime_checkable
class Deployable(Algorithm, Protocol):
    """The rules of a method on a network that loses messages and repeats them: what travels is absolute.

    A client sends the value that the server is to count for it, not its change. The server has kept what it counted
    before and works the change out itself, so that a value that is lost or arrives again does no harm.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> rules = feddr.FedDR(eta=1.0, alpha=1.0, init="lazy", mean="all")
    >>> isinstance(rules, Deployable), isinstance(feddr.FedMid(), Deployable)
    (True, False)
    >>> rules.increment(np.array([3.0]), np.array([1.0]), np.zeros(1)).tolist()
    [2.0]
    """

    def absolute_upload(self, c: Any, x: Tree, /) -> Tree:
        """Return what the server counts for a client in state c that has just computed the model x."""

    def increment(self, counted: Tree, before: Tree, message: Tree, /) -> Tree:
        """Return what ``finish`` returned, given what was counted before and the message that the client had."""

    def recover(self, message: Tree, /) -> Any:
        """Return the state in which a client begins again that has lost its own."""

    def invariant_gap(self, s: Any, total: Tree, /) -> float:
        """Return how far the server's memory is from sum_i v_i counted_i; 0 where it remembers nothing."""


@runtime_checkable
class Leavable(Algorithm, Protocol):
    """The rules of a method that a client may leave for good.

    Examples
    --------
    >>> import feddr
    >>> isinstance(feddr.FedDR(), Leavable), isinstance(feddr.FedPD(eta=1.0), Leavable)
    (True, False)
    """

    def leave(self, s: Any, counted: Tree | None, member: ClientWeights, prox: Prox, /) -> Any:
        """Return the server's next state when a client leaves; ``counted`` is what is counted for it, None nothing."""


class HasRegulariser(Protocol):
    """What the rules depend on of a problem, in whatever library its loss is written."""

    @property
    def data(self) -> FederatedData:
        """The samples of each client."""

    @property
    def regulariser(self) -> Regulariser:
        """The regulariser g."""


class ProblemLike(HasRegulariser, Protocol):
    """What a plain loop needs to know of a problem, in whatever library its loss is written."""

    @property
    def init(self) -> Tree:
        """The start."""

    def starting_at(self, init: Tree) -> "ProblemLike":
        """Return the same problem with another start."""

    @property
    def client_weights(self) -> NDArray[np.float64]:
        """The weights w_i."""

    def f(self, x: Tree) -> float:
        """Return f(x)."""

    def F(self, x: Tree) -> float:
        """Return f(x) + g(x)."""

    def gradient_mapping(self, x: Tree, eta: float = 1.0) -> Tree:
        """Return (x - prox_{eta g}(x - eta grad f(x))) / eta."""

    def accuracy(self, x: Tree, part: ClientSamples | None) -> float:
        """Return the share of samples that are predicted rightly, NaN where nobody can say."""

    def each(self, x: Tree, batch: Any, kind: str) -> Any:
        """Return the loss, the right predictions or the outputs at x of each sample of a batch."""

    def batch_gradient(self, x: Tree, batch: Any) -> Tree:
        """Return the gradient at x of the mean loss over a batch."""

    def known_curvature(self, i: int) -> tuple[float, float] | None:
        """Return bounds on the eigenvalues of the Hessian of f_i, None where they are not known."""


def check(algorithm: Algorithm, problem: HasRegulariser, sampling: Sampling) -> None:
    """Refuse a regulariser or a sampling scheme that the algorithm cannot handle.

    Raises
    ------
    ValueError
        Where the algorithm has no composite step and g is not zero, needs every client and the scheme draws some,
        or has step sizes for another number of clients; where the scheme does not fit the clients, or a compressor the
        way that it is for.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> check(feddr.FedDR(), problem, feddr.sampling.Uniform(1))
    >>> check(feddr.FedPD(eta=1.0), problem, feddr.sampling.Uniform(1))
    Traceback (most recent call last):
    ValueError: FedPD needs every client in every round, got Uniform(m=1); use FedDR, or Full().
    """
    name = type(algorithm).__name__
    uploading.check(algorithm)
    sampling.check(problem.data.num_clients)
    step_sizes.check(algorithm, problem.data.num_clients)
    if not algorithm.composite and not isinstance(problem.regulariser, Zero):
        raise ValueError(
            f"{name} has no composite step, got g={problem.regulariser}; use FedDR, FedMid or FedDualAvg, or g=None."
        )
    if not algorithm.partial and not isinstance(sampling, Full):
        raise ValueError(f"{name} needs every client in every round, got {sampling}; use FedDR, or Full().")
