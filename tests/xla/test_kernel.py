import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import feddr
from feddr import tree
from feddr.engines.shared.compiled_clients import CompiledClients, SubproblemTask
from feddr.engines.shared.evaluation import Evaluator
from feddr.local import Subproblem
from feddr.xla import kernel
from feddr.xla.dense import dense
from tests.conftest import make_classes

X = np.random.default_rng(0).uniform(0.1, 0.9, (6, 4)).astype(np.float32)

KEY = jax.random.key(0)

HELD: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: abs(-x) + x * x - x / 2 + jnp.sign(x) + jnp.floor(3 * x) + jnp.round(x) + lax.rem(x, x / 3),
    "powers": lambda x: x**3 + x**0.3 + jnp.square(x) + jnp.sqrt(x) + lax.rsqrt(x) + jnp.exp(x) + jnp.exp2(x),
    "logarithms": lambda x: jnp.log(x) + jnp.log1p(x) + jnp.expm1(x) + jax.nn.sigmoid(x) + jnp.tanh(x) + lax.erf(x),
    "angles": lambda x: jnp.sin(x) + jnp.cos(x) + jnp.tan(x),
    "clamp": lambda x: lax.clamp(0.2, x, 0.7) + jnp.maximum(x, 0.5) + jnp.minimum(x, 0.5) + lax.stop_gradient(x),
    "comparisons": lambda x: jnp.where((x > 0.5) & (x <= 0.8) | ~(x < 0.2) ^ (x >= 0.1), x, 0) + (x != x.T[0, 0]),
    "equality": lambda x: (x == x[0]).astype(jnp.float32) + jnp.isfinite(x) + lax.exp2(x),
    "shapes": lambda x: jnp.concatenate([x[:2].reshape(4, 2).T.reshape(2, 4), jnp.split(x, 3)[1], x[2:4].copy()]),
    "gather": lambda x: x[jnp.array([3, 1, 2, 2])] + jnp.arange(4) + lax.dynamic_slice(x, (1, 0), (4, 4)).squeeze(),
    "update": lambda x: lax.dynamic_update_slice(x, x[:2] + 1, (2, 0)),
    "reductions": lambda x: x.sum(0) + x.max(0) * x.min(0) + jnp.prod(x, 0) + jnp.any(x > 0.8, 0) + jnp.all(x > 0.1, 0),
    "places": lambda x: jnp.argmax(x, 0) + 10 * jnp.argmin(x, 0),
    "products": lambda x: x @ x.T @ x + (x @ x[0])[:, None],
    "barrier": lambda x: lax.optimization_barrier(2 * x),  # type: ignore[no-untyped-call]
    "scan": lambda x: lax.scan(lambda total, row: (total + row, total * row), x[0], x)[1],
    "gradient": lambda x: jax.grad(lambda x: jax.nn.relu(jax.nn.logsumexp(x, axis=1)).sum())(x),
    "sums of gradients": lambda x: jax.grad(lambda x: (jnp.sin(x) * jnp.exp(x)).sum())(x),
    "inner jit": lambda x: jax.jit(lambda x: x + 1)(x),
    "inner rules": lambda x: jax.nn.relu(x) + dense(x, x[:4]),
}

