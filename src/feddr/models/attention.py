"""A transformer on sequences of tokens."""

import jax
import jax.numpy as jnp
import numpy as np

from feddr.models import initial, tokens
from feddr.models.model import Model, check_parameters, check_sizes
from feddr.tree import Tree
from feddr.xla.dense import dense

EPSILON = 1e-5
"""What layer normalisation adds to a variance."""

DEVIATION = 0.02
"""The standard deviation of embeddings at the start."""


def transformer(
    num_tokens: int = 80,
    length: int = 80,
    num_classes: int | None = None,
    width: int = 64,
    heads: int = 4,
    layers: int = 2,
    causal: bool = True,
) -> Model:
    """Return a small transformer that predicts the token after a sequence, or the class of a sequence.

    Parameters
    ----------
    num_tokens, length
        Tokens, numbered from 0, and how many make a sequence: features are whole numbers of shape (rows, length).
    num_classes
        Scores for each sequence; None for one for each token, to predict the next one.
    width, heads, layers
        Numbers that stand for a token, heads of attention, which must divide them, and layers of attention and a
        hidden layer of 4 * width.
    causal
        True: a place sees itself and the places before it, and the scores are those of the last place. False: a place
        sees all places, and the scores are made of their mean.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more, or heads does not divide width. The model itself refuses what
        is not sequences of tokens of that length.

    Notes
    -----
    The layers of Vaswani et al. 2017, with layer normalisation before attention and before the hidden layer (Xiong et
    al. 2020) and once at the end, GELU, and learned positions, as in GPT-2. Embeddings start normal with standard
    deviation 0.02 (Radford et al. 2019), weights as Glorot and Bengio 2010 draw them, scales at one, biases at zero.

    Examples
    --------
    >>> model = transformer(num_tokens=5, length=3, width=8, heads=2, layers=1)
    >>> sorted(model.init(0))
    ['embedding', 'layer0', 'norm', 'positions', 'scores']
    >>> model.apply(model.init(0), np.array([[0, 3, 1], [2, 2, 4]])).shape
    (2, 5)
    """
    classes = num_tokens if num_classes is None else num_classes
    check_sizes("The sizes of a transformer", [num_tokens, length, classes, width, heads, layers])
    if width % heads:
        raise ValueError(f"heads must divide width, got heads={heads} and width={width}.")
    check_parameters(
        f"A transformer with {layers} layers of width {width}",
        (num_tokens + length + classes) * width + 12 * layers * width**2,
    )

    def init(seed: int) -> Tree:
        rng = np.random.default_rng(seed)

        def weights(inputs: int, outputs: int) -> Tree:
            return initial.layer(initial.glorot(rng, (inputs, outputs)))

        def norm() -> Tree:
            return {"scale": np.ones(width), "bias": np.zeros(width)}

        params: dict[str, Tree] = {
            "embedding": tokens.embedding(rng, num_tokens, width, DEVIATION),
            "positions": tokens.embedding(rng, length, width, DEVIATION),
        }
        for k in range(layers):
            parts = {name: weights(width, width) for name in ("query", "key", "value", "out")}
            hidden = {"hidden": weights(width, 4 * width), "down": weights(4 * width, width)}
            params[f"layer{k}"] = {"norm0": norm(), **parts, "norm1": norm(), **hidden}
        return params | {"norm": norm(), "scores": weights(width, classes)}

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        tokens.check_sequences(x, length)
        x = jnp.asarray(params["embedding"])[x] + params["positions"]
        for k in range(layers):
            own = params[f"layer{k}"]
            x = x + _attention(own, _layer_norm(own["norm0"], x), heads, causal)
            x = x + _affine(own["down"], jax.nn.gelu(_affine(own["hidden"], _layer_norm(own["norm1"], x))))
        x = _layer_norm(params["norm"], x)
        return _affine(params["scores"], x[:, -1] if causal else x.mean(axis=1))

    spec = {"name": "transformer", "num_tokens": num_tokens, "length": length, "num_classes": num_classes}
    spec |= {"width": width, "heads": heads, "layers": layers, "causal": causal}
    return Model(init, apply, classes, spec=spec, check=tokens.check_values(num_tokens))


def _affine(params: Tree, x: jax.Array) -> jax.Array:
    """Return x . weight + bias along the last axis."""
    product = dense(x.reshape(-1, x.shape[-1]), params["weight"]) + params["bias"]
    return product.reshape(*x.shape[:-1], -1)


def _layer_norm(params: Tree, x: jax.Array) -> jax.Array:
    mean = x.mean(axis=-1, keepdims=True)
    variance = jnp.square(x - mean).mean(axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * params["scale"] + params["bias"]


def _attention(params: Tree, x: jax.Array, heads: int, causal: bool) -> jax.Array:
    """Return what each place takes from the places that it sees, shape (rows, length, width)."""
    rows, length, width = x.shape

    def split(name: str) -> jax.Array:
        return _affine(params[name], x).reshape(rows, length, heads, width // heads)

    query, key, value = split("query"), split("key"), split("value")
    match = jnp.einsum("nqhd,nkhd->nhqk", query, key) / np.sqrt(width // heads).astype(x.dtype)
    if causal:
        match = jnp.where(np.tri(length, dtype=bool), match, -jnp.inf)
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(match, axis=-1), value)
    return _affine(params["out"], mixed.reshape(rows, length, width))
