"""Small models: initial parameters and a function of them, nothing else.

Any pair of such functions is a model; these are the ones that the experiments use.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from feddr.dense import dense
from feddr.tree import Tree

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
}


@dataclass(frozen=True)
class Model:
    """A parametrised function.

    Parameters
    ----------
    init
        From a seed to initial parameters.
    apply
        From (parameters, rows of features) to one output, or one row of outputs, for each row.
    num_outputs
        Width of the output: 0 for a single number, the number of classes otherwise.
    is_linear
        Whether it is ``x . weight + bias``, so that the curvature of a loss is known.
    """

    init: Callable[[int], Tree]
    apply: Callable[[Tree, jax.Array], jax.Array]
    num_outputs: int
    is_linear: bool = False


def linear(num_features: int) -> Model:
    """Return ``x . weight + bias``, one number for each sample, started at zero."""
    _check_sizes([num_features])

    def init(seed: int) -> Tree:
        del seed
        return {"weight": np.zeros(num_features), "bias": np.zeros(())}

    return Model(init, lambda params, x: x @ params["weight"] + params["bias"], num_outputs=0, is_linear=True)


def softmax(num_features: int, num_classes: int) -> Model:
    """Return ``x W + b``, one score for each class, started at zero: multinomial logistic regression."""
    _check_sizes([num_features, num_classes])

    def init(seed: int) -> Tree:
        del seed
        return {"weight": np.zeros((num_features, num_classes)), "bias": np.zeros(num_classes)}

    return Model(init, lambda params, x: dense(x, params["weight"]) + params["bias"], num_classes, is_linear=True)


def mlp(sizes: Sequence[int], activation: str = "relu") -> Model:
    """Return a fully connected network.

    Parameters
    ----------
    sizes
        Width of the input, the hidden layers and the output: ``[60, 32, 10]``.
    activation
        ``"relu"``, ``"tanh"`` or ``"softplus"`` between the layers. The theory asks for a smooth loss; ReLU is not.

    Notes
    -----
    Weights start uniform in ``sqrt(6 / (inputs + outputs))`` (Glorot and Bengio 2010), biases at zero.
    """
    _check_sizes(sizes)
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
                "weight": rng.uniform(-1.0, 1.0, (inputs, outputs)) * np.sqrt(6.0 / (inputs + outputs)),
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

    return Model(init, apply, num_outputs=sizes[-1])


def _check_sizes(sizes: Sequence[int]) -> None:
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"The widths of a model must be positive whole numbers, got {list(sizes)}.")