REFUSED: dict[str, Callable[[Any], Any]] = {
    "scatter": lambda x: x.at[jnp.array([0, 1])].add(1.0),
    "sort": lambda x: jnp.sort(x, axis=0),
    "condition": lambda x: lax.cond(x[0, 0] > 0, lambda x: 2 * x, jnp.ones_like, x),
    "convolution": lambda x: lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME"),
    "library": lambda x: jnp.linalg.svd(x)[1],
    "callback": lambda x: jax.pure_callback(lambda x: 2 * x, jax.eval_shape(lambda: x), x),
    "long sums": lambda x: jnp.ones((2, 129)) @ jnp.ones((129, 2)) + x.sum(),
    "many rows and columns": lambda x: jnp.ones((33, 2)) @ jnp.ones((2, 33)) + x.sum(),
    "many rows": lambda x: jnp.ones((129, 2)) @ jnp.ones((2, 2)) + x.sum(),
    "stacks of matrices": lambda x: jnp.ones((3, 2, 2)) @ jnp.ones((3, 2, 2)) + x.sum(),
    "whole numbers": lambda x: jnp.ones((2, 2), int) @ jnp.ones((2, 2), int) + x.sum(),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, x: jnp.sort(x), x),
    "nothing in it": lambda x: jnp.concatenate([x, jnp.sin(x[:0])]),
    "nothing to add up": lambda x: x + x[:, :0] @ x[:0],
    "nothing gathered": lambda x: x.sum() + x[jnp.arange(0)].sum(),
    "random keys": lambda x: x + jax.random.uniform(KEY),
    "random keys left alone": lambda x: x + (KEY[None][0] == KEY),
}


def looped(body: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """What is computed in a step depends on the last one, so that nothing is taken out of the loop."""

    def loop(x: Any, steps: Any) -> Any:
        start = (x, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(body, x)))
        return lax.fori_loop(0, steps, lambda _, carry: (0.9 * carry[0], body(carry[0])), start)[1]

    return loop


def marked(lowered: Any) -> bool:
    return "xla_cpu_small_call" in lowered.as_text()


def primitives(jaxpr: jex.Jaxpr) -> set[str]:
    inner = [primitives(part) for one in jaxpr.eqns for part in jex.jaxprs_in_params(one.params)]
    return set().union({one.primitive.name for one in jaxpr.eqns}, *inner)


@pytest.mark.parametrize("name", HELD)
def test_what_a_kernel_holds_it_computes_as_other_code_does(name: str) -> None:
    function = looped(HELD[name])
    lowered = jax.jit(kernel.whole(function)).lower(X, 3)
    assert marked(lowered)
    result, _ = lowered.compile()(X, 3)
    np.testing.assert_allclose(result, jax.jit(function)(X, 3), rtol=2e-6, atol=1e-6)


