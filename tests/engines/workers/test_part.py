"""A part of a problem: the rows and the weights of some shards, under the numbers that clients have in all."""

import numpy as np
import pytest

import feddr
from feddr.engines.shared.shards import SHARDS, first_client
from feddr.engines.workers.part import part_of
from tests.conftest import make_classes


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (20, 50), (50, SHARDS)])
def test_a_part_has_the_rows_and_the_weights_of_its_clients(start: int, stop: int) -> None:
    sizes = tuple(np.random.default_rng(3).integers(2, 9, 100).tolist())
    model, data = feddr.models.mlp([4, 5, 3]), make_classes(sizes, 4, 3, seed=3)
    problem = feddr.Problem.classification(model, data, weights="uniform")  # so that rows of clients weigh differently
    part = part_of(problem, start, stop)
    first, last = first_client(start, 100), first_client(stop, 100)
    rows = slice(int(data.train.offsets[first]), int(data.train.offsets[last]))
    np.testing.assert_array_equal(part.sample_weights, problem.sample_weights[rows])
    np.testing.assert_array_equal(part.client_weights, problem.client_weights)
    for client in range(100):
        own = part.data.client(client)["x"]
        expected = data.client(client)["x"] if first <= client < last else np.zeros((0, 4))
        np.testing.assert_array_equal(own, expected)
