"""A whole loop compiled as one kernel, so that a step of a small model costs its arithmetic and little else.

On a CPU, XLA calls a kernel for each operation of a step, and keeps account of which of them may run. A step of a small
network has two dozen, and they take as long as its arithmetic. Loops over less than a kilobyte XLA compiles into a
single kernel instead, which it calls "small"; here larger ones are marked as such. docs/PERFORMANCE.md has figures.
"""

import functools
import math
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

xla_metadata_call: Any
try:
    from jax.experimental.scheduling_groups import xla_metadata_call
except ImportError:  # it has no promised place; without it every loop is compiled as other code is
    xla_metadata_call = None

SWITCH = "FEDDR_ONE_KERNEL"
"""The environment variable that, set to "off", switches all of this off."""

MARK = {"inlineable": "false", "xla_cpu_small_call": "true"}

_ARITHMETIC = (
    "abs add add_any and clamp convert_element_type cos div eq erf exp exp2 expm1 floor ge gt integer_pow is_finite le "
    "log log1p logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sqrt square stop_gradient "
    "sub tan tanh xor"
)
_ARRAYS = (
    "argmax argmin broadcast_in_dim concatenate copy dynamic_slice dynamic_update_slice gather iota "
    "optimization_barrier reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reshape slice split "
    "squeeze transpose"
)
_CALLS_AND_LOOPS = "closed_call custom_jvp_call custom_vjp_call jit pjit scan while"
KNOWN = frozenset(f"{_ARITHMETIC} {_ARRAYS} {_CALLS_AND_LOOPS}".split())
"""Operations that such a kernel may hold; others it cannot, or does slowly, or XLA does not say."""

NOT_HELD = (jnp.complexfloating, jax.dtypes.extended)
"""Kinds of entries that nothing is known about: complex numbers, and what is no number, such as a random key."""

MANY = 4_000
"""Operations beyond which the compiler takes seconds for them in one piece."""


def whole(function: Callable[..., Any], wanted: bool = True) -> Callable[..., tuple[Any, Any]]:
    """Return a function for ``jax.jit`` that is one kernel, if that is wanted and possible.

    It returns the results of ``function`` and, for a kernel, a number that depends on all arguments, to be ignored: XLA
    would end the process if it found that a kernel does not use one of them.
    """

    def called(*arguments: Any) -> tuple[Any, Any]:
        if not wanted or not known():
            return function(*arguments), None
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        leaves, count = [*jaxpr.consts, *jax.tree.leaves(arguments)], len(jaxpr.consts)

        def flat(*leaves: Any) -> list[Any]:
            return jax.core.eval_jaxpr(jaxpr.jaxpr, leaves[:count], *leaves[count:])

        def witnessed(*leaves: Any) -> tuple[list[Any], Any]:
            return flat(*leaves), sum(map(_some, leaves), jnp.float32(0))

        one = fits(jaxpr.jaxpr)
        results, witness = xla_metadata_call(witnessed, **MARK)(*leaves) if one else (flat(*leaves), None)
        return jax.tree.unflatten(jax.tree.structure(shape), results), witness

    return called


def fits(jaxpr: jex.Jaxpr) -> bool:
    """Return whether a computation can be one kernel, and is the better for it."""
    return _held(*jaxpr.constvars, *jaxpr.invars) and _operations(jaxpr) <= MANY


def _operations(jaxpr: jex.Jaxpr) -> float:
    """Return the number of operations, infinity where one of them cannot be in a kernel."""
    count = 0.0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        known = name in KNOWN or (name == "dot_general" and _small(equation))
        if not known or not _held(*equation.invars, *equation.outvars):
            return math.inf
        count += 1 + sum(map(_operations, jex.jaxprs_in_params(equation.params)))
    return count


def _held(*variables: Any) -> bool:
    """Return whether a kernel can hold arrays: at one without entries XLA ends the process."""
    avals = [variable.aval for variable in variables]
    return all(aval.size and not any(jnp.issubdtype(aval.dtype, kind) for kind in NOT_HELD) for aval in avals)


def _small(product: jex.JaxprEqn) -> bool:
    """Return whether XLA computes a matrix product well within a kernel; others take ten times as long there."""
    operands: list[Any] = [operand.aval for operand in product.invars]
    a, b = operands
    (over, _), together = product.params["dimension_numbers"]
    if any(together) or max(a.ndim, b.ndim) > 2 or not jnp.issubdtype(a.dtype, jnp.floating):
        return False
    k = math.prod(a.shape[axis] for axis in over)
    m, n = sorted((a.size // max(k, 1), b.size // max(k, 1)))
    return m <= 1 or (k <= 128 and m <= 32 and n <= 128)


def _some(leaf: Any) -> Any:
    """Return an entry of an array as a number."""
    return jnp.asarray(leaf).reshape(-1)[:1].astype(jnp.float32).sum()


@functools.cache
def known() -> bool:
    """Return whether it is switched on and this version of XLA compiles a marked loop, tried with a short one."""
    if os.environ.get(SWITCH) == "off" or xla_metadata_call is None or jax.default_backend() != "cpu":
        return False

    def loop(x: jax.Array, steps: Any) -> jax.Array:
        return jax.lax.fori_loop(0, steps, lambda t, x: x @ x / (1 + t), x)

    try:
        jax.jit(xla_metadata_call(loop, **MARK)).lower(np.ones((4, 4), np.float32), np.int32(3)).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
