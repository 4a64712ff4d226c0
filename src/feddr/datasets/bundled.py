"""Small data sets that come with scikit-learn: for examples without a network."""

from typing import Any, Literal

import numpy as np

from feddr.data import FederatedData
from feddr.data.split import Partition, Shares, assign, options_of
from feddr.datasets.federate import Array, federate

REGRESSION = ("diabetes",)


def bundled(
    which: Literal["breast_cancer", "diabetes", "digits", "iris", "wine"] = "digits",
    partition: Partition = "iid",
    num_clients: int = 10,
    standardise: bool = True,
    test_share: float = 0.2,
    seed: int = 0,
    shards_per_client: int | None = None,
    labels_per_client: int | None = None,
    beta: float | None = None,
    sigma: float | None = None,
    min_samples: int | None = None,
    validation_share: float = 0.0,
    stratify: bool = False,
) -> FederatedData:
    """Return a data set of scikit-learn, dealt out over clients.

    Parameters
    ----------
    which
        ``"breast_cancer"`` (569 samples, 30 features, 2 classes), ``"digits"`` (1797, 64, 10), ``"iris"`` (150, 4, 3),
        ``"wine"`` (178, 13, 3), or ``"diabetes"`` (442, 10, a number to predict: for ``Problem.regression``).
    partition, num_clients, shards_per_client, labels_per_client, beta, sigma, min_samples
        As in ``feddr.datasets.mnist``.
    standardise
        Whether to centre and scale each feature by the training samples of all clients together.
    test_share, validation_share
        Of each client's samples; 0 for no such part.
    stratify
        Whether each part of a client has its labels in the same shares, up to rounding.
    seed
        Draws the partition, and which samples are for what.

    Returns
    -------
    FederatedData
        ``x``: float32; ``y``: int32, or float32 for diabetes. ``data.features`` and ``data.classes`` have the names.

    Examples
    --------
    >>> data = bundled("digits", partition="dirichlet", beta=0.3, num_clients=20)
    >>> data.num_clients, data.train.samples["x"].shape[1]
    (20, 64)
    """
    names = ("breast_cancer", "diabetes", "digits", "iris", "wine")
    if which not in names:
        raise ValueError(f"which must be one of {', '.join(names)}, got {which!r}.")
    bunch = _load(which)
    classes = () if which in REGRESSION else tuple(map(str, bunch.target_names))
    x: Array = np.asarray(bunch.data, np.float32)
    y: Array = np.asarray(bunch.target, np.float32 if which in REGRESSION else np.int32)
    options = options_of(shards_per_client, labels_per_client, beta, sigma, min_samples)
    clients = assign(y, partition, num_clients, seed, options)
    features = tuple(map(str, bunch.feature_names))
    shares = Shares(test_share, validation_share, stratify, seed)
    return federate(x, y, clients, shares, standardise=standardise, features=features, classes=classes)


def _load(which: str) -> Any:
    try:
        from sklearn import datasets
    except ImportError:
        raise ValueError(f"bundled needs scikit-learn for {which}; pip install scikit-learn.") from None
    return getattr(datasets, f"load_{which}")()
