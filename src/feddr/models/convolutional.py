"""Convolutional networks on images: the one that papers train on FEMNIST, and a small residual network.

Images are (rows, height, width, channels), or (rows, height * width * channels) in that order, or without the last axis
where there is one channel.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from feddr.models import initial
from feddr.models.model import Model, check_parameters, check_sizes
from feddr.tree import Tree
from feddr.xla.convolution import largest
from feddr.xla.dense import dense

EPSILON = 1e-5
"""What group normalisation adds to a variance."""


def cnn(
    num_classes: int = 62,
    shape: Sequence[int] = (28, 28, 1),
    channels: Sequence[int] = (32, 64),
    kernel: int = 5,
    hidden: int = 512,
) -> Model:
    """Return a convolutional network: convolutions, each with 2x2 max pooling, a hidden layer, and scores.

    Parameters
    ----------
    num_classes
        Scores for each image; 62 for FEMNIST, 10 for digits.
    shape
        Height, width and channels of an image. Rows may come flat, (rows, height * width * channels).
    channels
        Outputs of each convolution. Each one is followed by ReLU and by max pooling, which halves height and width.
    kernel
        Height and width of the kernels. Convolutions keep height and width ("same" padding).
    hidden
        Width of the hidden layer.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more, or nothing is left of an image after the pooling.

    Notes
    -----
    The network of McMahan et al. 2017; LEAF (Caldas et al. 2018) has it with a hidden layer of 2048. Weights start as
    He et al. 2015 draw them, those of the scores as Glorot and Bengio 2010, and biases at zero.

    Examples
    --------
    >>> model = cnn(num_classes=10)
    >>> from feddr import tree
    >>> tree.size(model.init(0))
    1663370
    >>> model.apply(model.init(0), np.zeros((3, 784), np.float32)).shape
    (3, 10)
    """
    shape, channels = _image(shape), list(channels)
    check_sizes("The sizes of a cnn", [num_classes, *channels, kernel, hidden])
    halved = 2 ** len(channels)
    flat = (shape[0] // halved) * (shape[1] // halved) * ([shape[2], *channels][-1])
    if not flat:
        raise ValueError(
            f"Each convolution of a cnn halves height and width, got {len(channels)} convolutions for images of "
            f"{shape[0]}x{shape[1]}; take fewer channels."
        )
    kernels = [(kernel, kernel, i, o) for i, o in zip([shape[2], *channels], channels, strict=False)]
    count = sum(math.prod(k) for k in kernels) + flat * hidden + hidden * num_classes
    check_parameters(f"A cnn with channels {channels} and a hidden layer of {hidden}", count)

    def init(seed: int) -> Tree:
        rng = np.random.default_rng(seed)
        convolutions = {f"conv{i}": initial.layer(initial.he(rng, k)) for i, k in enumerate(kernels)}
        return convolutions | {
            "hidden": initial.layer(initial.he(rng, (flat, hidden))),
            "scores": initial.layer(initial.glorot(rng, (hidden, num_classes))),
        }

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        x = _images(x, shape, params)
        for i in range(len(kernels)):
            own = params[f"conv{i}"]
            x = jax.nn.relu(_max_pool(_convolution(x, own["weight"]) + own["bias"]))
        x = x.reshape(len(x), flat)
        x = jax.nn.relu(dense(x, params["hidden"]["weight"]) + params["hidden"]["bias"])
        return dense(x, params["scores"]["weight"]) + params["scores"]["bias"]

    spec = {"name": "cnn", "num_classes": num_classes, "shape": list(shape), "channels": channels}
    return Model(init, apply, num_classes, spec=spec | {"kernel": kernel, "hidden": hidden})


def resnet(
    num_classes: int = 10,
    shape: Sequence[int] = (32, 32, 3),
    widths: Sequence[int] = (16, 32, 64),
    blocks: int = 1,
    groups: int = 8,
) -> Model:
    """Return a small residual network with group normalisation.

    Parameters
    ----------
    num_classes, shape
        As in ``cnn``.
    widths
        Channels of each stage. From the second on, a stage begins by halving height and width.
    blocks
        Residual blocks in each stage, of two 3x3 convolutions each: 1 makes ResNet-8, 3 makes ResNet-20.
    groups
        Groups of channels that are normalised together; they must divide every width.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more, or the groups do not divide a width.

    Notes
    -----
    The residual network of He et al. 2016 for small images. Group normalisation (Wu and He 2018) takes the place of
    batch normalisation, which mixes the samples of a batch and does badly where clients differ (Hsieh et al. 2020).
    Convolutions start as He et al. 2015 draw them, scales at one, and biases at zero.

    Examples
    --------
    >>> model = resnet(shape=(8, 8, 3), widths=(4, 8), groups=2)
    >>> sorted(model.init(0))
    ['scores', 'stage0block0', 'stage1block0', 'stem']
    >>> model.apply(model.init(0), np.zeros((3, 8, 8, 3), np.float32)).shape
    (3, 10)
    """
    shape, widths = _image(shape), list(widths)
    check_sizes("The sizes of a resnet", [num_classes, *widths, blocks, groups])
    if not widths or any(width % groups for width in widths):
        raise ValueError(f"groups must divide every width of a resnet, got groups={groups} and widths={widths}.")
    steps = zip([widths[0], *widths], widths, strict=False)
    stages = [(i, o, 1 if k == 0 else 2) for k, (i, o) in enumerate(steps)]
    count = 9 * shape[2] * widths[0] + sum(9 * o * (i + (2 * blocks - 1) * o) + i * o for i, o, _ in stages)
    check_parameters(f"A resnet with widths {widths} and {blocks} blocks a stage", count)
    plan = [
        (f"stage{k}block{b}", i if b == 0 else o, o, stride if b == 0 else 1)
        for k, (i, o, stride) in enumerate(stages)
        for b in range(blocks)
    ]

    def init(seed: int) -> Tree:
        rng = np.random.default_rng(seed)

        def normed(size: int, inputs: int, outputs: int) -> Tree:
            weight = initial.he(rng, (size, size, inputs, outputs))
            return {**initial.layer(weight), "scale": np.ones(outputs)}

        params: dict[str, Tree] = {"stem": normed(3, shape[2], widths[0])}
        for name, inputs, outputs, _ in plan:
            params[name] = {"conv0": normed(3, inputs, outputs), "conv1": normed(3, outputs, outputs)}
            if inputs != outputs:
                params[name]["shortcut"] = normed(1, inputs, outputs)
        return params | {"scores": initial.layer(initial.glorot(rng, (widths[-1], num_classes)))}

    def normed(x: jax.Array, own: Tree, stride: int = 1) -> jax.Array:
        return _group_norm(_convolution(x, own["weight"], stride), groups) * own["scale"] + own["bias"]

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(normed(_images(x, shape, params), params["stem"]))
        for name, inputs, outputs, stride in plan:
            own = params[name]
            inner = normed(jax.nn.relu(normed(x, own["conv0"], stride)), own["conv1"])
            if inputs != outputs:
                x = normed(x, own["shortcut"], stride)
            elif stride > 1:
                x = x[:, ::stride, ::stride]
            x = jax.nn.relu(x + inner)
        return dense(x.mean(axis=(1, 2)), params["scores"]["weight"]) + params["scores"]["bias"]

    spec = {"name": "resnet", "num_classes": num_classes, "shape": list(shape), "widths": widths}
    return Model(init, apply, num_classes, spec=spec | {"blocks": blocks, "groups": groups})


def _image(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return the shape of an image with its channels."""
    check_sizes("The shape of an image", shape)
    if len(shape) not in (2, 3):
        raise ValueError(f"An image has a height, a width and channels, got shape={list(shape)}.")
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def _images(x: jax.Array, shape: tuple[int, int, int], params: Tree) -> jax.Array:
    """Return rows as images of real numbers."""
    allowed = {shape, (math.prod(shape),)} | ({shape[:2]} if shape[2] == 1 else set())
    if x.shape[1:] not in allowed:
        raise ValueError(
            f"The model takes images of height, width and channels {shape}, or these {math.prod(shape)} numbers in a "
            f"row, got samples of shape {tuple(x.shape[1:])}; give the model the shape of your images."
        )
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.result_type(*jax.tree.leaves(params))
    return x.reshape(-1, *shape).astype(dtype)


def _convolution(x: jax.Array, weight: jax.Array, stride: int = 1) -> jax.Array:
    layout: Any = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=layout)


def _max_pool(x: jax.Array) -> jax.Array:
    """Return the largest entries of windows of 2x2; an odd last row or column is left out."""
    n, height, width, channels = x.shape
    windows = x[:, : height // 2 * 2, : width // 2 * 2].reshape(n, height // 2, 2, width // 2, 2, channels)
    return largest(windows, (2, 4))


def _group_norm(x: jax.Array, groups: int) -> jax.Array:
    n, height, width, channels = x.shape
    grouped = x.reshape(n, height * width, groups, channels // groups)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    variance = jnp.square(grouped - mean).mean(axis=(1, 3), keepdims=True)
    return ((grouped - mean) * jax.lax.rsqrt(variance + EPSILON)).reshape(x.shape)
