"""The prox of a regulariser compiled for the server's float64 state."""

import jax
import numpy as np

from feddr import precision, tree
from feddr.prox.norms import Zero
from feddr.prox.regulariser import Prox, Regulariser
from feddr.tree import Tree


def compiled_prox(g: Regulariser) -> Prox:
    """Return prox_{eta g} on the server's float64 arrays, compiled."""
    if isinstance(g, Zero):
        return lambda x, _: x
    compiled = jax.jit(g.prox)

    def prox(x: Tree, eta: float) -> Tree:
        with precision.scope(np.float64):
            return tree.map(np.asarray, compiled(x, eta))

    return prox
