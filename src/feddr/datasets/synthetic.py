"""Synthetic classification data, from alike to very different clients: the recipe of FedProx.

References
----------
T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith (2020). Federated optimization in heterogeneous
networks. MLSys.
O. Shamir, N. Srebro, T. Zhang (2014). Communication-efficient distributed optimization using an approximate Newton-type
method. ICML. (The model behind it.)
"""

import math
from collections.abc import Callable
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from feddr.data import FederatedData
from feddr.storage import limits

NUM_FEATURES = 60
NUM_CLASSES = 10

Array = NDArray[np.float64]
Model = Callable[[np.random.Generator], tuple[Array, Array, Array]]
"""From a client's generator to the mean of its features, its W and its b."""


def synthetic(
    r: float,
    s: float,
    num_clients: int = 30,
    seed: int = 0,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    """Return synthetic-(r, s): every client has its own linear classifier and its own features.

    Client i draws, all from its own generator (N(m, t) has standard deviation t)::

        size    = floor(lognormal(4, 2)) + 50
        u ~ N(0, r),  B ~ N(0, s)
        v_j ~ N(B, 1),  W_jc ~ N(u, 1),  b_c ~ N(u, 1)       j = 1..60,  c = 1..10
        x_j ~ N(v_j, j^-0.6)                                 variance j^-1.2
        y       = argmax(W^T x + b)

    and keeps the last tenth for testing. The larger s, the more the features differ. r is there as published but leaves
    the labels as they are: u adds the same number, u (sum_j x_j + 1), to all ten classes. What makes the clients'
    labels differ is that each has a W of its own, also in synthetic-(0, 0).

    Parameters
    ----------
    r, s
        Standard deviations of u and B, >= 0. The usual sets are (0, 0), (0.5, 0.5) and (1, 1).
    num_clients
        Number of clients. Client i is the same in a federation of any size.
    seed
        Another seed is another draw; one seed has the same client sizes whatever r and s.
    validation_share
        Of each client's training samples, which are nine tenths of its own; 0 for no validation part.
    stratify
        Whether both of these parts of a client have its labels in the same shares, up to rounding.

    Returns
    -------
    FederatedData
        ``x``: float32, (samples, 60); ``y``: int32, from 0 to 9.

    Examples
    --------
    >>> data = synthetic(1, 1, num_clients=3)
    >>> data.num_clients, data.train.samples["x"].shape[1]
    (3, 60)
    """
    for name, value in (("r", r), ("s", s)):
        if not 0 <= value < math.inf:
            raise ValueError(f"synthetic needs standard deviations >= 0, got {name}={value}; 0 gives the least spread.")

    def model(rng: np.random.Generator) -> tuple[Array, Array, Array]:
        u, B = rng.normal(0, r), rng.normal(0, s)
        mean = rng.normal(B, 1, NUM_FEATURES)
        return mean, rng.normal(u, 1, (NUM_FEATURES, NUM_CLASSES)), rng.normal(u, 1, NUM_CLASSES)

    return _federation(model, num_clients, seed).with_validation(validation_share, stratify, seed)


def synthetic_iid(
    num_clients: int = 30, seed: int = 0, validation_share: float = 0.0, stratify: bool = False
) -> FederatedData:
    """Return synthetic-iid: one linear classifier and one law of the features for all clients.

    As in ``synthetic``, with v = 0 and one W, b ~ N(0, 1) for everybody; the sizes still differ.

    Parameters
    ----------
    num_clients, seed, validation_share, stratify
        As in ``synthetic``.

    Returns
    -------
    FederatedData
        ``x``: float32, (samples, 60); ``y``: int32, from 0 to 9.

    Examples
    --------
    >>> data = synthetic_iid(num_clients=3, seed=0)
    >>> data.num_clients, data.train.samples["x"].shape[1]
    (3, 60)
    """
    _check(num_clients, seed)
    shared = _generator(seed)
    fixed = np.zeros(NUM_FEATURES), shared.normal(size=(NUM_FEATURES, NUM_CLASSES)), shared.normal(size=NUM_CLASSES)
    data = _federation(lambda _: fixed, num_clients, seed)
    return data.with_validation(validation_share, stratify, seed)


def _federation(model: Model, num_clients: int, seed: int) -> FederatedData:
    _check(num_clients, seed)
    deviation = np.arange(1, NUM_FEATURES + 1, dtype=np.float32) ** np.float32(-0.6)
    train, test = [], []
    for i in range(num_clients):
        rng = _generator(seed, i)
        size = int(rng.lognormal(4, 2)) + 50
        mean, W, b = model(rng)
        x = mean.astype(np.float32) + deviation * rng.standard_normal((size, NUM_FEATURES), dtype=np.float32)
        y = np.argmax(x @ W + b, axis=1).astype(np.int32)
        # Samples of a client are independent, so the order in which they were drawn is as good as a shuffled one.
        cut = 9 * size // 10
        train.append({"x": x[:cut], "y": y[:cut]})
        test.append({"x": x[cut:], "y": y[cut:]})
    return FederatedData.from_clients(train, test)


def _generator(seed: int, *client: int) -> np.random.Generator:
    # 60 sets these streams apart from those that others may derive from the same seed and client.
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(NUM_FEATURES, *client)))


def _check(num_clients: int, seed: int) -> None:
    if not isinstance(num_clients, Integral) or num_clients < 1:
        raise ValueError(f"A federation needs num_clients >= 1, a whole number, got {num_clients}.")
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"The seed must be a whole number >= 0, got {seed}.")
    # A client has 50 + exp(4 + 2) samples on average.
    needed = int(num_clients) * 453 * 4 * (NUM_FEATURES + 1)
    limits.check_memory(f"A federation of {num_clients} clients", needed, "take fewer")
