"""A rewritten function and its gradients are those of the function as it was written."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import feddr
from feddr.xla import rewrite

FLOATS = {np.float64: 1e-12, np.float32: 3e-6}


def agree(function: Callable[..., Any], *operands: np.ndarray, gone: str = "", dtype: Any = np.float64) -> None:
    """Compare values and gradients in all real operands, and ask whether an operation is gone."""
    real = [i for i, a in enumerate(operands) if np.issubdtype(a.dtype, np.floating)]
    with jax.enable_x64(dtype is np.float64):
        arrays = [jnp.asarray(a, dtype if i in real else None) for i, a in enumerate(operands)]
        shape = jax.eval_shape(function, *arrays)
        d = jnp.asarray(np.random.default_rng(0).normal(size=shape.shape), shape.dtype)

        def all_of_them(function: Callable[..., Any]) -> list[Any]:
            def value(*arrays: Any) -> Any:
                return jnp.vdot(d, function(*arrays))

            return jax.jit(lambda *a: [function(*a), *jax.grad(value, argnums=real)(*a)])(*arrays)

        rewritten = rewrite.faster(function)
        for ours, theirs in zip(all_of_them(rewritten), all_of_them(function), strict=True):
            assert ours.dtype == theirs.dtype
            scale = float(np.max(np.abs(theirs), initial=1e-30))
            np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=FLOATS[dtype])
        if gone:
            assert gone in operations(function, *arrays)
            assert gone not in operations(rewritten, *arrays)


def operations(function: Callable[..., Any], *arrays: Any) -> str:
    return str(jax.make_jaxpr(function)(*arrays))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return operands and settings of a convolution with at least one place for its window."""
    space = draw(st.sampled_from([1, 2, 2]))
    groups, each, outs = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def several(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=space, max_size=space)))

    taps, rhs_dilation, lhs_dilation = several(1, 4), several(1, 2), several(1, 2)
    reach = [dilation * (tap - 1) + 1 for dilation, tap in zip(rhs_dilation, taps, strict=True)]
    padding = [(draw(st.integers(-1, 3)), draw(st.integers(-1, 3))) for _ in range(space)]
    sizes = [
        max(r - min(0, low + high), 2) + extra
        for r, (low, high), extra in zip(reach, padding, several(0, 5), strict=True)
    ]
    orders = [draw(st.permutations(range(space + 2))) for _ in range(3)]
    lhs, rhs, out = (tuple(order) for order in orders)
    x, weight = np.zeros(space + 2, int), np.zeros(space + 2, int)
    x[list(lhs)] = [draw(st.integers(1, 3)), groups * each, *sizes]
    weight[list(rhs)] = [groups * outs, each, *taps]
    return (
        normal(*x),
        normal(*weight, seed=1),
        {
            "window_strides": several(1, 3),
            "padding": padding,
            "lhs_dilation": lhs_dilation,
            "rhs_dilation": rhs_dilation,
            "feature_group_count": groups,
            "dimension_numbers": lax.ConvDimensionNumbers(lhs, rhs, out),
        },
    )


@pytest.mark.parametrize("examples", [8, pytest.param(150, marks=pytest.mark.slow)])
def test_random_convolutions(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(given(convolutions())(a_convolution))()


def a_convolution(case: tuple[np.ndarray, np.ndarray, dict[str, Any]]) -> None:
    x, weight, options = case
    agree(lambda x, weight: lax.conv_general_dilated(x, weight, **options), x, weight, gone="conv_general_dilated")


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_in_float32(groups: int) -> None:
    def network(x: Any, weight: Any) -> Any:
        return jnp.tanh(lax.conv_general_dilated(x, weight, (1, 1), "SAME", feature_group_count=groups))

    agree(network, normal(5, 4, 9, 9), normal(8, 4 // groups, 3, 3), gone="conv_general_dilated", dtype=np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.conv(x[..., None], jnp.ones((2, 3, 2, 2, 1), x.dtype), (1, 1, 1), "SAME"),  # three dimensions
        lambda x: lax.conv(x.astype(jnp.complex64), jnp.ones((2, 3, 2, 2), jnp.complex64), (1, 1), "SAME").real,
        lambda x: lax.conv(x, jnp.ones((2, 3, 7, 10), x.dtype), (1, 1), "SAME"),  # more taps than MOST_TAPS
        lambda x: lax.conv_general_dilated(x, jnp.ones((2, 3, 2, 2), x.dtype), (1, 1), "SAME", batch_group_count=2),
    ],
)
def test_other_convolutions_stay_as_they_are(function: Callable[[Any], Any]) -> None:
    x = normal(2, 3, 6, 6).astype(np.float32)
    assert "conv_general_dilated" in operations(rewrite.faster(function), x)
    np.testing.assert_array_equal(jax.jit(rewrite.faster(function))(x), jax.jit(function)(x))


@given(st.data(), st.booleans())
@settings(max_examples=8, deadline=None)
def test_pooling(data: st.DataObject, largest: bool) -> None:
    """Entries are whole numbers, so that windows have several largest ones, of which the first has the gradient."""
    axes = data.draw(st.integers(1, 4))
    window = data.draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes))
    padding = [(data.draw(st.integers(0, wide - 1)), data.draw(st.integers(0, wide - 1))) for wide in window]
    sizes = [data.draw(st.integers(wide, 7)) for wide in window]
    x = np.random.default_rng(0).integers(-2, 2, sizes).astype(float)

    def pool(x: Any) -> Any:
        start, choose = (-jnp.inf, lax.max) if largest else (0.0, lax.add)
        return lax.reduce_window(x, np.asarray(start, x.dtype), choose, window, window, padding)

    agree(pool, x, gone="reduce_window")


