"""How weights are drawn: the initialisations that the field uses, in float64."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[Any]


def glorot(rng: np.random.Generator, shape: Sequence[int]) -> Weights:
    """Return weights uniform in +- sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010), outputs the last axis."""
    inputs, outputs = int(np.prod(shape[:-1])), shape[-1]
    return rng.uniform(-1.0, 1.0, tuple(shape)) * np.sqrt(6.0 / (inputs + outputs))


def he(rng: np.random.Generator, shape: Sequence[int]) -> Weights:
    """Return normal weights with variance 2 / inputs, for layers before a ReLU (He et al. 2015)."""
    return rng.normal(0.0, np.sqrt(2.0 / np.prod(shape[:-1])), tuple(shape))


def orthogonal(rng: np.random.Generator, size: int, blocks: int) -> Weights:
    """Return square orthogonal matrices side by side (Saxe et al. 2014), shape (size, blocks * size)."""

    def one() -> Weights:
        q, r = np.linalg.qr(rng.normal(size=(size, size)))
        return q * np.sign(np.diag(r))  # without the signs it would not be uniform over all of them

    return np.concatenate([one() for _ in range(blocks)], axis=1)


def layer(weight: Weights) -> dict[str, Weights]:
    """Return the parameters of a layer: its weights, and a bias of zero for each output."""
    return {"weight": weight, "bias": np.zeros(weight.shape[-1])}
