"""Sequences of tokens: what the models of text share."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray


def check_values(num_tokens: int) -> Callable[[NDArray[Any]], None]:
    """Return a function that refuses tokens which are not from 0 to num_tokens - 1."""

    def check(x: NDArray[Any]) -> None:
        if x.size and not 0 <= x.min() <= x.max() < num_tokens:
            wrong = x.min() if x.min() < 0 else x.max()
            raise ValueError(
                f"Tokens must be whole numbers from 0 to {num_tokens - 1}, got {wrong}; give the model a larger "
                "num_tokens or renumber the tokens."
            )

    return check


def check_sequences(x: jax.Array, length: int | None = None) -> None:
    """Refuse what is not rows of tokens, all of one length."""
    if not jnp.issubdtype(x.dtype, jnp.integer) or x.ndim != 2 or (length is not None and x.shape[1] != length):
        shape = f"(rows, {'length' if length is None else length})"
        raise ValueError(
            f"The model takes sequences of tokens, whole numbers of shape {shape}, got {x.dtype} of shape "
            f"{tuple(x.shape)}; number the tokens from 0, and pad or cut the sequences."
        )


def embedding(rng: np.random.Generator, num_tokens: int, width: int, deviation: float) -> NDArray[Any]:
    """Return a normal table with a row for each token."""
    return rng.normal(0.0, deviation, (num_tokens, width))