def test_pooling_with_overlap_stays_as_it_is() -> None:
    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME")

    assert "reduce_window" in operations(rewrite.faster(pool), jnp.ones((4, 9)))


def test_a_nan_in_a_window_stays_one() -> None:
    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), "VALID")

    x = jnp.array([np.nan, 1, 1, np.nan, 1, 2])
    np.testing.assert_array_equal(rewrite.faster(pool)(x), [np.nan, np.nan, 2])


PRODUCTS = [
    ("ri,io->ro", 1),
    ("ri,oi->ro", 7),
    ("oi,ri->or", 3),
    ("tri,io->tro", 20),
    ("oi,tri->otr", 7),
    ("ir,io->ro", 5),
]


@pytest.mark.parametrize(("product", "rows"), PRODUCTS)
def test_products_with_a_weight(product: str, rows: int) -> None:
    sizes = {"r": rows, "i": 6, "o": 9, "t": 2}
    x, weight = ([sizes[axis] for axis in operand] for operand in product.split("->")[0].split(","))
    agree(function := lambda x, weight: jnp.tanh(jnp.einsum(product, x, weight)), normal(*x), normal(*weight))
    assert "custom_vjp_call" in operations(rewrite.faster(function), normal(*x), normal(*weight))


def test_the_gradient_in_a_weight_with_a_row_for_each_output_is_not_transposed() -> None:
    """Transposed at the end, it would be fused with the update of the weight in the wrong order, which is slow."""

    def value(weight: Any, x: Any) -> Any:
        return rewrite.faster(lambda x, weight: jnp.einsum("ri,oi->ro", x, weight))(x, weight).sum()

    jaxpr = jax.make_jaxpr(jax.grad(value))(np.ones((9, 6)), np.ones((5, 6))).jaxpr
    (last,) = (equation for equation in jaxpr.eqns if jaxpr.outvars[0] in equation.outvars)
    assert last.primitive.name != "transpose"


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 3)])
def test_lookups(mode: Any, shape: tuple[int, ...]) -> None:
    outside = 0 if mode == "promise_in_bounds" else 3
    rows = np.random.default_rng(1).integers(0, 7 + outside, shape)

    def look(table: Any, rows: Any) -> Any:
        return jnp.nan_to_num(table.at[rows].get(mode=mode)) ** 2

    agree(look, normal(7, 3), rows)
    gradient = jax.grad(lambda table: rewrite.faster(look)(table, rows).sum())
    assert "scatter" not in operations(gradient, jnp.ones((7, 3)))


def step(x: Any, weight: Any) -> Any:
    return jnp.tanh(lax.conv(x, weight, (1, 1), "SAME"))


@jax.custom_vjp
def own_rule(x: Any, weight: Any) -> Any:
    return step(x, weight)


own_rule.defvjp(lambda x, weight: (step(x, weight), (x, weight)), lambda saved, d: (3 * saved[0] + d, saved[1]))


@jax.custom_jvp
def own_tangent(x: Any, weight: Any) -> Any:
    return step(x, weight)


own_tangent.defjvp(lambda primals, tangents: (step(*primals), 2 * tangents[0] * primals[1].sum()))