def test_every_operation_that_a_kernel_may_hold_has_been_tried() -> None:
    tried = set().union(*(primitives(jax.make_jaxpr(looped(body))(X, 3).jaxpr) for body in HELD.values()))
    assert kernel.KNOWN - tried <= {"closed_call", "pjit"}  # other versions of JAX call theirs so


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_kernel_cannot_hold_is_compiled_as_before(name: str) -> None:
    function = looped(REFUSED[name])
    assert not kernel.fits(jax.make_jaxpr(function)(X, 3).jaxpr)
    lowered = jax.jit(kernel.whole(function)).lower(X, 3)
    assert not marked(lowered)
    for a, b in zip(tree.leaves(lowered.compile()(X, 3)[0]), tree.leaves(function(X, 3)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_kernel_holds_so_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        return sum(x + i for i in range(50))  # and so many sums

    assert marked(jax.jit(kernel.whole(function)).lower(X))
    monkeypatch.setattr(kernel, "MANY", 99)
    assert not marked(jax.jit(kernel.whole(function)).lower(X))


@pytest.mark.parametrize(("m", "k", "n"), [(32, 128, 128), (128, 128, 32), (1, 999, 999), (999, 999, 1)])
def test_products_that_are_just_small_enough(m: int, k: int, n: int) -> None:
    assert kernel.fits(jax.make_jaxpr(jnp.matmul)(np.ones((m, k)), np.ones((k, n))).jaxpr)


@pytest.mark.parametrize("empty", [np.zeros(0, np.float32), KEY], ids=["array", "key"])
def test_an_argument_that_a_kernel_cannot_hold_is_none_of_its_own(empty: Any) -> None:
    lowered = jax.jit(kernel.whole(lambda x, empty: (2 * x, empty))).lower(X, empty)
    assert not marked(lowered)
    np.testing.assert_array_equal(lowered.compile()(X, empty)[0][0], 2 * X)


@pytest.mark.parametrize("solver", [feddr.local.SGD(lr=0.1, epochs=2, batch_size=8, momentum=0.5)])
@pytest.mark.parametrize("layers", [[60, 32, 10], [12, 5]])
def test_a_client_with_a_small_model_is_one_kernel(
    layers: list[int], solver: feddr.local.SGD, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_classes((30, 50), layers[0], layers[-1], seed=0)
    problem = feddr.Problem.classification(feddr.models.mlp(layers), data)
    samples, x = Evaluator(problem, np.float64).samples, tree.cast(problem.init, np.float64)
    solutions = []
    for known in (True, False):
        if not known:
            monkeypatch.setattr(kernel, "known", lambda: False)
        compiled = CompiledClients(problem, samples, solver, np.float64, needs_gradient=True)
        task = SubproblemTask(1, Subproblem(x, x, 1.0, x), compiled.draw(1, np.random.default_rng(0)))
        with jax.enable_x64(True):
            lowered = compiled._one.lower(*compiled.arguments(task))
        assert marked(lowered) == known
        if known:
            code = lowered.compile().as_text() or ""
            assert " while(" not in code[code.index("ENTRY") :]
        solutions.append(compiled.solve([task])[0])
    for a, b in zip(*map(tree.leaves, solutions), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


IGNORED = """
import jax.numpy as jnp, numpy as np, feddr
from feddr.xla import kernel
assert kernel.known()
rng = np.random.default_rng(0)
offset, unused = np.full(3, 0.5), np.full(7, 0.5)

def loss(params, batch):  # XLA finds out that some of what it is given plays no role
    nothing = jnp.where(jnp.zeros(3) > 1, batch["weight"][0] * unused.sum(), 0)
    return 0.5 * (batch["x"] @ (params["slope"] + offset + nothing) - batch["y"]) ** 2

clients = [
    {"x": rng.normal(size=(n, 3)), "y": rng.normal(size=n), "weight": np.ones(n), "note": np.ones((n, 2)),
     "nothing": np.ones((n, 0))}
    for n in (5, 9)
]
data = feddr.FederatedData.from_clients(clients)
init = {"slope": np.zeros(3), "spare": np.zeros((2, 2))}
problem = feddr.Problem(loss, data, init)
with_nothing = feddr.Problem(loss, data, {**init, "nothing": np.zeros((0, 2))})
for problem, algorithm in (
    (problem, feddr.FedAvg()), (problem, feddr.FedDR(eta=1.0)), (problem, feddr.Scaffold()),
    (with_nothing, feddr.FedDR(eta=1.0)),
):
    local = feddr.local.SGD(lr=0.1, epochs=3, batch_size=2)
    both = [run(problem, algorithm, local=local, rounds=4) for run in (feddr.simulate, feddr.reference)]
    np.testing.assert_allclose(*(result.params["slope"] for result in both), rtol=1e-4)
print("alive")
"""


def test_arguments_that_play_no_role_do_no_harm() -> None:
    """XLA ends the process where a kernel does not use what it is given, so this needs one of its own."""
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "alive", done.stderr[-2000:]


@pytest.mark.parametrize("why", ["switched off", "no way to ask for it"])
def test_where_it_cannot_be_had_code_is_compiled_as_before(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "switched off":
        monkeypatch.setenv(kernel.SWITCH, "off")
    else:
        monkeypatch.setattr(kernel, "xla_metadata_call", None)
    kernel.known.cache_clear()
    try:
        assert not kernel.known()
        result, number = jax.jit(kernel.whole(looped(HELD["products"])))(X, 3)
        assert number is None
        np.testing.assert_allclose(result, looped(HELD["products"])(X, 3), rtol=1e-5)
    finally:
        kernel.known.cache_clear()
