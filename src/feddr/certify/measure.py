"""Measurements of a run of FedDR: the invariant gap, the Lyapunov value and the errors of the proximal steps."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.algorithms import Asynchronous, FedDR, Roles
from feddr.algorithms.feddr import FedDRClient
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
    roles = _roles(problem, algorithm, alpha=algorithm.init == "lazy")
    total = tree.zeros_like(state.server.xtilde)
    weight = 0.0
    x0 = tree.cast(problem.init, np.float64)
    unheard = algorithm.client(x0, x0).xhat
    for i, v in enumerate(roles.mean_weights):
        if i not in state.clients and algorithm.init != "lazy":
            continue
        xhat = state.clients[i].xhat if i in state.clients else unheard
        total = tree.map(lambda a, b, v=v: a + v * np.asarray(b, np.float64), total, xhat)
        weight += v
    if not weight:
        return 0.0
    return tree.norm(tree.sub(state.server.xtilde, tree.scale(1.0 / weight, total)))


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
    return _over_clients(problem, algorithm, state)[0]


def _over_clients(
    problem: Problem, algorithm: FedDR, state: RunState, mu: Callable[[int], float] | None = None
) -> tuple[float, list[float]]:
    """Return V and, given the strong convexity of each subproblem, a bound on each client's error eps_i."""
    xbar: Tree = state.server.xbar
    roles = _roles(problem, algorithm)
    x0 = tree.cast(problem.init, np.float64)
    with precision.scope(np.float64):
        value = float(problem.regulariser.value(xbar))
    errors = []
    for i, w in enumerate(problem.client_weights):
        eta = roles.eta(i)
        x, y = (state.clients[i].x, state.clients[i].y) if i in state.clients else (x0, x0)
        x = tree.cast(x, np.float64)
        f, gradient = problem.client_value_and_gradient(i, x)
        step = tree.sub(xbar, x)
        slope = sum(float(np.vdot(a, b)) for a, b in zip(tree.leaves(gradient), tree.leaves(step), strict=True))
        value += w * (f + slope + tree.norm(step) ** 2 / (2 * eta))
        if mu is not None:
            # phi is mu-strongly convex, so ||x - prox|| <= ||grad phi(x)|| / mu.
            phi = tree.map(lambda d, a, b, eta=eta: d + (a - np.asarray(b, np.float64)) / eta, gradient, x, y)
            errors.append(tree.norm(phi) / mu(i))
    return float(value), errors


def _roles(problem: Problem, algorithm: FedDR, *, alpha: bool = False) -> Roles:
    if algorithm.eta == "auto" or (alpha and algorithm.alpha == "auto"):
        raise ValueError(f"A measurement needs the step sizes of a run, got {algorithm}; give result.algorithm.")
    return Roles(algorithm, problem.client_weights)


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


def measurements_for(problem: Problem, algorithm: Any, sampling: Sampling) -> "RoundMeasurements":
    """Return the callback that measures a run, which must be one of FedDR.

    Raises
    ------
    ValueError
        Where the algorithm is another than FedDR.

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
        self, problem: Problem, algorithm: FedDR, smoothness: Smoothness, probabilities: NDArray[np.float64]
    ) -> None:
        self.problem, self.algorithm, self.smoothness = problem, algorithm, smoothness
        self.probabilities = probabilities
        self.roles = _roles(problem, algorithm)
        self.clients: dict[int, FedDRClient] = {}
        self.updates: dict[int, int] = {}
        self.rounds: list[Measurement] = []
        self.xbar: Tree = problem.init
        self.met: dict[int, Estimate] = {}
        self.state = RunState(server=None)

    def __call__(self, progress: Progress) -> None:
        """Measure the round that has just ended."""
        state = progress.state
        self.xbar, self.met = state.server.xbar, state.met
        value, errors = _over_clients(self.problem, self.algorithm, state, self._mu)
        F, mapping = self._at_xbar()
        gap = bookkeeping_gap(self.problem, self.algorithm, state) / (1.0 + tree.norm(state.server.xtilde))
        squares = float(np.dot(self.roles.mean_weights, np.square(errors)))
        relative, taken = self._relative(state, errors), sum(state.updates.values()) - sum(self.updates.values())
        counts = float(progress.asked), float(progress.asked - taken)
        self.rounds.append(Measurement(mapping, F, value, squares, gap, relative, *counts))
        self.clients, self.updates = dict(state.clients), dict(state.updates)

    def attach(self, state: RunState) -> None:
        """Follow the state of a run, from which ``load_state_dict`` takes what a checkpoint has elsewhere."""
        self.state = state

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the measurements as arrays, for a checkpoint."""
        return {"rounds": np.array(self.rounds, np.float64).reshape(-1, len(Measurement._fields))}

    def load_state_dict(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Become what ``state_dict`` was called on; the state that is followed must have been loaded before."""
        state = self.state
        self.rounds = [Measurement(*row) for row in arrays["rounds"].tolist()]
        self.clients, self.updates = dict(state.clients), dict(state.updates)
        self.xbar, self.met = state.server.xbar, state.met

    def _at_xbar(self) -> tuple[float, float]:
        """Return F and ||G_eta|| at xbar over all clients, whom V is over, too."""
        g, eta = self.problem.regulariser, float(self.roles.server.eta)
        f, gradient = self.problem.value_and_gradient(self.xbar)
        with precision.scope(np.float64):
            F = f + float(g.value(self.xbar))
        return F, tree.norm(gradient_mapping(g, self.xbar, gradient, eta))

    def _relative(self, state: RunState, errors: list[float]) -> float:
        worst = 0.0
        for i, c in state.clients.items():
            before = self.clients.get(i)
            if state.updates[i] != self.updates.get(i, 0):
                moved = tree.norm(tree.increment(c.x, self.problem.init if before is None else before.x))
                reached = errors[i] ** 2 / (self.probabilities[i] * moved**2) if moved else math.inf
                worst = max(worst, float(reached) if errors[i] else 0.0)
        return worst

    def _mu(self, i: int) -> float:
        mu = 1.0 / self.roles.eta(i) + min(float(self.smoothness.lowers[i]), 0.0)
        return mu if mu > 0 else math.nan
