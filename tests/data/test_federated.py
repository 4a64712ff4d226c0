from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddr import FederatedData, precision
from feddr.data import ClientSamples


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


BF16 = ml_dtypes.bfloat16


def held(values: Any, dtype: Any = np.float64) -> Any:
    """What a run computes with, where a client has these samples."""
    data = FederatedData.from_clients([{"x": values}])
    return precision.samples(data.client(0), dtype)["x"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.DataFrame({"dose": [0.5, 0.25], "smoker": [True, False]}), [[0.5, 1.0], [0.25, 0.0]]),
        (pd.DataFrame({"a": pd.array([0.5], "Float64"), "b": pd.array([3], "Int64")}), [[0.5, 3.0]]),
        (pd.DataFrame({"a": pd.array([True, False], "boolean"), "b": [2, 3]}), [[1, 2], [0, 3]]),
        (np.array([0.5, 2, True, np.float32(0.25)], object), [0.5, 2.0, 1.0, 0.25]),
        (np.array([np.nan, 1], object), [np.nan, 1.0]),
        (np.array([0.5, -3.0], BF16), [0.5, -3.0]),
        (np.array([0.5, -3.0], ml_dtypes.float8_e4m3fn), [0.5, -3.0]),
        (np.array([0.5, -3.0], np.float16), [0.5, -3.0]),
        (np.array([0.5, -3.0], ">f8"), [0.5, -3.0]),
        (np.ma.masked_array([0.5, 2.0], mask=[False, False]), [0.5, 2.0]),
        (np.zeros((1, 0), object), np.zeros((1, 0))),
    ],
)
def test_samples_of_any_type_keep_their_values(values: Any, expected: Any) -> None:
    np.testing.assert_array_equal(held(values), expected)
    assert held(values).dtype == (np.int32 if np.asarray(expected).dtype == int else np.float64)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.uint32, np.int64, np.uint64, ml_dtypes.int4, object])
def test_whole_numbers_stay_whole(dtype: Any) -> None:
    found = held(np.array([0, 1, 1]).astype(dtype))
    assert found.dtype == np.int32
    assert found.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [2**31],
            r"x of train client 0 must be whole numbers of 32 bits .*, got int64 with 2147483648; .*astype\(float",
        ),
        ([-(2**31) - 1], "got int64 with -2147483649"),
        (np.array([2**32 + 1], np.uint64), "got uint64 with 4294967297"),
        ([2**70], "got objects of type int that would be rounded"),
        (np.array([2**60 + 1, 0.5], object), "got objects of type float, int that would be rounded"),
        ([1 + 2j], "got complex128"),
        (["a", "b"], "got <U1"),
        ([b"a"], r"got \|S1"),
        (np.array(["2020-01-01"], "datetime64[D]"), "got datetime64"),
        (np.array([3], "timedelta64[D]"), "got timedelta64"),
        (np.zeros(2, [("a", float)]), "got "),
        (pd.DataFrame({"a": [0.5], "sex": ["f"]}), "got objects of type str"),
        (pd.DataFrame({"a": pd.array([0.5, None], "Float64"), "b": [True, False]}), "got objects of type NAType"),
        (np.array([None, 1.0], object), "got objects of type NoneType"),
        (np.array([Decimal("0.5")]), "got objects of type Decimal"),
        (np.array([Fraction(1, 3)]), "got objects of type Fraction that would be rounded"),
        (np.ma.masked_array([0.5, 2.0], mask=[True, False]), "got a masked array without 1 of 2"),
    ],
)
def test_samples_that_no_run_can_hold_are_refused_by_name(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FederatedData.from_clients([{"x": values}])
    with pytest.raises(ValueError, match=r"x of client 1"):
        FederatedData.generated(lambda i: {"x": values if i else np.ones(len(values))}, [len(values)] * 2)
    with pytest.raises(ValueError, match=r"^x must"):
        ClientSamples({"x": np.ma.asarray(values) if np.ma.is_masked(values) else np.asarray(values)}, np.array([0, 1]))


def test_rows_of_several_lengths_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="x of train client 0 must have rows of one length"):
        FederatedData.from_clients([{"x": [[1.0, 2.0], [3.0]]}])


def test_samples_beyond_single_precision_are_refused_there_alone() -> None:
    assert held([1e300, np.inf])[0] == 1e300
    with pytest.raises(ValueError, match=r'x must fit into float32, .*precision="float64"'):
        held([1e300], np.float32)
    assert held([np.inf], np.float32)[0] == np.inf


def test_clients_may_have_types_of_their_own() -> None:
    data = FederatedData.from_clients([{"x": [1, 2]}, {"x": [0.5]}, {"x": np.array([True])}])
    assert data.train.samples["x"].tolist() == [1.0, 2.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": [3.7, 3]}, "sizes must be whole numbers"),
        ({"sizes": [3, 3], "panel": [0.5]}, "panel must be whole numbers"),
        ({"sizes": 3}, "sizes"),
    ],
)
def test_counts_of_clients_are_whole(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FederatedData.generated(lambda _: {"x": np.ones(3)}, **settings)


def test_the_size_of_a_panel_may_be_a_number_of_numpy() -> None:
    data = FederatedData.generated(lambda _: {"x": np.ones(3)}, np.full(9, 3.0), panel=np.int64(4))  # type: ignore[arg-type]
    assert len(data.panel) == 4


def test_a_client_that_makes_a_single_number_is_named() -> None:
    with pytest.raises(ValueError, match=r"Client 0 was said to have 1 samples, but arrays of \{'x': None\}"):
        FederatedData.generated(lambda _: {"x": 1.0}, [1])


def test_more_samples_than_can_be_counted_are_refused() -> None:
    many = np.broadcast_to(np.float32(0), (2**31,))
    with pytest.raises(
        ValueError, match=r"at most 2,147,483,647 samples, got 2,147,483,648; use FederatedData.generated"
    ):
        ClientSamples({"x": many}, np.array([0, 2**31]))