NESTED: dict[str, Callable[[Any, Any], Any]] = {
    "jit": jax.jit(step),
    "remat": jax.checkpoint(step),
    "scan": lambda x, w: lax.scan(lambda x, k: (step(x, w) * k, x.sum()), x, jnp.arange(1.0, 4.0))[0],
    "reverse scan": lambda x, w: lax.scan(lambda x, k: (step(x, w) * k, x), x, jnp.arange(1.0, 4.0), reverse=True)[1],
    "cond": lambda x, w: lax.cond(x.sum() > 0, step, lambda x, w: 2 * step(x, w), x, w),
    "switch": lambda x, w: lax.switch(2, [step, lambda x, w: x * w.sum(), lambda x, w: step(x, 2 * w)], x, w),
    "vmap": lambda x, w: jax.vmap(lambda row: step(row[None], w)[0])(x),
    "kernels for each": lambda x, w: jax.vmap(lambda row, s: step(row[None], s * w)[0])(x, jnp.arange(1.0, 3.0)),
    "scan in jit in remat": jax.checkpoint(
        jax.jit(lambda x, w: lax.scan(lambda x, _: (step(x, w), None), x, None, length=2)[0])
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_computations(name: str) -> None:
    agree(NESTED[name], normal(2, 3, 5, 5), normal(3, 3, 3, 3), gone="conv_general_dilated")


def test_a_loop_without_a_bound() -> None:
    def loop(x: Any, weight: Any) -> Any:
        return lax.while_loop(lambda c: c[1] < 3, lambda c: (step(c[0], weight), c[1] + 1), (x, 0))[0]

    x, weight = normal(2, 3, 5, 5).astype(np.float32), normal(3, 3, 3, 3).astype(np.float32)
    assert "conv_general_dilated" not in operations(rewrite.faster(loop), x, weight)
    np.testing.assert_allclose(jax.jit(rewrite.faster(loop))(x, weight), jax.jit(loop)(x, weight), atol=1e-5)


@pytest.mark.parametrize("function", [own_rule, own_tangent])
def test_a_derivative_of_ones_own_is_kept(function: Callable[..., Any]) -> None:
    agree(function, normal(2, 3, 5, 5), normal(3, 3, 3, 3))


def test_clients_side_by_side() -> None:
    def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.grad(
            lambda weight, x: lax.reduce_window(
                function(x, weight), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
            ).sum()
        )

    with jax.enable_x64(True):
        x, weight = jnp.asarray(normal(4, 2, 3, 6, 6)), jnp.asarray(normal(4, 5, 3, 3, 3))
        together = jax.jit(jax.vmap(gradient(rewrite.faster(step))))(weight, x)
        for i in range(4):
            np.testing.assert_allclose(together[i], gradient(step)(weight[i], x[i]), rtol=1e-11, atol=1e-12)


def test_it_can_be_switched_off_and_leaves_accelerators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(rewrite.SWITCH, "off")
        assert rewrite.faster(step) is step
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "gpu")
        assert rewrite.faster(step) is step
    assert rewrite.faster(step) is not step


def test_a_pass_takes_fewer_rows_at_a_time_where_each_needs_much_memory() -> None:
    def loss(weight: Any, batch: Any) -> Any:
        return jnp.tanh(batch["x"] * weight).sum(axis=1)

    def rows(width: int) -> int:
        return rewrite.rows_at_a_time(loss, np.ones(width), {"x": np.ones((3, width), np.float32)}, 1024)

    assert rows(100) == 1024
    assert rows(10**7) == rewrite.FEWEST
    assert rewrite.FEWEST < rows(10**5) < 1024


def convolutional(classes: int) -> feddr.models.Model:
    def init(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return {"kernel": rng.normal(size=(3, 3, 1, 4)), "weight": rng.normal(size=(36, classes))}

    def apply(params: Any, x: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        h = lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=numbers)
        h = lax.reduce_window(jax.nn.relu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return h.reshape(len(x), -1) @ params["weight"]

    return feddr.models.Model(init, apply, classes)


@pytest.mark.parametrize("batch_size", [pytest.param(4, marks=pytest.mark.slow), None])
def test_the_simulator_rewrites_and_agrees_with_the_reference_which_does_not(batch_size: int | None) -> None:
    rng = np.random.default_rng(0)
    clients = [{"x": rng.normal(size=(size, 6, 6, 1)), "y": rng.integers(0, 3, size)} for size in (9, 14)]
    problem = feddr.Problem.classification(convolutional(3), feddr.FederatedData.from_clients(clients, clients))
    options: dict[str, Any] = {
        "local": feddr.local.SGD(lr=0.1, epochs=2, batch_size=batch_size),
        "rounds": 2,
        "evaluate_every": 1,
        "precision": "float64",
    }
    ours, plain = (run(problem, feddr.FedDR(eta=2.0), **options) for run in (feddr.simulate, feddr.reference))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), ours.params, plain.params)
    for a, b in zip(ours.history.rows, plain.history.rows, strict=True):
        np.testing.assert_allclose(a.test_accuracy, b.test_accuracy, rtol=1e-6)
        np.testing.assert_allclose(a.gradient_mapping, b.gradient_mapping, rtol=1e-10)
