"""The gradient mapping: zero at stationary points of f + g and nowhere else, and the gradient where g = 0."""

import numpy as np

from feddr import precision, tree
from feddr.prox import Regulariser
from feddr.tree import Tree


def gradient_mapping(g: Regulariser, x: Tree, gradient: Tree, eta: float) -> Tree:
    """Return (x - prox_{eta g}(x - eta * gradient)) / eta.

    Examples
    --------
    >>> import feddr
    >>> gradient_mapping(feddr.prox.L1(1.0), np.array([0.0]), np.array([-3.0]), eta=1.0).tolist()
    [-2.0]
    """
    x = precision.parameters(x)
    with precision.scope(precision.dtype_of(x)):
        step = g.prox(tree.axpy(-eta, gradient, x), eta)
        return tree.map(lambda a, b: (np.asarray(a) - np.asarray(b)) / eta, x, step)
