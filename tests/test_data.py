from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddr import FederatedData


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_every_client_keeps_its_own_samples(sizes: list[int]) -> None:
    clients = [{"x": np.full((size, 2), i), "y": np.full(size, i)} for i, size in enumerate(sizes)]
    data = FederatedData.from_clients(clients)
    assert data.train.sizes.tolist() == sizes
    assert data.train.num_samples == sum(sizes)
    for i, client in enumerate(clients):
        assert np.array_equal(data.train.client(i)["x"], client["x"])
        assert np.array_equal(data.train.client(i)["y"], client["y"])


def test_a_client_may_have_no_test_samples() -> None:
    clients = [{"x": np.ones((2, 1))}, {"x": np.ones((3, 1))}]
    data = FederatedData.from_clients(clients, [{"x": np.ones((0, 1))}, {"x": np.ones((1, 1))}])
    assert data.test is not None
    assert data.test.sizes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([], None, "at least one client"),
        ([{}], None, "client 0 has none"),
        ([{"x": np.ones((2, 1))}, {"x": np.ones((0, 1))}], None, "client 1 has none"),
        ([{"x": np.ones((2, 1))}, {"z": np.ones((2, 1))}], None, r"client 1 has \['z'\]"),
        ([{"x": np.ones((2, 1)), "y": np.ones(3)}], None, "client 0 has lengths"),
        ([{"x": np.array(1.0)}], None, "client 0 has lengths"),
        ([{"x": np.ones((2, 1))}, {"x": np.ones((2, 3))}], None, r"client 1 has x of shape \(3,\)"),
        ([{"x": np.ones((2, 1))}], [{"x": np.ones((2, 1))}] * 2, "got 1 and 2"),
    ],
)
def test_bad_clients_are_named(
    train: Sequence[Mapping[str, Any]], test: Sequence[Mapping[str, Any]] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FederatedData.from_clients(train, test)
