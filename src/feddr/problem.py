"""The problem: minimise F(x) = sum_i w_i f_i(x) + g(x)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision, tree
from feddr.data import ClientSamples, FederatedData
from feddr.models import Model
from feddr.prox import Regulariser, Zero
from feddr.tree import Tree

PerSample = Callable[[Tree, Any], jax.Array]
"""From (parameters, batch of samples) to one number for each sample."""

Bounds = tuple[float, float]
"""Bounds (l, L) on the eigenvalues of a Hessian."""


@dataclass(frozen=True, eq=False)
class Problem:
    """minimise F(x) = sum_i w_i f_i(x) + g(x), where f_i is the mean loss over the samples of client i.

    Parameters
    ----------
    loss
        From (parameters, batch) to one value for each sample, in jax.numpy. A batch has the named arrays of the data.
    data
        The samples of each client.
    init
        The start x^0: any pytree of arrays. Whole numbers become real ones, as in every point x of the methods below.
    g
        A regulariser of ``feddr.prox``; None for g = 0.
    weights
        ``"uniform"`` (w_i = 1/n, the paper's theory), ``"samples"`` (w_i = n_i/N, the paper's experiments), or one
        positive number for each client, which is scaled to sum to one.
    correct
        From (parameters, batch) to whether each sample is predicted rightly; needed for accuracies only.
    curvature
        Bounds (l, L) on the eigenvalues of the Hessian of every f_i, or a function from a client to its bounds, where
        they are known; certified local solvers estimate them for each client otherwise.

    Raises
    ------
    ValueError
        Where the weights or the bounds are wrong, the start is not finite, or the loss is not one value for each
        sample.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> clients = [{"x": np.eye(2), "y": np.array([1.0, 2.0])}, {"x": np.ones((1, 2)), "y": np.array([3.0])}]
    >>> problem = feddr.Problem(
    ...     loss=lambda params, batch: 0.5 * (batch["x"] @ params - batch["y"]) ** 2,
    ...     data=feddr.FederatedData.from_clients(clients),
    ...     init=np.zeros(2),
    ... )
    >>> problem.F(np.array([1.0, 2.0]))
    0.0
    """

    loss: PerSample
    data: FederatedData
    init: Tree
    g: Regulariser | None = None
    weights: str | ArrayLike = "uniform"
    correct: PerSample | None = None
    curvature: Bounds | Callable[[int], Bounds] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "init", start(self.init))
        if isinstance(self.curvature, tuple) and not self.curvature[0] <= self.curvature[1]:
            raise ValueError(f"curvature must be (l, L) with l <= L, got {self.curvature}.")
        assert self.client_weights is not None  # a wrong weighting is refused here, not in the first round
        self._check_loss()

    @classmethod
    def classification(
        cls,
        model: Model,
        data: FederatedData,
        *,
        g: Regulariser | None = None,
        weights: str | ArrayLike = "uniform",
        seed: int = 0,
        curvature: Bounds | Callable[[int], Bounds] | None = None,
    ) -> "Problem":
        """Cross-entropy of ``model`` on features ``x`` and labels ``y``.

        A model with one score for each class takes labels 0 to C - 1; ``models.linear`` takes labels 0 and 1.
        ``seed`` draws the start.
        """
        classes = model.num_outputs or 2
        _check_labels(data.train, classes, "train")
        if data.test is not None:
            _check_labels(data.test, classes, "test")
        _check_features(model, data)

        def loss(params: Tree, batch: Any) -> jax.Array:
            scores, y = model.apply(params, batch["x"]), batch["y"]
            if not model.num_outputs:
                return jnp.logaddexp(0.0, scores) - y * scores
            own = y[:, None] == jnp.arange(model.num_outputs)  # a gather's gradient is a scatter, which is slow
            return jax.nn.logsumexp(scores, axis=-1) - jnp.sum(jnp.where(own, scores, 0), axis=-1)

        def correct(params: Tree, batch: Any) -> jax.Array:
            scores = model.apply(params, batch["x"])
            predicted = jnp.argmax(scores, axis=-1) if model.num_outputs else scores > 0
            return predicted == batch["y"]

        if curvature is None and model.is_linear:
            # The Hessian of the loss in the scores has eigenvalues of at most p (1 - p) <= 1/4, or 1/2 for softmax.
            curvature = _linear_curvature(data, 0.5 if model.num_outputs else 0.25)
        return cls(loss, data, model.init(seed), g, weights, correct, curvature)

    @classmethod
    def regression(
        cls,
        model: Model,
        data: FederatedData,
        *,
        g: Regulariser | None = None,
        weights: str | ArrayLike = "uniform",
        seed: int = 0,
        curvature: Bounds | Callable[[int], Bounds] | None = None,
    ) -> "Problem":
        """Half the squared error of ``model`` on features ``x`` and targets ``y``."""
        _check_features(model, data)

        def loss(params: Tree, batch: Any) -> jax.Array:
            return 0.5 * (model.apply(params, batch["x"]) - batch["y"]) ** 2

        if curvature is None and model.is_linear:
            curvature = _linear_curvature(data, 1.0)
        return cls(loss, data, model.init(seed), g, weights, curvature=curvature)

    @cached_property
    def client_weights(self) -> NDArray[np.float64]:
        """The weights w_i, summing to one."""
        return client_weights(self.weights, self.data)

    @cached_property
    def sample_weights(self) -> NDArray[np.float64]:
        """The weight w_i / n_i of each training sample in memory, so that f is a weighted sum of per-sample losses."""
        return sample_weights(self.client_weights, self.data)

    def known_curvature(self, i: int) -> Bounds | None:
        """Return bounds on the eigenvalues of the Hessian of f_i, None where they are not known."""
        return self.curvature(i) if callable(self.curvature) else self.curvature

    @property
    def regulariser(self) -> Regulariser:
        """The regulariser g, which is Zero where none was given."""
        return Zero() if self.g is None else self.g

    def f(self, x: Tree) -> float:
        """Return f(x) = sum_i w_i f_i(x); over the panel, as all of these, where samples are made on demand."""
        x = precision.parameters(x)
        with precision.scope(_dtype(x)):
            return float(self._f(x, *self._all_samples(x)))

    def F(self, x: Tree) -> float:
        """Return F(x) = f(x) + g(x)."""
        x = precision.parameters(x)
        with precision.scope(_dtype(x)):
            return float(self._f(x, *self._all_samples(x)) + self.regulariser.value(x))

    def gradient(self, x: Tree) -> Tree:
        """Return the gradient of f at x."""
        x = precision.parameters(x)
        with precision.scope(_dtype(x)):
            return tree.map(np.asarray, self._gradient(x, *self._all_samples(x)))

    def value_and_gradient(self, x: Tree) -> tuple[float, Tree]:
        """Return f(x) and its gradient, always over all clients, whose samples are made one after the other if need be.

        A theorem is about all of them; metrics may be those of a panel.
        """
        if self.data.on_demand is None:
            return self.f(x), self.gradient(x)
        value, gradient = 0.0, tree.zeros_like(tree.cast(x, np.float64))
        for i, w in enumerate(self.client_weights):
            f, slope = self.client_value_and_gradient(i, x)
            value, gradient = value + float(w) * f, tree.axpy(float(w), slope, gradient)
        return value, tree.cast(gradient, _dtype(x))

    def client_value_and_gradient(self, i: int, x: Tree) -> tuple[float, Tree]:
        """Return f_i(x) and its gradient."""
        x = precision.parameters(x)
        dtype = _dtype(x)
        with precision.scope(dtype):
            value, gradient = self._mean_loss(x, precision.samples(self.data.client(i), dtype))
            return float(value), tree.map(np.asarray, gradient)

    def batch_gradient(self, x: Tree, batch: Any) -> Tree:
        """Return the gradient at x of the mean loss over a batch, in the precision that JAX is set to."""
        return self._mean_loss(x, batch)[1]

    def gradient_mapping(self, x: Tree, eta: float = 1.0) -> Tree:
        """Return G_eta(x) = (x - prox_{eta g}(x - eta grad f(x))) / eta, which vanishes at stationary points only."""
        return gradient_mapping(self.regulariser, x, self.gradient(x), eta)

    def accuracy(self, x: Tree, part: ClientSamples | None) -> float:
        """Return the share of samples that are predicted rightly; NaN where there are none, or nobody can say."""
        if part is None or not part.num_samples or self.correct is None:
            return float("nan")
        x = precision.parameters(x)
        with precision.scope(_dtype(x)):
            return float(jnp.mean(self.correct(x, precision.samples(part.samples, _dtype(x)))))

    @cached_property
    def _mean_loss(self) -> Callable[[Tree, Any], tuple[jax.Array, Tree]]:
        return jax.jit(jax.value_and_grad(lambda x, batch: jnp.mean(self.loss(x, batch))))

    @cached_property
    def _f(self) -> Callable[..., jax.Array]:
        return jax.jit(lambda x, samples, weights: jnp.dot(weights, self.loss(x, samples)))

    @cached_property
    def _gradient(self) -> Callable[..., Tree]:
        return jax.jit(jax.grad(self._f))

    def _all_samples(self, x: Tree) -> tuple[Tree, Any]:
        dtype = _dtype(x)
        return precision.samples(self.data.train.samples, dtype), self.sample_weights.astype(dtype)

    def _check_loss(self) -> None:
        """Refuse a loss that is not one real number for each sample, before any time is spent."""
        batch = {name: array[:2] for name, array in self.data.train.samples.items()}
        rows = len(next(iter(batch.values())))
        for name, function in (("loss", self.loss), ("correct", self.correct)):
            if function is None:
                continue
            # JAX remembers arrays that a function refers to in this precision for as long as it knows the function,
            # and could then not compile it in the other one; it soon forgets a function that was made just for this.
            shape = jax.eval_shape(
                lambda params, batch, f=function: f(params, batch),
                tree.cast(self.init, np.float32),
                precision.samples(batch, np.float32),
            ).shape
            if shape != (rows,):
                raise ValueError(
                    f"{name} must return one value for each sample, for {rows} samples it returned shape {shape}; "
                    "do not average over the batch."
                )


def client_weights(weights: str | ArrayLike, data: FederatedData) -> NDArray[np.float64]:
    """Return the weights w_i that ``Problem`` describes, summing to one.

    Raises
    ------
    ValueError
        Where the weights are neither one of the two words nor one positive number for each client.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.zeros((1, 2))}, {"x": np.zeros((3, 2))}])
    >>> client_weights("samples", data).tolist()
    [0.25, 0.75]
    """
    n = data.num_clients
    if isinstance(weights, str):
        if weights not in ("uniform", "samples"):
            raise ValueError(f'weights must be "uniform", "samples" or one number a client, got {weights!r}.')
        sizes = data.sizes.astype(np.float64)
        return np.full(n, 1.0 / n) if weights == "uniform" else sizes / sizes.sum()
    given = np.asarray(precision.real("weights", weights), np.float64)
    if given.shape != (n,) or not np.all(np.isfinite(given)) or np.any(given <= 0):
        raise ValueError(f"weights must be {n} positive numbers, one a client, got {given.tolist()}.")
    return scaled(given)


def scaled(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positive weights, each however large, scaled to sum to one.

    Raises
    ------
    ValueError
        Where some weights are so small beside others that they would count nothing.

    Examples
    --------
    >>> scaled(np.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    with np.errstate(over="ignore"):
        found: NDArray[np.float64] = weights / weights.sum()
    if not np.all(found):
        found = weights / weights.max()
        found /= found.sum()
    if not np.all(found):
        raise ValueError(
            f"weights must be numbers that can be added up, got {weights.min():g} beside {weights.max():g}; leave out "
            "clients that hardly count."
        )
    return found


def sample_weights(weights: NDArray[np.float64], data: FederatedData) -> NDArray[np.float64]:
    """Return the weight w_i / n_i of each training sample in memory; those of a panel are scaled to sum to one.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.zeros((1, 2))}, {"x": np.zeros((3, 2))}])
    >>> sample_weights(np.array([0.25, 0.75]), data).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if data.on_demand is not None:
        weights = weights[data.panel] / weights[data.panel].sum()
    return np.repeat(weights / data.train.sizes, data.train.sizes)


