"""What a certificate needs of the clients of some shards: measured where their states are, added up by shard."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.algorithms import FedDR, Roles
from feddr.algorithms.algorithm import ProblemLike
from feddr.data import Samples
from feddr.engines.shared.shards import TreeNode, Vector, fold, shard_of
from feddr.problem import Problem
from feddr.tree import Tree
from feddr.xla import batching

NodeSums = list[tuple[TreeNode, Vector]]


class ClientTerms(NamedTuple):
    """What was measured of neighbouring clients after a round.

    Parameters
    ----------
    values
        The term of each client in V, shape (clients,).
    errors
        A bound on the distance eps_i of each client to its exact proximal point, shape (clients,); NaN for none.
    relative
        The largest eps_i^2 / (p_i ||x_i - its previous value||^2) of those that took part, 0 where none did.
    counted
        Of the clients that the server counts, sum_i v_i and sum_i v_i xhat_i, for each node of the shards.
    objective
        f and its gradient at xbar, sums over these clients for each node of the shards.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64]
    relative: float
    counted: NodeSums
    objective: NodeSums


class ClientMeasurer:
    """Measures clients in float64, each with one call that is compiled for losses in JAX, on the samples that are here.

    Parameters
    ----------
    algorithm
        With numbers for its step sizes.
    lowers
        A lower bound on the curvature of each of the n clients, shape (n,); errors come from gradients by it.
    probabilities
        The p_i of the sampling scheme, shape (n,).

    Examples
    --------
    >>> import feddr
    >>> from feddr.engines.shared.shards import ROOT
    >>> data = feddr.FederatedData.from_clients([{"x": np.eye(2), "y": np.ones(2)}] * 2)
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), data)
    >>> measure = ClientMeasurer(problem, feddr.FedDR(eta=0.3, alpha=1.0), np.zeros(2), np.ones(2))
    >>> terms = measure({}, problem.init, {}, range(2), [ROOT])
    >>> float(terms.values.sum()) == problem.f(problem.init)  # nobody has moved from x^0
    True
    """

    def __init__(
        self, problem: ProblemLike, algorithm: FedDR, lowers: NDArray[np.float64], probabilities: NDArray[np.float64]
    ) -> None:
        self.problem, self.algorithm = problem, algorithm
        self.lowers, self.probabilities = lowers, probabilities
        self.roles = Roles(algorithm, problem.client_weights)
        self._oracle = _oracle(problem)

    def __call__(
        self,
        states: Mapping[int, Any],
        xbar: Tree,
        before: Mapping[int, Tree],
        clients: range,
        nodes: list[TreeNode],
    ) -> ClientTerms:
        """Measure clients.

        Parameters
        ----------
        states
            Of those that have taken part.
        before
            The x_i, before this round, of the clients whose states have changed in it.
        clients
            Which, in order.
        nodes
            Of the shards of these clients.
        """
        x0, xbar = tree.cast(self.problem.init, np.float64), tree.cast(xbar, np.float64)
        values, errors = np.empty(len(clients)), np.empty(len(clients))
        relative = 0.0

        def measured() -> Iterator[tuple[TreeNode, Vector]]:
            nonlocal relative
            for shard, some in self._by_shard(clients):
                total: Vector | None = None
                for i in some:
                    j, c = i - clients.start, states.get(i)
                    x, y = (x0, x0) if c is None else (c.x, c.y)
                    values[j], errors[j], objective = self._measure(i, tree.cast(x, np.float64), y, xbar)
                    total = objective if total is None else total + objective
                    if i in before:
                        relative = max(relative, self._relative(i, errors[j], x, before[i]))
                assert total is not None
                yield TreeNode(0, shard), total

        objective = list(fold(nodes, measured()))
        counted = list(fold(nodes, self.counted(states, clients)))
        return ClientTerms(values, errors, relative, counted, objective)

    def counted(self, states: Mapping[int, Any], clients: range) -> Iterator[tuple[TreeNode, Vector]]:
        """Yield sum_i v_i and sum_i v_i xhat_i of each shard, over the clients that the server counts.

        With ``init="lazy"`` these are all clients from the start, those not heard from at x^0.
        """
        x0 = tree.cast(self.problem.init, np.float64)
        lazy = self.algorithm.init == "lazy"
        unheard = self.algorithm.client(x0, x0).xhat if lazy else None
        for shard, some in self._by_shard(clients):
            taken = [i for i in some if lazy or i in states]
            xhats = ((i, states[i].xhat if i in states else unheard) for i in taken)
            if taken:
                rows = (self.roles.mean_weights[i] * _flat(1.0, xhat) for i, xhat in xhats)
                yield TreeNode(0, shard), functools.reduce(np.add, rows)

    def _by_shard(self, clients: range) -> Iterator[tuple[int, Iterator[int]]]:
        return itertools.groupby(clients, key=functools.partial(shard_of, n=self.problem.data.num_clients))

    def _measure(self, i: int, x: Tree, y: Tree, xbar: Tree) -> tuple[float, float, Vector]:
        """Return the term of a client in V, the bound on its error, and its f_i and gradient at xbar, weighted."""
        w, eta = float(self.problem.client_weights[i]), self.roles.eta(i)
        with precision.scope(np.float64):
            batch = precision.samples(self.problem.data.client(i), np.float64)
            (f, gradient), (there, slope) = self._oracle(x, xbar, batch)
            f, gradient = float(f), tree.map(np.asarray, gradient)
            objective = w * _flat(float(there), slope)
        step = tree.sub(xbar, x)
        linear = sum(float(np.vdot(a, b)) for a, b in zip(tree.leaves(gradient), tree.leaves(step), strict=True))
        value = w * (f + linear + tree.norm(step) ** 2 / (2 * eta))
        # phi is mu-strongly convex, so ||x - prox|| <= ||grad phi(x)|| / mu.
        phi = tree.map(lambda d, a, b: d + (a - np.asarray(b, np.float64)) / eta, gradient, x, y)
        mu = 1.0 / eta + min(float(self.lowers[i]), 0.0)
        return value, tree.norm(phi) / mu if mu > 0 else math.nan, objective

    def _relative(self, i: int, error: float, x: Tree, before: Tree) -> float:
        moved = tree.norm(tree.increment(x, before))
        reached = error**2 / (self.probabilities[i] * moved**2) if moved else math.inf
        return float(reached) if error else 0.0


