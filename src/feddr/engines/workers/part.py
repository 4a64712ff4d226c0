"""A part of a problem: the samples of some shards, under the numbers and with the weights that clients have in all."""

import dataclasses
from typing import Any

import numpy as np

from feddr.data import ClientSamples, FederatedData
from feddr.data.samples import OnDemand
from feddr.engines.shared.shards import first_client
from feddr.problem.losses import LinearCurvature


def part_of(problem: Any, start: int, stop: int) -> Any:
    """Return a problem with the samples of the shards from ``start`` up to ``stop`` alone.

    Clients keep their numbers and weights; those of other shards have no samples. Nothing is validated again.

    Examples
    --------
    >>> import feddr
    >>> clients = [{"x": np.full((1, 2), float(i)), "y": np.ones(1)} for i in range(128)]
    >>> problem = feddr.Problem.regression(feddr.models.linear(2), feddr.FederatedData.from_clients(clients))
    >>> part = part_of(problem, 1, 2)
    >>> part.data.num_clients, part.data.train.num_samples, part.data.client(3)["x"].tolist()
    (128, 2, [[3.0, 3.0]])
    """
    data, n = problem.data, problem.data.num_clients
    first, last = first_client(start, n), first_client(stop, n)
    if data.on_demand is None:
        validation, test = (None if part is None else _rows(part, first, last) for part in (data.validation, data.test))
        own = FederatedData(_rows(data.train, first, last), test, validation=validation)
        rows = slice(int(data.train.offsets[first]), int(data.train.offsets[last]))
    else:
        a, b = (int(position) for position in np.searchsorted(data.panel, [first, last]))
        offsets = data.train.offsets[a : b + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        train = ClientSamples({name: array[rows] for name, array in data.train.samples.items()}, offsets - offsets[0])
        own = FederatedData(train, None, OnDemand(data.on_demand.make, data.on_demand.sizes, data.panel[a:b]))
    own_problem = object.__new__(type(problem))
    fields = {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem)} | {"data": own}
    if isinstance(problem.curvature, LinearCurvature):
        fields["curvature"] = dataclasses.replace(problem.curvature, data=own)
    weights = {"client_weights": problem.client_weights, "sample_weights": problem.sample_weights[rows]}
    for name, value in (fields | weights).items():
        object.__setattr__(own_problem, name, value)
    return own_problem


def _rows(part: ClientSamples, first: int, last: int) -> ClientSamples:
    """Return the samples of the clients from ``first`` up to ``last``; all others have none."""
    start, stop = (int(offset) for offset in part.offsets[[first, last]])
    samples = {name: array[start:stop] for name, array in part.samples.items()}
    return ClientSamples(samples, np.clip(part.offsets, start, stop) - start)