def start(init: Tree) -> Tree:
    """Return the parameters that a run begins with as arrays of real numbers, which are named, some, and finite.

    Raises
    ------
    ValueError
        Where two parameters have one name, there are none, or one is not finite.

    Examples
    --------
    >>> start({"weight": np.array([1, 2])})
    {'weight': array([1., 2.])}
    """
    names = Counter(tree.name(path) for path, _ in jax.tree_util.tree_leaves_with_path(init))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"Parameters need names of their own, got {twice[0]} twice; rename the keys of init.")
    x = precision.parameters(init)
    if not tree.size(x):
        raise ValueError("A start needs at least one number, init has none; give it the parameters of the model.")
    if not all(np.all(np.isfinite(leaf)) for leaf in tree.leaves(x)):
        raise ValueError("The start must be finite, init holds a NaN or infinity.")
    return x


def gradient_mapping(g: Regulariser, x: Tree, gradient: Tree, eta: float) -> Tree:
    """Return (x - prox_{eta g}(x - eta * gradient)) / eta.

    Examples
    --------
    >>> import feddr
    >>> gradient_mapping(feddr.prox.L1(1.0), np.array([0.0]), np.array([-3.0]), eta=1.0).tolist()
    [-2.0]
    """
    x = precision.parameters(x)
    with precision.scope(_dtype(x)):
        step = g.prox(tree.axpy(-eta, gradient, x), eta)
        return tree.map(lambda a, b: (np.asarray(a) - np.asarray(b)) / eta, x, step)


