"""A validation part for a federation that has none yet; a method of ``FederatedData``."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from feddr.data.samples import gather
from feddr.data.split import Shares

if TYPE_CHECKING:
    from feddr.data.federated import FederatedData


def with_validation(data: "FederatedData", share: float, stratify: bool = False, seed: int = 0) -> "FederatedData":
    """Return the federation with a part of each client's training samples kept apart for choosing settings.

    The test part stays. Features are as they were: where they had been centred and scaled by training samples, those
    that are now for validation were among them, so rather give the function that made the data a ``validation_share``.

    Parameters
    ----------
    share
        Of each client's training samples, rounded; at least one is left for training. 0 leaves all as it is.
    stratify
        Whether both parts of a client have its labels in the same shares, up to rounding.
    seed
        Draws which samples these are; client i's draw depends on (seed, i) alone.

    Raises
    ------
    ValueError
        Where there is a validation part already, where samples are made on demand, or where labels are not classes
        and ``stratify`` is asked for.

    Examples
    --------
    >>> import feddr
    >>> data = feddr.datasets.synthetic(1, 1, num_clients=2).with_validation(0.25, stratify=True)
    >>> data.train.sizes.tolist(), data.validation.sizes.tolist()
    ([34, 67], [12, 23])
    """
    shares = Shares(validation=share, stratify=stratify, seed=seed)
    if share == 0:
        return data
    if data.validation is not None:
        raise ValueError("with_validation is for data without a validation part, these have one; leave it out.")
    if data.on_demand is not None:
        raise ValueError(
            "with_validation needs samples in memory, these are made on demand; split them in the function that "
            "makes them."
        )
    samples = data.train.samples
    if stratify and "y" not in samples:
        raise ValueError(f"stratify needs labels y, the samples have {', '.join(samples)}; leave it out.")
    clients = np.split(np.arange(data.train.num_samples), data.train.offsets[1:-1])
    rows = shares.split(clients, samples.get("y"))
    assert rows.validation is not None
    return replace(data, train=gather(samples, rows.train), validation=gather(samples, rows.validation))
