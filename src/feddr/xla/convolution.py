"""Convolutions as products of matrices, and pooling without overlap as a few comparisons, for CPUs.

Within a loop XLA computes a convolution on a CPU ten times slower than outside of one, and its gradients above all
(docs/PERFORMANCE.md). These are the same sums, made of slices and products, and JAX differentiates them as such.
Where channels are many, ``winograd`` needs fewer multiplications.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from feddr.xla import winograd
from feddr.xla.dense import dense, in_memory

MOST_TAPS = 64
"""Taps of a kernel, or entries of a pooling window, each of which costs the compiler some time."""


def is_product(x: Any, weight: Any, settings: dict[str, Any]) -> bool:
    """Return whether ``convolution`` takes a convolution: real numbers of one type, one or two dimensions in space.

    Parameters
    ----------
    x, weight
        Shapes and types of the operands.
    settings
        The parameters of ``lax.conv_general_dilated_p``.
    """
    types = {x.dtype, weight.dtype, settings["preferred_element_type"] or x.dtype}
    _, _, *taps = (weight.shape[axis] for axis in settings["dimension_numbers"].rhs_spec)
    return (
        len(taps) in (1, 2)
        and len(types) == 1
        and jnp.issubdtype(x.dtype, jnp.floating)
        and settings["batch_group_count"] == 1
        and math.prod(taps) <= MOST_TAPS
        and x.size * weight.size > 0
        and min(_out_shape(x, weight, settings)) > 0
    )


def convolution(x: jax.Array, weight: jax.Array, settings: dict[str, Any]) -> jax.Array:
    """Return what ``lax.conv_general_dilated_p.bind(x, weight, **settings)`` does, as a product with columns.

    A row of the columns holds the entries of x under the window at one place; with groups, those of one group. A layer
    in which each channel is its own group is a sum over the taps instead.
    """
    numbers, groups = settings["dimension_numbers"], settings["feature_group_count"]
    batch, feature, *space = numbers.lhs_spec
    outputs, inputs, *taps = numbers.rhs_spec
    x = jnp.transpose(x, (batch, *space, feature))
    weight = jnp.transpose(weight, (*taps, inputs, outputs))
    margins = [(low, high, d - 1) for (low, high), d in zip(settings["padding"], settings["lhs_dilation"], strict=True)]
    x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *margins, (0, 0, 0)])
    counts = weight.shape[:-2]
    steps = list(zip(settings["window_strides"], settings["rhs_dilation"], counts, strict=True))
    if groups > 1 and weight.shape[-2] == 1:
        product = _by_tap(x, weight, steps)
    elif groups == 1 and all(step[:2] == (1, 1) for step in steps) and winograd.pays(x, weight):
        product = winograd.filtered(x, weight)
    else:
        *rows, channels = x.shape
        columns = _columns(x.reshape(*rows, groups, channels // groups), steps)
        *rows, _, width = columns.shape
        if groups == 1:
            product = dense(columns.reshape(-1, width), weight.reshape(width, -1))
        else:
            kernels = weight.reshape(width, groups, -1)
            product = jnp.einsum("rgk,kgo->rgo", columns.reshape(-1, groups, width), kernels)
        product = product.reshape(*rows, weight.shape[-1])
    out_batch, out_feature, *out_space = numbers.out_spec
    order = [0] * product.ndim
    for axis, target in enumerate((out_batch, *out_space, out_feature)):
        order[target] = axis
    return jnp.transpose(product, order)


def _columns(x: jax.Array, steps: Sequence[tuple[int, int, int]]) -> jax.Array:
    """Return the windows of x (rows, space, groups, channels), of shape (rows, places, groups, taps x channels).

    One dimension after the other: few long slices are copied faster than many short ones, and compile faster.
    """
    for axis in range(len(steps), 0, -1):
        if steps[axis - 1] != (1, 1, 1):
            x = jnp.concatenate(_shifted(x, axis, *steps[axis - 1]), axis=-1)
    return x


def _by_tap(x: jax.Array, weight: jax.Array, steps: Sequence[tuple[int, int, int]]) -> jax.Array:
    """Return the convolution of each channel with its own kernels."""
    x = jnp.repeat(x, weight.shape[-1] // x.shape[-1], axis=-1)
    slices = [x]
    for axis, step in enumerate(steps, 1):
        slices = [shifted for each in slices for shifted in _shifted(each, axis, *step)]
    taps = weight.reshape(-1, weight.shape[-1])
    total = slices[0] * taps[0]
    for tap, each in enumerate(slices[1:], 1):
        total = total + each * taps[tap]
    return total


def _shifted(x: jax.Array, axis: int, stride: int, dilation: int, taps: int) -> list[jax.Array]:
    """Return the entries that each tap of a window meets along an axis."""
    places = (x.shape[axis] - dilation * (taps - 1) - 1) // stride + 1
    begins = range(0, dilation * taps, dilation)
    return [lax.slice_in_dim(x, i, i + stride * (places - 1) + 1, stride, axis) for i in begins]


def _out_shape(x: Any, weight: Any, settings: dict[str, Any]) -> list[int]:
    """Return the number of places of the window in each dimension of space."""
    numbers = settings["dimension_numbers"]
    sizes = []
    for i, (at, tap) in enumerate(zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], strict=True)):
        size = settings["lhs_dilation"][i] * (x.shape[at] - 1) + 1 + sum(settings["padding"][i])
        reach = settings["rhs_dilation"][i] * (weight.shape[tap] - 1) + 1
        sizes.append((size - reach) // settings["window_strides"][i] + 1 if size >= reach else 0)
    return sizes


def is_apart(x: Any, settings: dict[str, Any]) -> bool:
    """Return whether the windows of a pooling lie side by side, so that ``pooling`` takes it.

    Parameters
    ----------
    x
        Shape and type of the operand.
    settings
        The parameters of ``lax.reduce_window_max_p`` or ``lax.reduce_window_sum_p``.
    """
    window = settings["window_dimensions"]
    padded = zip(x.shape, settings["padding"], window, strict=True)
    return (
        tuple(window) == tuple(settings["window_strides"])
        and {*settings["base_dilation"], *settings["window_dilation"]} <= {1}
        and jnp.issubdtype(x.dtype, jnp.floating)
        and math.prod(window) <= MOST_TAPS
        and all(low >= 0 and high >= 0 and low + size + high >= wide for size, (low, high), wide in padded)
    )


def pooling(x: jax.Array, settings: dict[str, Any], is_largest: bool) -> jax.Array:
    """Return the largest entry, or the sum, of each window; windows lie side by side.

    The gradient of a largest entry belongs to the first of equal ones, as in XLA.
    """
    window, padding = settings["window_dimensions"], settings["padding"]
    order = sorted(range(x.ndim), key=lambda axis: axis > 0 and window[axis] == 1)
    if order != list(range(x.ndim)):  # contiguous entries are then those of different windows
        inner = {"window_dimensions": [window[i] for i in order], "padding": [padding[i] for i in order]}
        return jnp.transpose(pooling(jnp.transpose(x, order), inner, is_largest), np.argsort(order).tolist())
    nothing = jnp.asarray(-jnp.inf if is_largest else 0, x.dtype)
    x = lax.pad(x, nothing, [(low, high, 0) for low, high in padding])
    counts = [size // wide for size, wide in zip(x.shape, window, strict=True)]
    x = x[tuple(slice(count * wide) for count, wide in zip(counts, window, strict=True))]
    x = x.reshape([size for pair in zip(counts, window, strict=True) for size in pair])
    axes = tuple(range(1, x.ndim, 2))
    return largest(x, axes) if is_largest else x.sum(axes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def largest(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return ``x.max(axes)`` for axes of few entries; the gradient belongs to the first of equal ones.

    JAX would write the gradient of each entry of a window to an array of its own, with gaps, and add these. Here it is
    one pass over x, which asks of each entry whether it is the one that was chosen.

    Examples
    --------
    >>> x = jnp.array([[1.0, 3.0, 3.0], [5.0, 2.0, 4.0]])
    >>> jax.grad(lambda x: largest(x, (1,)).sum())(x).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return _chosen(x, axes)[0]


def _chosen(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Return the largest entry of each window, and its number in the window."""
    entries = [x]
    for axis in sorted(axes, reverse=True):
        entries = [lax.index_in_dim(e, i, axis, keepdims=False) for i in range(x.shape[axis]) for e in entries]
    chosen, number = entries[0], jnp.zeros(entries[0].shape, jnp.int32)
    for i, entry in enumerate(entries[1:], 1):
        stays = (chosen >= entry) | (chosen != chosen)  # a NaN stays one
        chosen, number = jnp.where(stays, chosen, entry), jnp.where(stays, number, i)
    return chosen, number


def _largest_forward(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    chosen, number = _chosen(x, axes)
    window = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
    numbers = jnp.arange(math.prod(window), dtype=jnp.int32).reshape(window)
    return in_memory(chosen), (in_memory(number), numbers)


def _largest_backward(axes: tuple[int, ...], saved: tuple[jax.Array, jax.Array], d: jax.Array) -> tuple[jax.Array]:
    number, numbers = saved
    own = jnp.expand_dims(number, axes) == numbers
    return (jnp.where(own, jnp.expand_dims(d, axes), 0),)


largest.defvjp(_largest_forward, _largest_backward)
