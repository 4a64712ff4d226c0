"""Fully connected models: linear and softmax regression, and multilayer perceptrons."""

import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from feddr.models import initial
from feddr.models.model import Model, check_parameters, check_sizes
from feddr.tree import Tree
from feddr.xla.dense import dense

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
}


def linear(num_features: int) -> Model:
    """Return ``x . weight + bias``, one number for each sample, started at zero.

    Raises
    ------
    ValueError
        Where num_features is not a whole number of 1 or more.

    Examples
    --------
    >>> model = linear(3)
    >>> {name: leaf.shape for name, leaf in model.init(0).items()}
    {'weight': (3,), 'bias': ()}
    >>> model.apply(model.init(0), np.ones((5, 3))).shape
    (5,)
    """
    _check([num_features])

    def init(seed: int) -> Tree:
        del seed
        return {"weight": np.zeros(num_features), "bias": np.zeros(())}

    spec = {"name": "linear", "num_features": num_features}
    return Model(init, lambda params, x: x @ params["weight"] + params["bias"], 0, is_linear=True, spec=spec)


def softmax(num_features: int, num_classes: int) -> Model:
    """Return ``x W + b``, one score for each class, started at zero: multinomial logistic regression.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more.

    Examples
    --------
    >>> model = softmax(3, 4)
    >>> model.apply(model.init(0), np.ones((5, 3))).shape
    (5, 4)
    """
    _check([num_features, num_classes])

    def init(seed: int) -> Tree:
        del seed
        return {"weight": np.zeros((num_features, num_classes)), "bias": np.zeros(num_classes)}

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        return dense(x, params["weight"]) + params["bias"]

    spec = {"name": "softmax", "num_features": num_features, "num_classes": num_classes}
    return Model(init, apply, num_classes, is_linear=True, spec=spec)


def mlp(sizes: Sequence[int], activation: str = "relu") -> Model:
    """Return a fully connected network.

    Parameters
    ----------
    sizes
        Width of the input, the hidden layers and the output: ``[60, 32, 10]``.
    activation
        ``"relu"``, ``"tanh"`` or ``"softplus"`` between the layers. The theory asks for a smooth loss; ReLU is not.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more, or the activation is unknown.

    Notes
    -----
    Weights start uniform in ``sqrt(6 / (inputs + outputs))`` (Glorot and Bengio 2010), biases at zero.

    Examples
    --------
    >>> model = mlp([3, 8, 2])
    >>> sorted(model.init(0))
    ['layer0', 'layer1']
    >>> model.num_outputs
    2
    """
    _check(sizes)
    if len(sizes) < 2:
        raise ValueError(f"An mlp needs at least an input and an output width, got sizes={list(sizes)}.")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}.")
    sigma = ACTIVATIONS[activation]
    layers = list(itertools.pairwise(sizes))

    def init(seed: int) -> Tree:
        rng = np.random.default_rng(seed)
        return {
            f"layer{i}": {
                "weight": initial.glorot(rng, (inputs, outputs)),
                "bias": np.zeros(outputs),
            }
            for i, (inputs, outputs) in enumerate(layers)
        }

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        for i in range(len(layers)):
            x = dense(x, params[f"layer{i}"]["weight"]) + params[f"layer{i}"]["bias"]
            if i < len(layers) - 1:
                x = sigma(x)
        return x

    spec = {"name": "mlp", "sizes": list(sizes), "activation": activation}
    return Model(init, apply, num_outputs=sizes[-1], spec=spec)


def _check(sizes: Sequence[int]) -> None:
    check_sizes("The widths of a model", sizes)
    parameters = sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise((*sizes, 1)))
    check_parameters(f"A model with the widths {list(sizes)}", parameters)