def _linear_curvature(data: FederatedData, largest: float) -> Callable[[int], Bounds]:
    """Return the bounds for a loss of ``x . weight + bias`` whose second derivative is between 0 and ``largest``."""

    def bounds(i: int) -> Bounds:
        x = np.asarray(data.client(i)["x"], np.float64)
        with_bias = np.column_stack([x, np.ones(len(x))])
        return 0.0, largest * float(np.linalg.norm(with_bias, 2)) ** 2 / len(x)

    return bounds


def _dtype(x: Tree) -> np.dtype[Any]:
    return np.dtype(np.result_type(*[leaf.dtype for leaf in tree.leaves(x)]))


def _check_labels(part: ClientSamples, classes: int, name: str) -> None:
    missing: Sequence[str] = sorted({"x", "y"} - set(part.samples))
    if missing:
        raise ValueError(f"Classification needs the arrays x and y, the {name} data has no {missing[0]}.")
    y = part.samples["y"].astype(np.float64)
    wrong = np.flatnonzero((y < 0) | (y >= classes) | (y != np.floor(y)))
    if len(wrong):
        client = int(np.searchsorted(part.offsets, wrong[0], side="right")) - 1
        raise ValueError(
            f"Labels must be whole numbers from 0 to {classes - 1}, {name} client {client} has the label "
            f"{y[wrong[0]]:g}; give the model more outputs or renumber the labels."
        )


def _check_features(model: Model, data: FederatedData) -> None:
    """Refuse features that the model cannot take, such as tokens that it does not have."""
    for part in (data.train, data.test):
        if model.check is not None and part is not None:
            model.check(part.samples["x"])
