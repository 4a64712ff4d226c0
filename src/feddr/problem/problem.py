"""The problem: minimise F(x) = sum_i w_i f_i(x) + g(x)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision, tree
from feddr.data import ClientSamples, FederatedData
from feddr.data.weighting import ClassWeight, weighted
from feddr.display import Card, as_html, as_text
from feddr.models import Model
from feddr.problem import losses
from feddr.problem.initial import fitting, start
from feddr.problem.losses import Bounds, PerSample
from feddr.problem.stationarity import gradient_mapping
from feddr.problem.weights import client_weights, sample_weights
from feddr.prox import Regulariser, Zero
from feddr.tree import Tree
from feddr.validation import kinds

DATA = "use FederatedData.from_clients([{'x': ..., 'y': ...}, ...])"

Task = Literal["classification", "regression"]
"""What the outputs of a model are for: scores of classes, or numbers."""


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
    model, task
        The model behind the loss, and ``"classification"`` or ``"regression"``, both of which predictions need;
        ``Problem.classification`` and ``Problem.regression`` set them.
    outputs
        From (parameters, batch) to the outputs of which ``feddr.metrics`` are functions, an array with one row for each
        sample; those of the model where there is one.

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
    model: Model | None = None
    task: Task | None = None
    outputs: PerSample | None = None

    def __post_init__(self) -> None:
        kinds.instance("data", self.data, FederatedData, DATA)
        if self.g is not None:
            kinds.like("g", self.g, "prox", "feddr.prox.L1(0.01)")
        object.__setattr__(self, "init", start(self.init))
        losses.check_curvature(self.curvature)
        assert self.client_weights is not None  # a wrong weighting is refused here, not in the first round
        for name, function in (("loss", self.loss), ("correct", self.correct)):
            if function is not None:
                losses.check_per_sample(name, function, self.init, self.data.train.samples)

    def _card(self) -> Card:
        weights = self.weights if isinstance(self.weights, str) else "one for each client"
        facts = {
            "minimise": "F(x) = sum_i w_i f_i(x) + g(x)",
            "g": repr(self.regulariser),
            "weights": weights,
            "parameters": f"{tree.size(self.init):,} in {', '.join(tree.named(self.init))}",
        }
        data = self.data._card()
        return Card("Problem", facts | dict(data.facts), data.curves)

    __repr__, _repr_html_ = as_text, as_html

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
        class_weight: ClassWeight | None = None,
    ) -> "Problem":
        """Cross-entropy of ``model`` on features ``x`` and labels ``y``.

        A model with one score for each class takes labels 0 to C - 1; ``models.linear`` takes labels 0 and 1.
        ``seed`` draws the start.

        Where the data have an array ``sample_weight``, or there are weights of classes, f_i is the weighted mean
        sum_j a_ij loss_ij / sum_j a_ij with a_ij = sample_weight x class_weight, and ``weights="samples"`` gives client
        i the weight sum_j a_ij. ``class_weight`` is a mapping from labels to weights, or ``"balanced"``: all classes
        weigh the same over the training samples of all clients, as in scikit-learn. Accuracies count every sample once.
        """
        kinds.model(model, Model)
        kinds.instance("data", data, FederatedData, DATA)
        losses.check_scores(model)
        classes = model.num_outputs or 2
        for name in ("train", "validation", "test"):
            if (part := data.part(name)) is not None:
                losses.check_labels(part, classes, name)
        data, weights = weighted(data, weights, class_weight, classes)
        if curvature is None and model.is_linear:
            # The Hessian of the loss in the scores has eigenvalues of at most p (1 - p) <= 1/4, or 1/2 for softmax.
            curvature = losses.LinearCurvature(data, 0.5 if model.num_outputs else 0.25)
        right = losses.correct(model)
        start = losses.check_width(model, data, seed)
        return cls(losses.cross_entropy(model), data, start, g, weights, right, curvature, model, "classification")

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
        """Half the squared error of ``model`` on features ``x`` and targets ``y``.

        An array ``sample_weight`` of the data counts as in ``classification``.
        """
        kinds.model(model, Model)
        kinds.instance("data", data, FederatedData, DATA)
        losses.check_targets(model, data)
        data, weights = weighted(data, weights)
        if curvature is None and model.is_linear:
            curvature = losses.LinearCurvature(data, 1.0)
        start = losses.check_width(model, data, seed)
        return cls(losses.squared_error(model), data, start, g, weights, None, curvature, model, "regression")

    def starting_at(self, init: Tree) -> "Problem":
        """Return the same problem with another start x^0, such as the ``params`` of an earlier result.

        Raises
        ------
        ValueError
            Where the parameters have other names or shapes than those of the start.
        """
        return replace(self, init=fitting(init, self.init))

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

    def each(self, x: Tree, batch: Any, kind: str) -> jax.Array:
        """Return the ``"loss"`` of each sample of a batch at x, whether it is ``"correct"``, or the ``"outputs"``.

        Raises
        ------
        ValueError
            Where the problem does not know what is correct, or has neither ``outputs`` nor a model.
        """
        if kind == "loss":
            return self.loss(x, batch)
        if kind == "correct":
            if self.correct is None:
                raise ValueError("Accuracies need correct=..., got a problem without it; ask for the loss, or give it.")
            return self.correct(x, batch)
        if self.outputs is not None:
            return self.outputs(x, batch)
        if self.model is None:
            raise ValueError(
                "A metric of outputs needs to know them, got a problem with a loss alone; give it outputs=..., a "
                "function of (params, batch), or make it with Problem.classification or Problem.regression."
            )
        return self.model.apply(x, batch["x"])

    @property
    def regulariser(self) -> Regulariser:
        """The regulariser g, which is Zero where none was given."""
        return Zero() if self.g is None else self.g

    def f(self, x: Tree) -> float:
        """Return f(x) = sum_i w_i f_i(x); over the panel, as all of these, where samples are made on demand."""
        x = precision.parameters(x)
        with precision.scope(precision.dtype_of(x)):
            return float(self._f(x, *self._all_samples(x)))

    def F(self, x: Tree) -> float:
        """Return F(x) = f(x) + g(x)."""
        x = precision.parameters(x)
        with precision.scope(precision.dtype_of(x)):
            return float(self._f(x, *self._all_samples(x)) + self.regulariser.value(x))

    def gradient(self, x: Tree) -> Tree:
        """Return the gradient of f at x."""
        x = precision.parameters(x)
        with precision.scope(precision.dtype_of(x)):
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
        return value, tree.cast(gradient, precision.dtype_of(x))

    def client_value_and_gradient(self, i: int, x: Tree) -> tuple[float, Tree]:
        """Return f_i(x) and its gradient."""
        x = precision.parameters(x)
        dtype = precision.dtype_of(x)
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
        with precision.scope(precision.dtype_of(x)):
            return float(jnp.mean(self.correct(x, precision.samples(part.samples, precision.dtype_of(x)))))

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
        dtype = precision.dtype_of(x)
        return precision.samples(self.data.train.samples, dtype), self.sample_weights.astype(dtype)
