"""Minimal filtering is convolution: to the last digits in float64, and to a few roundings in float32."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from feddr.xla import rewrite, winograd


def convolved(x: Any, weight: Any) -> Any:
    return lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def with_gradients(function: Any, x: Any, weight: Any, d: Any) -> list[Any]:
    y, pull = jax.vjp(function, x, weight)
    return [y, *pull(d)]


def errors(ours: Any, exact: Any) -> list[float]:
    """Return the largest error of the result and of both gradients, each relative to the largest entry."""
    return [
        float(np.max(np.abs(np.asarray(a, float) - b)) / np.max(np.abs(b))) for a, b in zip(ours, exact, strict=True)
    ]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + shape[-1]).normal(size=shape)


@pytest.mark.parametrize(
    ("size", "taps"), [((6, 6), (5, 5)), ((9, 8), (5, 3)), ((5, 7), (1, 6)), ((12, 4), (4, 2)), ((3, 3), (3, 3))]
)
def test_value_and_gradients_in_float64(size: tuple[int, int], taps: tuple[int, int]) -> None:
    x, weight = normal(2, *size, 3), normal(*taps, 3, 4)
    with jax.enable_x64(True):
        d = normal(*convolved(x, weight).shape)
        results = (jax.jit(with_gradients, static_argnums=0)(f, x, weight, d) for f in (winograd.filtered, convolved))
        assert max(errors(*(map(np.asarray, result) for result in results))) < 1e-13


def test_rounding_in_float32_is_that_of_a_few_more_operations() -> None:
    """The layer of the CNN: 32 to 64 channels, 5x5, whose sums have 800 and 1600 terms, and 1960 in the kernel."""
    x, weight, d = normal(10, 18, 18, 32), normal(5, 5, 32, 64), normal(10, 14, 14, 64)
    with jax.enable_x64(True):
        exact = [np.asarray(a) for a in with_gradients(convolved, x, weight, d)]
    single = [a.astype(np.float32) for a in (x, weight, d)]
    value, inputs, kernel = errors(with_gradients(winograd.filtered, *single), exact)
    assert max(value, inputs) < 2e-6
    assert kernel < 8e-6


def test_it_takes_the_place_of_columns_in_float32_where_channels_are_many() -> None:
    def computed(x: Any, weight: Any) -> str:
        return str(jax.make_jaxpr(rewrite.faster(convolved))(x, weight))

    x, weight = np.ones((8, 9, 9, 16), np.float32), np.ones((3, 3, 16, 16), np.float32)
    of_points = f"f32[{winograd.TILE**2},"
    assert of_points in computed(x, weight)
    assert of_points not in computed(x[..., :8], weight[:, :, :8])
    assert of_points not in computed(x, weight[:2])
    assert of_points not in computed(x[:7], weight)
    with jax.enable_x64(True):
        assert of_points.replace("32", "64") not in computed(x.astype(float), weight.astype(float))


def test_a_rewritten_layer_agrees_in_float32() -> None:
    x, weight = (jnp.asarray(a, jnp.float32) for a in (normal(8, 9, 9, 16), normal(3, 3, 16, 24)))
    d = jnp.asarray(normal(8, 7, 7, 24), jnp.float32)
    ours = with_gradients(rewrite.faster(convolved), x, weight, d)
    with jax.enable_x64(True):
        exact = with_gradients(convolved, *(np.asarray(a, float) for a in (x, weight, d)))
    assert max(errors(ours, map(np.asarray, exact))) < 3e-6
