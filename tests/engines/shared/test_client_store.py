from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feddr
from feddr import tree
from feddr.engines.shared import client_store
from feddr.engines.shared.client_store import ClientStore
from tests.conftest import make_classes


class State(NamedTuple):
    x: dict[str, np.ndarray]
    c: np.ndarray | None
    steps: float


def state(value: float) -> State:
    return State({"a": np.full((2, 3), value, np.float32), "b": np.array(value)}, None, value)


SIZE = 2 * 3 * 4 + 8 + 8


@given(st.integers(0, 6), st.lists(st.tuples(st.integers(0, 9), st.floats(-1e3, 1e3, width=32)), max_size=30))
@settings(deadline=None, max_examples=50)
def test_a_store_is_a_mapping_wherever_the_states_lie(fit: int, writes: list[tuple[int, float]]) -> None:
    ours, plain = ClientStore(budget=fit * SIZE), dict[int, State]()
    for client, value in writes:
        ours[client] = plain[client] = state(value)
        assert sorted(ours) == sorted(plain)
        assert len(ours) == len(plain)
        assert ours.bytes_on_disk == SIZE * max(0, len(plain) - fit)
    for client, expected in plain.items():
        found = ours[client]
        assert client in ours
        assert isinstance(found, State)
        assert found.c is None
        assert found.steps == expected.steps
        np.testing.assert_array_equal(found.x["a"], expected.x["a"])
        assert found.x["a"].dtype == np.float32
    assert 10 not in ours
    with pytest.raises(KeyError):
        ours[10]


def test_files_are_added_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_store, "SEGMENT", 3 * SIZE)
    ours = ClientStore(budget=0)
    for client in range(8):
        ours[client] = state(float(client))
    assert [ours[client].steps for client in range(8)] == list(range(8))
    before = ours[2]
    ours[2] = state(-1.0)
    assert (before.steps, ours[2].steps, ours[3].steps) == (2.0, -1.0, 3.0)


def test_a_state_of_another_structure_is_refused() -> None:
    ours = ClientStore(budget=0)
    ours[0] = state(0.0)
    with pytest.raises(ValueError, match="one structure, client 1"):
        ours[1] = state(0.0)._replace(c=np.zeros(1))


@pytest.mark.parametrize(
    ("first", "next_", "message"),
    [
        (0, 0.5, r"client 1 has float64 of shape \(\) where int64 of shape \(\) is kept"),
        (np.zeros(2, np.float32), np.zeros(2), "client 1 has float64"),
        (np.zeros(2), np.zeros(()), r"client 1 has float64 of shape \(\) where"),
    ],
)
def test_a_state_that_would_be_cut_to_fit_is_refused(first: Any, next_: Any, message: str) -> None:
    client_store = ClientStore(budget=0)
    client_store[0] = {"a": first}
    with pytest.raises(ValueError, match=message):
        client_store[1] = {"a": next_}


def test_a_plain_number_comes_back_as_one() -> None:
    client_store = ClientStore(budget=0)
    client_store[0] = {"count": 3, "share": 0.5, "x": np.float32(2)}
    assert {name: type(value) for name, value in client_store[0].items()} == {
        "count": int,
        "share": float,
        "x": np.ndarray,
    }


def test_a_budget_that_is_no_number_of_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="client_memory must be at least 0, got -1; it is in bytes"):
        ClientStore(budget=-1)
    with pytest.raises(ValueError, match="client_memory must be a whole number, got 'auto'"):
        ClientStore(budget="auto")  # type: ignore[arg-type]


ALGORITHMS = [
    feddr.FedDR(eta=1.0, alpha=1.0),
    feddr.FedDR(eta=1.0, alpha=1.0, init="joining"),
    feddr.Scaffold(),
    feddr.FedDyn(eta=1.0),
    feddr.FedPD(eta=1.0),
    feddr.FedAvg(),
]


@pytest.mark.parametrize(
    "algorithm",
    [*ALGORITHMS[1:3], *(pytest.param(one, marks=pytest.mark.slow) for one in (ALGORITHMS[0], *ALGORITHMS[3:]))],
    ids=repr,
)
def test_a_run_is_the_same_with_states_on_disk(algorithm: feddr.algorithms.Algorithm) -> None:
    data = make_classes((5, 9, 12, 7, 30, 8), 4, 3, seed=0)
    problem = feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), data)
    sampling = None if isinstance(algorithm, feddr.FedPD) else feddr.sampling.Uniform(3)
    results = [
        feddr.simulate(
            problem, algorithm, local=feddr.local.SGD(lr=0.1), sampling=sampling, rounds=6, client_memory=memory
        )
        for memory in (0, 300, client_store.BUDGET)
    ]
    for result in results[:2]:
        for a, b in zip(tree.leaves(result.params), tree.leaves(results[2].params), strict=True):
            np.testing.assert_array_equal(a, b)
    clients = results[0].state.clients
    assert isinstance(clients, ClientStore)
    assert clients.bytes_on_disk == len(clients) * clients.bytes_each
    assert (clients.bytes_each > 0) == (algorithm != feddr.FedAvg())