def bookkeeping(xtilde: Tree, total: Vector | None) -> float:
    """Return || xtilde - sum_i v_i xhat_i / sum_i v_i ||, given both sums; 0 where the server counts nobody."""
    if total is None:
        return 0.0
    return tree.norm(tree.sub(xtilde, tree.unravel(total[1:] / total[0], xtilde)))


def _oracle(problem: Any) -> Callable[..., Any]:
    """Return the function from x, xbar and samples to value and gradient of their mean loss at both.

    For a loss in JAX it is compiled, as local updates are: the order of its sums does not depend on the number of
    threads. Problems of PyTorch have a method for it.
    """
    if not isinstance(problem, Problem):

        def mean(x: Tree, batch: Samples) -> Any:
            rows = len(next(iter(batch.values())))
            return problem.weighted(x, batch, np.full(rows, 1.0 / rows))

        return lambda x, xbar, batch: (mean(x, batch), mean(xbar, batch))
    loss = problem.loss
    at = jax.value_and_grad(lambda x, batch: jnp.mean(loss(x, batch)))
    options = batching.compiler_options(tree.size(problem.init))
    return jax.jit(lambda x, xbar, batch: (at(x, batch), at(xbar, batch)), compiler_options=options)


def _flat(first: float, rest: Tree) -> Vector:
    """Return a number and all entries of a tree as one vector."""
    return np.concatenate([[first], *(np.ravel(np.asarray(leaf, np.float64)) for leaf in tree.leaves(rest))])
