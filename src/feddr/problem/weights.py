"""Weights: w_i of each client in F, and w_i / n_i of each sample."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr import precision
from feddr.data import FederatedData


def client_weights(weights: str | ArrayLike, data: FederatedData) -> NDArray[np.float64]:
    """Return the weights w_i that ``Problem`` describes, summing to one.

    Raises
    ------
    ValueError
        Where the weights are neither one of the two words nor one positive number for each client.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.zeros((1, 2))}, {"x": np.zeros((3, 2))}])
    >>> client_weights("samples", data).tolist()
    [0.25, 0.75]
    """
    n = data.num_clients
    if isinstance(weights, str):
        if weights not in ("uniform", "samples"):
            raise ValueError(f'weights must be "uniform", "samples" or one number a client, got {weights!r}.')
        sizes = data.sizes.astype(np.float64)
        return np.full(n, 1.0 / n) if weights == "uniform" else sizes / sizes.sum()
    numbers = np.asarray(precision.real("weights", weights), np.float64)
    if numbers.shape != (n,) or not np.all(np.isfinite(numbers)) or np.any(numbers <= 0):
        raise ValueError(f"weights must be {n} positive numbers, one a client, got {numbers.tolist()}.")
    return scaled(numbers)


def scaled(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positive weights, each however large, scaled to sum to one.

    Raises
    ------
    ValueError
        Where some weights are so small beside others that they would count nothing.

    Examples
    --------
    >>> scaled(np.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    with np.errstate(over="ignore"):
        shares: NDArray[np.float64] = weights / weights.sum()
    if not np.all(shares):
        shares = weights / weights.max()
        shares /= shares.sum()
    if not np.all(shares):
        raise ValueError(
            f"weights must be numbers that can be added up, got {weights.min():g} beside {weights.max():g}; leave out "
            "clients that hardly count."
        )
    return shares


def sample_weights(weights: NDArray[np.float64], data: FederatedData) -> NDArray[np.float64]:
    """Return the weight w_i / n_i of each training sample in memory; those of a panel are scaled to sum to one.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> data = feddr.FederatedData.from_clients([{"x": np.zeros((1, 2))}, {"x": np.zeros((3, 2))}])
    >>> sample_weights(np.array([0.25, 0.75]), data).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if data.on_demand is not None:
        weights = weights[data.panel] / weights[data.panel].sum()
    return np.repeat(weights / data.train.sizes, data.train.sizes)
