"""Recurrent networks on sequences of tokens."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from feddr.models import initial, tokens
from feddr.models.model import Model, check_parameters, check_sizes
from feddr.tree import Tree
from feddr.xla.dense import dense


def lstm(num_tokens: int = 80, embedding: int = 8, hidden: Sequence[int] = (128, 128)) -> Model:
    """Return LSTM layers that predict the token after a sequence.

    Parameters
    ----------
    num_tokens
        Tokens, such as characters, numbered from 0; as many scores come out. 80 for LEAF's Shakespeare.
    embedding
        Numbers that stand for a token.
    hidden
        Width of each layer.

    Raises
    ------
    ValueError
        Where a size is not a whole number of 1 or more. The model itself refuses what is not sequences of tokens,
        whole numbers of shape (rows, length); any length will do, and the scores are those of the last place.

    Notes
    -----
    The network that McMahan et al. 2017 and LEAF (Caldas et al. 2018) train on Shakespeare, there with 256 units a
    layer. Input weights start as Glorot and Bengio 2010 draw them, recurrent weights orthogonal (Saxe et al. 2014),
    biases at zero and those of the forget gate at one (Gers et al. 2000, Jozefowicz et al. 2015). The gates are in
    the order input, forget, cell, output.

    Examples
    --------
    >>> model = lstm(num_tokens=5, embedding=2, hidden=(4,))
    >>> {name: leaf.shape for name, leaf in model.init(0)["layer0"].items()}
    {'weight': (2, 16), 'recurrent': (4, 16), 'bias': (16,)}
    >>> model.apply(model.init(0), np.array([[0, 3, 1], [2, 2, 4]])).shape
    (2, 5)
    """
    hidden = list(hidden)
    check_sizes("The sizes of an lstm", [num_tokens, embedding, *hidden])
    if not hidden:
        raise ValueError("An lstm needs at least one layer, got hidden=[].")
    inputs = [embedding, *hidden[:-1]]
    layers = list(zip(inputs, hidden, strict=True))
    count = num_tokens * (embedding + hidden[-1]) + sum(4 * h * (i + h + 1) for i, h in layers)
    check_parameters(f"An lstm with layers of {hidden}", count)

    def init(seed: int) -> Tree:
        rng = np.random.default_rng(seed)
        params: dict[str, Tree] = {"embedding": tokens.embedding(rng, num_tokens, embedding, 1.0)}
        for k, (i, h) in enumerate(layers):
            bias = np.zeros(4 * h)
            bias[h : 2 * h] = 1.0
            weight = np.concatenate([initial.glorot(rng, (i, h)) for _ in range(4)], axis=1)
            params[f"layer{k}"] = {"weight": weight, "recurrent": initial.orthogonal(rng, h, 4), "bias": bias}
        return params | {"scores": initial.layer(initial.glorot(rng, (hidden[-1], num_tokens)))}

    def apply(params: Tree, x: jax.Array) -> jax.Array:
        tokens.check_sequences(x)
        outputs = jnp.asarray(params["embedding"])[x.T]  # (length, rows, embedding)
        for k in range(len(hidden)):
            outputs = _layer(params[f"layer{k}"], outputs)
        return dense(outputs[-1], params["scores"]["weight"]) + params["scores"]["bias"]

    spec = {"name": "lstm", "num_tokens": num_tokens, "embedding": embedding, "hidden": hidden}
    return Model(init, apply, num_tokens, spec=spec, check=tokens.check_values(num_tokens))


def _layer(params: Tree, inputs: jax.Array) -> jax.Array:
    """Return the outputs of a layer, shape (length, rows, hidden), from inputs of shape (length, rows, width)."""
    length, rows, width = inputs.shape
    # What the inputs add to the gates does not depend on the state: one product for all places, outside the loop.
    gates = dense(inputs.reshape(length * rows, width), params["weight"]) + params["bias"]
    recurrent = jnp.asarray(params["recurrent"])
    zeros = jnp.zeros((rows, recurrent.shape[0]), gates.dtype)

    def step(state: tuple[jax.Array, jax.Array], own: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        output, cell = state
        new, forget, candidate, out = jnp.split(own + output @ recurrent, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(new) * jnp.tanh(candidate)
        output = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (output, cell), output

    return jax.lax.scan(step, (zeros, zeros), gates.reshape(length, rows, -1))[1]
