"""Losses of a model, one value for each sample: cross-entropy and half the squared error, and what is known of them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from feddr import precision, tree
from feddr.data import ClientSamples, FederatedData, Samples
from feddr.data.tables import WEIGHT
from feddr.models import Model
from feddr.tree import Tree

PerSample = Callable[[Tree, Any], jax.Array]
"""From (parameters, batch of samples) to one number for each sample."""

Bounds = tuple[float, float]
"""Bounds (l, L) on the eigenvalues of a Hessian."""


def check_curvature(curvature: Any) -> None:
    """Refuse bounds on a curvature of which the lower one is above the other.

    Examples
    --------
    >>> check_curvature((2.0, 1.0))
    Traceback (most recent call last):
    ValueError: curvature must be (l, L) with l <= L, got (2.0, 1.0).
    """
    if isinstance(curvature, tuple) and not curvature[0] <= curvature[1]:
        raise ValueError(f"curvature must be (l, L) with l <= L, got {curvature}.")


def cross_entropy(model: Model) -> PerSample:
    """Return the cross-entropy of a model on features ``x`` and labels ``y``: whole numbers, 0 and 1 for one output."""

    def loss(params: Tree, batch: Any) -> jax.Array:
        scores, y = model.apply(params, batch["x"]), batch["y"]
        if not model.num_outputs:
            return _times_weight(jnp.logaddexp(0.0, scores) - y * scores, batch)
        own = y[:, None] == jnp.arange(model.num_outputs)  # a gather's gradient is a scatter, which is slow
        return _times_weight(jax.nn.logsumexp(scores, axis=-1) - jnp.sum(jnp.where(own, scores, 0), axis=-1), batch)

    return loss


def correct(model: Model) -> PerSample:
    """Return whether the class with the largest score is the label ``y``."""

    def right(params: Tree, batch: Any) -> jax.Array:
        scores = model.apply(params, batch["x"])
        predicted = jnp.argmax(scores, axis=-1) if model.num_outputs else scores > 0
        return predicted == batch["y"]

    return right


def squared_error(model: Model) -> PerSample:
    """Return half the squared error of a model on features ``x`` and targets ``y``."""

    def loss(params: Tree, batch: Any) -> jax.Array:
        outputs = model.apply(params, batch["x"])
        outputs = outputs[:, 0] if model.num_outputs else outputs
        return _times_weight(0.5 * (outputs - batch["y"]) ** 2, batch)

    return loss


@dataclass(frozen=True)
class LinearCurvature:
    """The bounds for a loss of ``x . weight + bias`` whose second derivative is between 0 and ``largest``."""

    data: FederatedData
    largest: float

    def __call__(self, i: int) -> Bounds:
        """Return the bounds of client i."""
        samples = self.data.client(i)
        x = np.asarray(samples["x"], np.float64)
        with_bias = np.column_stack([x, np.ones(len(x))])
        if WEIGHT in samples:
            with_bias *= np.sqrt(np.asarray(samples[WEIGHT], np.float64))[:, None]
        return 0.0, self.largest * float(np.linalg.norm(with_bias, 2)) ** 2 / len(x)


def check_labels(part: ClientSamples, classes: int, name: str) -> None:
    """Refuse labels that are not whole numbers from 0 to the number of classes."""
    _check_arrays("Classification", part, name)
    y = part.samples["y"].astype(np.float64)
    wrong = np.flatnonzero((y < 0) | (y >= classes) | (y != np.floor(y)))
    if len(wrong):
        client = int(np.searchsorted(part.offsets, wrong[0], side="right")) - 1
        raise ValueError(
            f"Labels must be whole numbers from 0 to {classes - 1}, {name} client {client} has the label "
            f"{y[wrong[0]]:g}; give the model more outputs or renumber the labels."
        )


def check_scores(model: Model) -> None:
    """Refuse a model whose one score stands alone in a row: it is the same for every class."""
    if model.num_outputs == 1:
        raise ValueError(
            "Classification needs a score for each class, or one number a sample for two classes, got rows of one "
            "score; give the model 2 outputs, or return outputs[:, 0] (torch.nn.Flatten(0) at the end of a module)."
        )


def check_targets(model: Model, data: FederatedData) -> None:
    """Refuse targets that are not one number for each sample, and models with more than one output."""
    _check_arrays("Regression", data.train, "train")
    if model.num_outputs > 1:
        raise ValueError(
            f"Regression needs a model with one output, got {model.num_outputs}; use models.linear, or an mlp "
            "whose last size is 1."
        )


def check_width(model: Model, data: FederatedData, seed: int) -> Tree:
    """Return the start of a model, or refuse a model that cannot compute with the features of the data."""
    for part in (data.train, data.test):
        if model.check is not None and part is not None:
            model.check(part.samples["x"])
    start, rows = model.init(seed), data.train.samples["x"][:2]
    arguments = tree.cast(start, np.float32), precision.samples({"x": rows}, np.float32)["x"]
    _check_features(model, rows.shape[1:])
    try:
        # A function made just for this, which JAX forgets again; it remembers others in this precision.
        jax.eval_shape(lambda params, x: model.apply(params, x), *arguments)
    except TypeError as error:  # how JAX refuses arrays whose shapes do not go together
        name = "model" if model.spec is None else f"model {model.spec['name']}"
        reason = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        raise ValueError(
            f"{name} does not fit samples of shape {rows.shape[1:]}: {reason}; build it for this shape."
        ) from None
    return start


def _check_features(model: Model, shape: tuple[int, ...]) -> None:
    """Refuse samples that a fully connected model was not built for, with the number that it should be built for."""
    spec = model.spec or {}
    features = spec.get("num_features", next(iter(spec.get("sizes", ())), None))
    if spec.get("name") not in ("linear", "softmax", "mlp") or shape == (features,):
        return
    takes = f"model {spec['name']} takes {features} features, the samples have"
    if len(shape) == 1:
        raise ValueError(f"{takes} {shape[0]}; build it with {shape[0]}.")
    raise ValueError(f"{takes} the shape {shape}; make rows of them, x.reshape(len(x), -1).")


def check_per_sample(name: str, function: PerSample, init: Tree, samples: Samples) -> None:
    """Refuse a function that is not one real number for each sample, before any time is spent; warn of unused weights.

    Parameters
    ----------
    name
        ``"loss"`` or ``"correct"``.
    """
    batch = {key: array[:2] for key, array in samples.items()}
    rows, params = len(next(iter(batch.values()))), tree.cast(init, np.float32)
    if name == "loss" and WEIGHT in batch and not _uses(function, WEIGHT, params, batch):
        warnings.warn(
            f"The array {WEIGHT} is not used by the loss; multiply the loss of each sample by it, or leave it out.",
            stacklevel=4,
        )
    # JAX remembers arrays that a function refers to in this precision for as long as it knows the function, and could
    # then not compile it in the other one; it soon forgets a function that was made just for this.
    shape = jax.eval_shape(lambda x, batch: function(x, batch), params, precision.samples(batch, np.float32)).shape
    if shape != (rows,):
        raise ValueError(
            f"{name} must return one value for each sample, for {rows} samples it returned shape {shape}; "
            "do not average over the batch."
        )


def _uses(loss: PerSample, name: str, params: Tree, batch: Samples) -> bool:
    """Return whether the loss depends on this array of a batch."""
    rest = precision.samples({other: array for other, array in batch.items() if other != name}, np.float32)
    traced = jax.make_jaxpr(lambda array: loss(params, {**rest, name: array}))(
        precision.samples({name: batch[name]}, np.float32)[name]
    )
    (argument,), outputs = traced.jaxpr.invars, traced.jaxpr.outvars
    return any(argument is used for equation in traced.jaxpr.eqns for used in equation.invars) or argument in outputs


def _times_weight(losses: jax.Array, batch: Any) -> jax.Array:
    return losses * batch[WEIGHT] if WEIGHT in batch else losses


def _check_arrays(who: str, part: ClientSamples, name: str) -> None:
    missing = sorted({"x", "y"} - set(part.samples))
    if missing:
        raise ValueError(f"{who} needs the arrays x and y, the {name} data has no {missing[0]}.")
    shape = part.samples["y"].shape
    if len(shape) != 1:
        raise ValueError(f"{who} needs one label a sample, the {name} data has y of shape {shape}; use y[:, 0].")
    unused = sorted(set(part.samples) - {"x", "y", WEIGHT})
    if unused and name == "train":
        warnings.warn(
            f"The arrays {', '.join(unused)} are not used by the loss; leave them out, or write a loss of your own.",
            stacklevel=5,
        )
