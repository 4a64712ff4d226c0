"""Small models: initial parameters and a function of them, nothing else.

Any pair of such functions is a model; these are the ones that the experiments use.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision
from feddr.storage import limits
from feddr.tree import Tree
from feddr.validation import arrays, kinds
from feddr.xla.dense import dense

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
}


@dataclass(frozen=True)
class Model:
    """A parametrised function.

    Parameters
    ----------
    init
        From a seed to initial parameters, a tree of arrays.
    apply
        From (parameters, rows of features) to one output, or one row of outputs, for each row: from shape (rows, ...)
        to (rows,) where ``num_outputs`` is 0, and to (rows, num_outputs) otherwise.
    num_outputs
        Width of the output: 0 for a single number, the number of classes otherwise.
    is_linear
        Whether it is ``x . weight + bias``, so that the curvature of a loss is known.
    spec
        Name and arguments of a model of this module, in plain values, with which a saved model is built again; None for
        any other.

    Examples
    --------
    >>> model = Model(lambda seed: {"weight": np.ones(2)}, lambda params, x: x @ params["weight"], num_outputs=0)
    >>> model.apply(model.init(0), np.ones((3, 2))).tolist()
    [2.0, 2.0, 2.0]
    """

    init: Callable[[int], Tree]
    apply: Callable[[Tree, jax.Array], jax.Array]
    num_outputs: int
    is_linear: bool = False
    spec: Mapping[str, Any] | None = None


def linear(num_features: int) -> Model:
    """Return ``x . weight + bias``, one number for each sample, started at zero.

    Raises
    ------
    ValueError
        Where num_features is not a whole number of 1 or more.

    Examples
    --------
    >>> model = linear(3)
    >>> {name: leaf.shape for name, leaf in model.init(0).items()}
    {'weight': (3,), 'bias': ()}
    >>> model.apply(model.init(0), np.ones((5, 3))).shape
    (5,)
    """
    _check_sizes([num_features])

    def init(seed: int) -> Tree:
        del seed
        return {"weight": np.zeros(num_features), "bias": np.zeros(())}

    spec = {"name": "linear", "num_features": num_features}
    return Model(init, lambda params, x: x @ params["weight"] + params["bias"], 0, is_linear=True, spec=spec)


def softmax(num_features: int, num_classes: int) -> Model:
    """Return ``x W + b``, one score for each class, started at zero: multinomial logistic regression.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more.

    Examples
    --------
    >>> model = softmax(3, 4)
    >>> model.apply(model.init(0), np.ones((5, 3))).shape
    (5, 4)
    """
    _check_sizes([num_features, num_classes])

    def init(seed: int) -> Tree:
        del seed
        return {"weight": np.zeros((num_features, num_classes)), "bias": np.zeros(num_classes)}

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        return dense(x, params["weight"]) + params["bias"]

    spec = {"name": "softmax", "num_features": num_features, "num_classes": num_classes}
    return Model(init, apply, num_classes, is_linear=True, spec=spec)


def mlp(sizes: Sequence[int], activation: str = "relu") -> Model:
    """Return a fully connected network.

    Parameters
    ----------
    sizes
        Width of the input, the hidden layers and the output: ``[60, 32, 10]``.
    activation
        ``"relu"``, ``"tanh"`` or ``"softplus"`` between the layers. The theory asks for a smooth loss; ReLU is not.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more, or the activation is unknown.

    Notes
    -----
    Weights start uniform in ``sqrt(6 / (inputs + outputs))`` (Glorot and Bengio 2010), biases at zero.

    Examples
    --------
    >>> model = mlp([3, 8, 2])
    >>> sorted(model.init(0))
    ['layer0', 'layer1']
    >>> model.num_outputs
    2
    """
    _check_sizes(sizes)
    if len(sizes) < 2:
        raise ValueError(f"An mlp needs at least an input and an output width, got sizes={list(sizes)}.")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}.")
    sigma = ACTIVATIONS[activation]
    layers = list(itertools.pairwise(sizes))

    def init(seed: int) -> Tree:
        rng = np.random.default_rng(seed)
        return {
            f"layer{i}": {
                "weight": rng.uniform(-1.0, 1.0, (inputs, outputs)) * np.sqrt(6.0 / (inputs + outputs)),
                "bias": np.zeros(outputs),
            }
            for i, (inputs, outputs) in enumerate(layers)
        }

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        for i in range(len(layers)):
            x = dense(x, params[f"layer{i}"]["weight"]) + params[f"layer{i}"]["bias"]
            if i < len(layers) - 1:
                x = sigma(x)
        return x

    spec = {"name": "mlp", "sizes": list(sizes), "activation": activation}
    return Model(init, apply, num_outputs=sizes[-1], spec=spec)


def from_flax(module: Any, example: ArrayLike) -> Model:
    """Return a module of flax.linen as a model.

    Parameters
    ----------
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
    BatchNorm, is refused: use LayerNorm or GroupNorm.

    Examples
    --------
    >>> from flax import linen  # doctest: +SKIP
    >>> model = from_flax(linen.Dense(10), np.zeros((1, 60)))  # doctest: +SKIP
    """
    features = _features(lambda rows: jax.eval_shape(module.init, jax.random.key(0), rows), example)
    rows = features(_rows(example), ())

    def init(seed: int) -> Tree:
        variables = dict(module.init(jax.random.key(seed), rows))
        params = variables.pop("params", {})
        if variables:
            raise ValueError(
                f"feddr trains parameters alone, the module also has {', '.join(variables)}; use LayerNorm, "
                "GroupNorm or another layer without variables of its own."
            )
        return jax.tree.map(np.asarray, params)

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        outputs: jax.Array = module.apply({"params": params}, features(x, params))
        return outputs

    return Model(init, apply, _num_outputs(apply, init, rows))


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

    return Model(init, apply, _num_outputs(apply, init, _rows(example)))


def _rows(example: ArrayLike) -> NDArray[Any]:
    return precision.samples({"example": arrays.samples("example", example)}, np.float32)["example"]


def _features(trial: Callable[[Any], Any], example: ArrayLike) -> Callable[[Any, Any], Any]:
    """Return what makes features as a module takes them: whole numbers become real ones if it has no use for them."""

    def real(x: Any, params: Tree) -> Any:
        whole = not jnp.issubdtype(x.dtype, jnp.floating)
        return x.astype(jnp.result_type(float, *jax.tree.leaves(params))) if whole else x

    try:
        trial(_rows(example).astype(np.int32))
    except (TypeError, ValueError):
        return real
    return lambda x, _: x


def _num_outputs(apply: Callable[..., jax.Array], init: Callable[[int], Tree], rows: NDArray[Any]) -> int:
    """Return the number of scores for each row, 0 where there is one number."""
    shape = jax.eval_shape(apply, init(0), rows).shape
    if len(shape) not in (1, 2) or shape[0] != len(rows):
        raise ValueError(f"A model must return a number or a row of scores for each of {len(rows)} rows, got {shape}.")
    return shape[1] if len(shape) == 2 else 0


def _check_sizes(sizes: Sequence[int]) -> None:
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"The widths of a model must be positive whole numbers, got {list(sizes)}.")
    parameters = sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise((*sizes, 1)))
    limits.check_memory(f"A model with the widths {list(sizes)}", 8 * parameters * limits.COPIES, "take smaller widths")
