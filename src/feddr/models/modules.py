"""Modules of flax and equinox as models."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision
from feddr.models.model import Model
from feddr.tree import Tree
from feddr.validation import arrays, kinds


def from_flax(module: Any, example: ArrayLike) -> Model:
    """Return a module of flax, of linen or of NNX, as a model.

    Parameters
    ----------
    module
        A module of ``flax.linen``; or for NNX a function from ``nnx.Rngs`` to a module, which draws a start for each
        seed: ``lambda rngs: nnx.Linear(60, 10, rngs=rngs)``; or an NNX module, whose parameters are the start.
    example
        Some rows of features, which fix the shapes: ``data.train.samples["x"][:1]``. Whole numbers, such as tokens,
        stay whole, unless the module takes real numbers only.

    Raises
    ------
    ValueError
        Where the module has variables that are no parameters, or does not return a number or a row of scores for
        each row.

    Notes
    -----
    Parameters are all that is trained and sent. A module with other variables, such as the ``batch_stats`` of
    BatchNorm or the random numbers of dropout, is refused: use LayerNorm or GroupNorm, and no dropout.

    Examples
    --------
    >>> from flax import linen, nnx  # doctest: +SKIP
    >>> model = from_flax(linen.Dense(10), np.zeros((1, 60)))  # doctest: +SKIP
    >>> model = from_flax(lambda rngs: nnx.Linear(60, 10, rngs=rngs), np.zeros((1, 60)))  # doctest: +SKIP
    """
    from flax import linen

    if not isinstance(module, linen.Module):
        return _from_nnx(module, example)
    features = _features(lambda rows: jax.eval_shape(module.init, jax.random.key(0), rows), example)
    rows = features(example_rows(example), ())

    def init(seed: int) -> Tree:
        variables = dict(module.init(jax.random.key(seed), rows))
        params = variables.pop("params", {})
        _only_parameters(sorted(variables))
        return jax.tree.map(np.asarray, params)

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        outputs: jax.Array = module.apply({"params": params}, features(x, params))
        return outputs

    return Model(init, apply, num_outputs(apply, init, rows))


def _from_nnx(module: Any, example: ArrayLike) -> Model:
    from flax import nnx

    def split(seed: int) -> tuple[Any, Any, Any]:
        """Return the structure, the parameters and all other variables of the module."""
        return nnx.split(module if isinstance(module, nnx.Module) else module(nnx.Rngs(seed)), nnx.Param, ...)

    graph, own, others = split(0)
    _only_parameters(sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(others)}))

    def init(seed: int) -> Tree:
        return jax.tree.map(np.asarray, nnx.to_pure_dict(split(seed)[1]))

    def outputs(params: Tree, x: jax.Array) -> jax.Array:
        state = jax.tree.unflatten(jax.tree.structure(own), jax.tree.leaves(params))
        computed: jax.Array = nnx.merge(graph, state, others)(x)
        return computed

    features = _features(lambda rows: jax.eval_shape(outputs, init(0), rows), example)

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        return outputs(params, features(x, params))

    return Model(init, apply, num_outputs(apply, init, example_rows(example)))


def _only_parameters(others: list[str]) -> None:
    if others:
        raise ValueError(
            f"feddr trains parameters alone, the module also has {', '.join(others)}; use LayerNorm, "
            "GroupNorm or another layer without variables of its own."
        )


def from_equinox(build: Callable[[Any], Any], example: ArrayLike) -> Model:
    """Return a module of equinox as a model.

    Parameters
    ----------
    build
        From a JAX key to the module, which maps one row: ``lambda key: eqx.nn.MLP(60, 10, 32, 1, key=key)``.
    example
        Some rows of features, as in ``from_flax``.

    Raises
    ------
    ValueError
        Where the module does not return a number or a row of scores for each row.

    Notes
    -----
    Arrays of real numbers are parameters; everything else in the module stays as ``build`` made it for the key 0.

    Examples
    --------
    >>> import equinox as eqx  # doctest: +SKIP
    >>> model = from_equinox(lambda key: eqx.nn.MLP(60, 10, 32, 1, key=key), np.zeros((1, 60)))  # doctest: +SKIP
    """
    try:
        import equinox
    except ModuleNotFoundError:
        raise kinds.missing("from_equinox", "equinox", "equinox") from None

    _, static = equinox.partition(build(jax.random.key(0)), equinox.is_inexact_array)

    def init(seed: int) -> Tree:
        params, _ = equinox.partition(build(jax.random.key(seed)), equinox.is_inexact_array)
        return jax.tree.map(np.asarray, params)

    def outputs(params: Tree, x: jax.Array) -> jax.Array:
        return jax.vmap(equinox.combine(params, static))(x)

    features = _features(lambda rows: jax.eval_shape(outputs, init(0), rows), example)

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        return outputs(params, features(x, params))

    return Model(init, apply, num_outputs(apply, init, example_rows(example)))


def example_rows(example: ArrayLike) -> NDArray[Any]:
    """Return an example as a run has samples: real numbers as float32, whole numbers as int32."""
    return precision.samples({"example": arrays.samples("example", example)}, np.float32)["example"]


def _features(trial: Callable[[Any], Any], example: ArrayLike) -> Callable[[Any, Any], Any]:
    """Return what makes features as a module takes them: whole numbers become real ones if it has no use for them."""

    def real(x: Any, params: Tree) -> Any:
        whole = not jnp.issubdtype(x.dtype, jnp.floating)
        return x.astype(jnp.result_type(float, *jax.tree.leaves(params))) if whole else x

    try:
        trial(example_rows(example).astype(np.int32))
    except (TypeError, ValueError):
        return real
    return lambda x, _: x


def num_outputs(apply: Callable[..., jax.Array], init: Callable[[int], Tree], rows: NDArray[Any]) -> int:
    """Return the number of scores for each row, 0 where there is one number."""
    shape = jax.eval_shape(apply, init(0), rows).shape
    if len(shape) not in (1, 2) or shape[0] != len(rows):
        raise ValueError(f"A model must return a number or a row of scores for each of {len(rows)} rows, got {shape}.")
    return shape[1] if len(shape) == 2 else 0
