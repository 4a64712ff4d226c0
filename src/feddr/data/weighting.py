"""Weights of samples and classes in the loss, scaled so that the loss of a client stays a mean over its samples."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feddr.data.federated import FederatedData
from feddr.data.samples import ClientSamples, OnDemand, Samples
from feddr.data.tables import WEIGHT
from feddr.preparation import Category, columns

ClassWeight = Literal["balanced"] | Mapping[Category, float]
"""``"balanced"``, or a weight for some classes; the others have 1."""


def weighted(
    data: FederatedData,
    weights: str | ArrayLike,
    class_weight: ClassWeight | None = None,
    num_classes: int = 0,
) -> tuple[FederatedData, str | ArrayLike]:
    """Return the data with weights s_ij of mean 1 in each client, and the weights w_i of the clients.

    Sample j of client i has the raw weight a_ij: its ``sample_weight``, 1 without any, times the weight of its class.
    Then s_ij = n_i a_ij / sum_j a_ij, so that the plain mean of s_ij loss_ij over a client's samples is the weighted
    mean f_i = sum_j a_ij loss_ij / sum_j a_ij. With ``weights="samples"`` client i has w_i proportional to
    sum_j a_ij, so that F is the weighted mean over the samples of all clients.

    Parameters
    ----------
    weights
        Of the clients, as in ``Problem``.
    class_weight
        ``"balanced"``: class c has the weight A / (K A_c), where A_c is the sum of the sample weights (their number
        without any) of class c over the training samples of all clients, A of all classes, and K classes occur; or a
        weight for some classes by their label.
    num_classes
        Number of classes, for class_weight.

    Raises
    ------
    ValueError
        Where a weight is negative or not finite, a client has none but zeros, or a class is not known.

    Examples
    --------
    >>> import numpy as np
    >>> rows = {"x": np.zeros((2, 1)), "y": [0, 1], "sample_weight": [1.0, 3.0]}
    >>> data, weights = weighted(FederatedData.from_clients([rows]), "samples")
    >>> data.train.samples["sample_weight"].tolist(), np.asarray(weights).tolist()
    ([0.5, 1.5], [4.0])
    """
    if class_weight is None and WEIGHT not in data.train.samples:
        return data, weights
    per_class = None if class_weight is None else _per_class(data, class_weight, num_classes)
    if data.on_demand is not None:
        if isinstance(weights, str) and weights == "samples":
            raise ValueError(
                'weights="samples" needs the sample weights of all clients, got data made on demand; use '
                'weights="uniform", or give one number a client.'
            )
        make = data.on_demand.client
        source = OnDemand(lambda i: _normalised(make(i), per_class, f"client {i}"), data.on_demand.sizes, data.panel)
        return replace(data, on_demand=source, train=_part(data.train, per_class, "client")[0]), weights
    train, sums = _part(data.train, per_class, "client")
    test = None if data.test is None else _part(data.test, per_class, "")[0]
    validation = None if data.validation is None else _part(data.validation, per_class, "")[0]
    if isinstance(weights, str) and weights == "samples":
        weights = sums
    return replace(data, train=train, test=test, validation=validation), weights


def _part(
    part: ClientSamples, per_class: NDArray[np.float64] | None, who: str
) -> tuple[ClientSamples, NDArray[np.float64]]:
    """Return a part with the weights s_ij, and the sum of the raw weights of each client; ``who`` must have some."""
    raw = _raw(part.samples, per_class)
    sums = np.add.reduceat(np.append(raw, 0.0), part.offsets[:-1]) * (part.sizes > 0)
    if who and np.any(sums == 0):
        raise ValueError(
            f"Every client needs a sample of positive weight, {who} {int(np.argmax(sums == 0))} has none; leave it out."
        )
    scale = part.sizes / np.where(sums > 0, sums, 1.0)
    return ClientSamples({**part.samples, WEIGHT: raw * np.repeat(scale, part.sizes)}, part.offsets), sums


def _normalised(samples: Samples, per_class: NDArray[np.float64] | None, who: str) -> Samples:
    raw = _raw(samples, per_class)
    if not raw.sum() > 0:
        raise ValueError(f"Every client needs a sample of positive weight, {who} has none; leave it out.")
    return {**samples, WEIGHT: raw * (len(raw) / raw.sum())}


def _raw(samples: Samples, per_class: NDArray[np.float64] | None) -> NDArray[np.float64]:
    rows = len(samples["y"])
    raw = np.asarray(samples.get(WEIGHT, np.ones(rows)), np.float64)
    if raw.shape != (rows,) or not np.all(np.isfinite(raw)) or np.any(raw < 0):
        least = float(raw.min()) if raw.size else 0.0
        raise ValueError(
            f"{WEIGHT} must be one finite number >= 0 a sample, got shape {raw.shape} with a least of {least:g}."
        )
    return raw if per_class is None else raw * per_class[samples["y"].astype(np.int64)]


def _per_class(data: FederatedData, class_weight: ClassWeight, num_classes: int) -> NDArray[np.float64]:
    """Return the weight of each class."""
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f'class_weight must be "balanced" or a weight for each class, got {class_weight!r}.')
        if data.on_demand is not None:
            raise ValueError(
                'class_weight="balanced" counts the labels of all clients, got data made on demand; give a weight for '
                "each class."
            )
        samples = data.train.samples
        totals = np.bincount(samples["y"].astype(np.int64), _raw(samples, None), num_classes)
        return np.divide(totals.sum() / np.sum(totals > 0), totals, np.ones(num_classes), where=totals > 0)
    labels = data.classes or tuple(range(num_classes))
    weights = np.ones(num_classes)
    for label, weight in class_weight.items():
        code = int(columns.codes(np.array([label], object), labels)[0])
        if code < 0:
            raise ValueError(f"class_weight must name classes, {columns.listed(labels)}, got {label!r}.")
        if not 0 <= weight < float("inf"):
            raise ValueError(f"class_weight must be finite and not negative, got {weight} for {label!r}.")
        weights[code] = weight
    return weights
