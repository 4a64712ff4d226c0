import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from feddr.xla.dense import FEW_ROWS, FEW_WEIGHTS, SOME_ROWS, dense


def plain(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x @ weight


LARGE = FEW_WEIGHTS // 64 + 1
SHAPES = [
    (1, 3, 2),
    (10, 60, 32),
    (FEW_ROWS, 64, LARGE),
    (FEW_ROWS + 1, 64, LARGE),
    (SOME_ROWS, 64, 33),
    (SOME_ROWS + 1, 64, 33),
]


def by_output(x: jax.Array, weight: jax.Array) -> jax.Array:
    return dense(x, weight, True)


def plain_by_output(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x @ weight.T


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
@pytest.mark.parametrize(("layer", "product"), [(dense, plain), (by_output, plain_by_output)])
def test_value_gradients_and_hessian_are_those_of_the_product(
    rows: int, inputs: int, outputs: int, layer: Callable[..., jax.Array], product: Callable[..., jax.Array]
) -> None:
    rng = np.random.default_rng(rows)
    shape = (inputs, outputs) if product is plain else (outputs, inputs)
    with jax.enable_x64(True):
        x, weight = jnp.asarray(rng.normal(size=(rows, inputs))), jnp.asarray(rng.normal(size=shape))
        v = jnp.asarray(rng.normal(size=shape))

        def derivatives(layer: Callable[[jax.Array, jax.Array], jax.Array]) -> list[jax.Array]:
            def value(x: jax.Array, weight: jax.Array) -> jax.Array:
                return jnp.sum(jnp.tanh(layer(x, weight)))

            def all_of_them(x: jax.Array, weight: jax.Array) -> list[jax.Array]:
                gradient = jax.grad(value, argnums=(0, 1))
                curvature = jax.jvp(lambda w: gradient(x, w)[1], (weight,), (v,))[1]
                return [value(x, weight), *gradient(x, weight), curvature]

            return jax.jit(all_of_them)(x, weight)

        for ours, theirs in zip(derivatives(layer), derivatives(product), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def test_clients_side_by_side() -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, weight = jnp.asarray(rng.normal(size=(3, 5, 50))), jnp.asarray(rng.normal(size=(3, 50, 60)))

        def gradient(x: jax.Array, weight: jax.Array) -> jax.Array:
            return jax.grad(lambda w: jnp.sum(dense(x, w) ** 2))(weight)

        together = jax.jit(jax.vmap(gradient))(x, weight)
        for i in range(3):
            np.testing.assert_allclose(together[i], gradient(x[i], weight[i]), rtol=1e-12)


def test_the_gradient_of_an_activation_is_in_memory_once_and_not_for_each_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The compiled code of the new weight, the one computation of that shape, compares nothing with zero."""
    x, weight = jnp.ones((10, 61)), jnp.ones((61, 37))

    def compares() -> bool:
        @jax.jit
        def step(x: jax.Array, weight: jax.Array) -> jax.Array:
            return weight - 0.1 * jax.grad(lambda w: jnp.sum(jax.nn.relu(dense(x, w)) ** 2))(weight)

        text = step.lower(x, weight).compile().as_text() or ""
        bodies = [body for body in text.split("\n\n") if re.search(r"^%.* -> f32\[61,37\]", body)]
        assert bodies
        return any("compare(" in body for body in bodies)

    assert not compares()
    monkeypatch.setattr("feddr.xla.dense.in_memory", lambda d: d)
    assert compares()


def test_the_product_with_a_large_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written in another way, which XLA computes without its library."""
    rng = np.random.default_rng(0)
    x, weight = jnp.asarray(rng.normal(size=(10, 20)), jnp.float32), jnp.asarray(rng.normal(size=(20, 5)), jnp.float32)
    monkeypatch.setattr("feddr.xla.dense.LARGE_WEIGHT", 99)
    np.testing.assert_allclose(dense(x, weight), x @ weight, rtol=1e-5, atol=1e-5)
    assert "([0], [0])" in str(jax.make_jaxpr(dense)(x, weight))


@pytest.mark.parametrize("size", [(3, 2), (1200, 1000)], ids=["small", "large"])
def test_it_can_be_written_for_any_number_of_rows(size: tuple[int, int]) -> None:
    """As models are stored and exported: the number of rows is a symbol then."""
    (rows,) = export.symbolic_shape("rows")
    weight = np.ones(size, np.float32)
    shape = jax.ShapeDtypeStruct((rows, size[0]), np.dtype(np.float32))  # type: ignore[no-untyped-call]
    written = export.export(jax.jit(lambda x: dense(x, weight)))(shape)
    found = written.call(np.ones((5, size[0]), np.float32))  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(found, np.full((5, size[1]), size[0]))
