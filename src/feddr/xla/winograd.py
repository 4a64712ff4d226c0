"""Convolutions of 3x3 to 5x5 kernels with a quarter to a half of the multiplications, by minimal filtering.

A tile of 6x6 entries has as many places for a kernel of r x r as (7 - r)^2. Convolving is multiplying polynomials: both
are evaluated at 6 points in each dimension, the values are multiplied, and the coefficients of the product follow from
them (Winograd 1980; Lavin and Gray 2016). So a tile takes 36 multiplications for each pair of channels instead of
r^2 (7 - r)^2: 100 for 5x5, 144 for 3x3. All of it is a product with a constant matrix, 36 products of matrices
side by side, and a product with another constant matrix; JAX differentiates them as such.

The points are small, and far enough from each other that rounding grows little: the result of 32 channels is off by
8e-7 of its scale in float32, where columns are by 4e-7. docs/PERFORMANCE.md has figures, also for the gradients.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

POINTS = (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2))
"""Where polynomials are evaluated; the sixth point is infinity, the leading coefficient."""

TILE = len(POINTS) + 1
FEWEST_TAPS, MOST_TAPS = 3, 5
"""Height and width of a tile, and of the kernels for which it pays."""

FEWEST_CHANNELS = 16
"""Channels from which on, before and after, the products weigh more than the constant matrices."""

FEWEST_TILES = 32
"""Tiles of all rows from which on these are more than the kernels, which are evaluated at the points as well."""

Matrix = NDArray[np.float64]


def pays(x: jax.Array, weight: jax.Array) -> bool:
    """Return whether ``filtered`` is faster than columns; other precisions than float32 keep all of their digits.

    Parameters
    ----------
    x, weight
        As in ``filtered``, or with another number of dimensions.
    """
    rows, *sizes, _ = x.shape
    *taps, inputs, outputs = weight.shape
    return (
        x.dtype == jnp.float32
        and len(taps) == 2
        and all(FEWEST_TAPS <= tap <= MOST_TAPS for tap in taps)
        and min(inputs, outputs) >= FEWEST_CHANNELS
        and rows * math.prod(_tiles(sizes, taps)) >= FEWEST_TILES
    )


def filtered(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return the convolution of images with kernels of at most 6x6, with strides of 1 and without padding.

    Parameters
    ----------
    x
        Images, shape (rows, height, width, channels).
    weight
        Kernels, shape (height, width, channels, outputs), no larger than an image.

    Examples
    --------
    >>> x, weight = jnp.ones((1, 7, 7, 2)), jnp.ones((5, 5, 2, 3))
    >>> filtered(x, weight).shape, round(float(filtered(x, weight)[0, 2, 2, 0]), 3)
    ((1, 3, 3, 3), 50.0)
    """
    rows, *sizes, channels = x.shape
    *taps, _, outputs = weight.shape
    places = [size - tap + 1 for size, tap in zip(sizes, taps, strict=True)]
    steps = [TILE - tap + 1 for tap in taps]  # places in a tile, and so the distance from one tile to the next
    tiles = _tiles(sizes, taps)
    ends = [step * count + tap - 1 for step, count, tap in zip(steps, tiles, taps, strict=True)]
    x = jnp.pad(x, [(0, 0), *((0, end - size) for end, size in zip(ends, sizes, strict=True)), (0, 0)])
    for axis, (step, count) in enumerate(zip(steps, tiles, strict=True)):
        begins = range(TILE)
        entries = [lax.slice_in_dim(x, i, i + step * (count - 1) + 1, step, 2 * axis + 1) for i in begins]
        x = jnp.stack(entries, axis)  # at last of shape (TILE, TILE, rows, tiles, tiles, channels)

    of_places, of_kernel, of_tile = (
        jnp.asarray(np.kron(a, b), x.dtype) for a, b in zip(*map(transforms, taps), strict=True)
    )
    values = (of_tile @ x.reshape(TILE**2, -1)).reshape(TILE**2, -1, channels)
    kernels = (of_kernel @ weight.reshape(math.prod(taps), -1)).reshape(TILE**2, channels, outputs)
    products = jnp.einsum("ptc,pco->pto", values, kernels)
    y = (of_places @ products.reshape(TILE**2, -1)).reshape(*steps, rows, *tiles, outputs)
    y = y.transpose(2, 3, 0, 4, 1, 5).reshape(rows, tiles[0] * steps[0], tiles[1] * steps[1], outputs)
    return y[:, : places[0], : places[1]]


def _tiles(sizes: Sequence[int], taps: Sequence[int]) -> list[int]:
    """Return how many tiles have all places of a kernel, in each dimension."""
    return [-(-(size - tap + 1) // (TILE - tap + 1)) for size, tap in zip(sizes, taps, strict=True)]


@functools.cache
def transforms(taps: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return the matrices A, G, B with ``A @ ((G @ kernel) * (B @ tile))`` the places of a kernel in a tile.

    Correlation is the transpose of multiplication. For a kernel g and a polynomial d of as many coefficients as there
    are places, the rows of G and A^T evaluate g and d at the points; B^T takes the values of their product to its
    coefficients, as Lagrange does, but for the denominators, which are in G.

    Examples
    --------
    >>> a, g, b = transforms(5)
    >>> kernel, tile = np.arange(5.0), np.arange(6.0) ** 2
    >>> np.round(a @ ((g @ kernel) * (b @ tile)), 9).tolist(), np.correlate(tile, kernel).tolist()
    ([100.0, 170.0], [100.0, 170.0])
    """
    others = {p: [q for q in POINTS if q != p] for p in POINTS}
    kernel = [[p**k / math.prod(p - q for q in others[p]) for k in range(taps)] for p in POINTS]
    kernel.append([Fraction(k == taps - 1) for k in range(taps)])
    places = [[p**k for k in range(TILE - taps + 1)] for p in POINTS]
    places.append([Fraction(k == TILE - taps) for k in range(TILE - taps + 1)])
    tile = [[*_with_roots(others[p]), Fraction(0)] for p in POINTS] + [_with_roots(POINTS)]
    a, g, b = (np.array([[float(entry) for entry in row] for row in rows]) for rows in (places, kernel, tile))
    return a.T, g, b


def _with_roots(roots: Iterable[Fraction]) -> list[Fraction]:
    """Return the coefficients, lowest first, of the polynomial with these roots and the leading coefficient 1."""
    polynomial = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *polynomial], [root * c for c in polynomial] + [Fraction(0)]
        polynomial = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return polynomial
