"""Measurements of a run of FedDR: the invariant gap, the Lyapunov value and the errors of the proximal steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.algorithms import Asynchronous, FedDR
from feddr.algorithms.algorithm import ProblemLike
from feddr.certify.clients import ClientMeasurer, ClientTerms, NodeSums, bookkeeping
from feddr.engines.shared.shards import ROOT, Vector, fold
from feddr.engines.shared.state import Progress, RunState
from feddr.local import Estimate
from feddr.problem import Problem, gradient_mapping
from feddr.sampling import Sampling
from feddr.theory.smoothness import Smoothness, smoothness
from feddr.tree import Tree


def bookkeeping_gap(problem: Problem, algorithm: FedDR, state: RunState) -> float:
    """Return || xtilde - sum_i v_i xhat_i / sum_i v_i ||, over the clients that the server counts.

    It is zero but for rounding: the law (INV) that the whole analysis of FedDR rests on. With ``init="lazy"`` the
    server counts every client from the start, those not heard from at x^0.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> algorithm = feddr.FedDR(eta=0.3, alpha=1.0, init="lazy", mean="all")
    >>> state = RunState(server=algorithm.server(problem.init))
    >>> bookkeeping_gap(problem, algorithm, state)  # at the start the server counts x^0 for everybody
    0.0
    """
    measurer = _measurer(problem, algorithm, alpha=algorithm.init == "lazy")
    sums = fold([ROOT], measurer.counted(state.clients, range(problem.data.num_clients)))
    return bookkeeping(state.server.xtilde, next((total for _, total in sums), None))


def lyapunov(problem: Problem, algorithm: FedDR, state: RunState) -> float:
    """Return V = g(xbar) + sum_i w_i [ f_i(x_i) + <grad f_i(x_i), xbar - x_i> + ||xbar - x_i||^2 / (2 eta_i) ].

    With exact proximal steps, everybody active and alpha, eta within the theory, V never increases; in general its
    expectation does not. With the lazy start it begins at F(x^0).

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> algorithm = feddr.FedDR(eta=0.3, alpha=1.0, init="lazy", mean="all")
    >>> state = RunState(server=algorithm.server(problem.init))
    >>> lyapunov(problem, algorithm, state) == problem.F(problem.init)
    True
    """
    measurer, xbar = _measurer(problem, algorithm), state.server.xbar
    terms = measurer(state.clients, xbar, {}, range(problem.data.num_clients), [ROOT])
    return _value_of(problem, xbar) + float(np.sum(terms.values))


def _value_of(problem: ProblemLike, xbar: Tree) -> float:
    """Return g(xbar) in float64."""
    with precision.scope(np.float64):
        return float(problem.regulariser.value(xbar))


def _measurer(problem: Problem, algorithm: FedDR, *, alpha: bool = False) -> ClientMeasurer:
    """Return what measures clients where nothing is known of their curvature and of who takes part."""
    if algorithm.eta == "auto" or (alpha and algorithm.alpha == "auto"):
        raise ValueError(f"A measurement needs the step sizes of a run, got {algorithm}; give result.algorithm.")
    n = problem.data.num_clients
    return ClientMeasurer(problem, algorithm, np.zeros(n), np.ones(n))


class Measurement(NamedTuple):
    """A round of a run.

    Parameters
    ----------
    gradient_mapping
        ||G_eta(xbar^k)|| with the server's eta, over all clients.
    F
        F(xbar^k), over all clients.
    lyapunov
        V^k.
    errors
        A bound on sum_i v_i eps_{i,k}^2, the squared distances to the exact prox; NaN where there is none.
    bookkeeping
        The gap in (INV), relative to 1 + ||xtilde||.
    relative
        The largest eps_i^2 / (p_i ||x_i - its previous value||^2) of the clients that took part, 0 where none did.
    asked, missing
        Number of updates that were asked for, and how many of them were lost or unusable.

    Examples
    --------
    >>> row = Measurement(0.5, 1.0, 1.0, 0.0, 1e-16, 0.0, asked=2, missing=0)
    >>> row.gradient_mapping
    0.5
    """

    gradient_mapping: float
    F: float
    lyapunov: float
    errors: float
    bookkeeping: float
    relative: float
    asked: float
    missing: float


def measurements_for(problem: ProblemLike, algorithm: Any, sampling: Sampling) -> "RoundMeasurements":
    """Return the callback that measures a run, which must be one of FedDR.

    Raises
    ------
    ValueError
        Where the algorithm is another than FedDR, or a problem of PyTorch's has no bounds on its curvature.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> watch = measurements_for(problem, feddr.FedDR(eta=0.3, alpha=1.0), feddr.sampling.Full())
    >>> type(watch).__name__
    'RoundMeasurements'
    """
    if not isinstance(algorithm, FedDR) or isinstance(algorithm, Asynchronous):
        raise ValueError(f"Certificates are for FedDR, whose theorems are known, got {algorithm}; leave certify out.")
    known = (problem.known_curvature(i) is not None for i in range(problem.data.num_clients))
    if not isinstance(problem, Problem) and not all(known):
        raise ValueError(
            "Certificates need bounds on the curvature of every client, which can be estimated for losses in JAX only; "
            f"got a {type(problem).__name__} without: give it curvature=(l, L), use feddr.models.from_torch, or leave "
            "certify out."
        )
    return RoundMeasurements(problem, algorithm, smoothness(problem), sampling.probabilities(problem.data.num_clients))


class RoundMeasurements:
    """A callback for ``simulate`` that measures every round, at the price of a gradient of every client.

    Parameters
    ----------
    smoothness
        Bounds on the curvature, from ``theory.smoothness``; they turn gradients into bounds on errors.
    probabilities
        The p_i of the sampling scheme.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> bounds = feddr.theory.smoothness(problem)
    >>> watch = RoundMeasurements(problem, feddr.FedDR(eta=0.3, alpha=1.0), bounds, np.ones(2))
    >>> watch.rounds
    []
    """

    def __init__(
        self, problem: ProblemLike, algorithm: FedDR, smoothness: Smoothness, probabilities: NDArray[np.float64]
    ) -> None:
        self.problem, self.algorithm, self.smoothness = problem, algorithm, smoothness
        self.measurer = ClientMeasurer(problem, algorithm, smoothness.lowers, probabilities)
        self.roles = self.measurer.roles
        self.elsewhere: MeasuresRound | None = None
        self.models: dict[int, Tree] = {}
        self.updates: dict[int, int] = {}
        self.rounds: list[Measurement] = []
        self.xbar: Tree = problem.init
        self.met: dict[int, Estimate] = {}
        self.state = RunState(server=None)

    def __call__(self, progress: Progress) -> None:
        """Measure the round that has just ended."""
        state = progress.state
        self.xbar, self.met = state.server.xbar, state.met
        terms = [self._here(state)] if self.elsewhere is None else self.elsewhere(progress.round, self.xbar)
        values, errors = (np.concatenate(parts) for parts in ([t.values for t in terms], [t.errors for t in terms]))
        (objective,) = _total([sums for t in terms for sums in t.objective])
        counted = next(iter(_total([sums for t in terms for sums in t.counted])), None)
        g = _value_of(self.problem, self.xbar)
        eta, gradient = float(self.roles.server.eta), tree.unravel(objective[1:], self.xbar)
        mapping = tree.norm(gradient_mapping(self.problem.regulariser, self.xbar, gradient, eta))
        gap = bookkeeping(state.server.xtilde, counted) / (1.0 + tree.norm(state.server.xtilde))
        squares = float(np.dot(self.roles.mean_weights, np.square(errors)))
        taken = sum(state.updates.values()) - sum(self.updates.values())
        measured = mapping, float(objective[0]) + g, g + float(np.sum(values)), squares, gap
        counts = float(progress.asked), float(progress.asked - taken)
        self.rounds.append(Measurement(*measured, max(t.relative for t in terms), *counts))
        self._remember(state)

    def attach(self, state: RunState, elsewhere: "MeasuresRound | None" = None) -> None:
        """Follow the state of a run, from which ``load_state_dict`` takes what a checkpoint has elsewhere.

        Parameters
        ----------
        elsewhere
            From the round and xbar to what was measured of all clients, in order, where they are not here.
        """
        self.state, self.elsewhere = state, elsewhere

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the measurements as arrays, for a checkpoint."""
        return {"rounds": np.array(self.rounds, np.float64).reshape(-1, len(Measurement._fields))}

    def load_state_dict(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Become what ``state_dict`` was called on; the state that is followed must have been loaded before."""
        self.rounds = [Measurement(*row) for row in arrays["rounds"].tolist()]
        self.xbar, self.met = self.state.server.xbar, self.state.met
        self._remember(self.state)

    def _here(self, state: RunState) -> ClientTerms:
        """Measure the clients, whose states are all in this process."""
        moved = [i for i in state.clients if state.updates[i] != self.updates.get(i, 0)]
        before = {i: self.models.get(i, self.problem.init) for i in moved}
        return self.measurer(state.clients, self.xbar, before, range(self.problem.data.num_clients), [ROOT])

    def _remember(self, state: RunState) -> None:
        """Remember where the clients are, as long as it is this process that has them."""
        self.updates = dict(state.updates)
        if self.elsewhere is None:
            self.models = {i: c.x for i, c in state.clients.items()}


MeasuresRound = Callable[[int, Tree], list[ClientTerms]]
"""From a round that has just ended and its xbar to the terms of all clients, in their order."""


def _total(sums: NodeSums) -> list[Vector]:
    """Return the sum over all shards, given those of nodes in order; empty where there is nothing to add."""
    return [total for _, total in fold([ROOT], sums)]
