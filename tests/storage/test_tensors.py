"""Checksummed safetensors files: damage is noticed, trees come back as they were, the version before is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from feddr import tree
from feddr.storage import atomic, limits, tensors
from feddr.storage.tensors import DamagedError


@given(st.binary(min_size=1, max_size=40), st.integers(0, 10**6))
@hypothesis_settings(deadline=None, max_examples=200)
def test_no_change_of_a_file_goes_unnoticed(noise: bytes, where: int) -> None:
    whole = tensors.pack({"a": [1, 2.5, "x"], "b": None}, {"x": np.arange(5.0), "y": np.zeros((0, 3), np.float32)})
    record = tensors.unpack(whole)
    assert record.header == {"a": [1, 2.5, "x"], "b": None}
    place = where % len(whole)
    spoilt = whole[:place] + noise + whole[place + len(noise) :]
    if spoilt != whole:
        try:
            found = tensors.unpack(spoilt)
        except DamagedError:
            return
        assert found.header == record.header  # such as another space in the JSON around it
        assert all(np.array_equal(found.arrays[name], record.arrays[name]) for name in record.arrays)


@pytest.mark.parametrize("cut", [0, 4, 8, 100, -1])
def test_a_file_that_was_cut_short_is_damaged(cut: int) -> None:
    with pytest.raises(DamagedError):
        tensors.unpack(tensors.pack({}, {"x": np.arange(5.0)})[:cut])


def test_a_file_too_large_for_memory_is_refused_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generations = tensors.Generations(tmp_path)
    generations.save(1, {"round": 1}, {"x": np.zeros(3)})
    generations.save(2, {"round": 2}, {"x": np.zeros(1000)})
    assert [number for number, _ in generations.undamaged()] == [2, 1]
    monkeypatch.setattr(limits, "memory", lambda: tensors.COPIES * generations.path(2).stat().st_size - 1)
    with pytest.raises(DamagedError, match="more than this machine could have written"):
        tensors.read(generations.path(2))
    assert [number for number, _ in generations.undamaged()] == [1]


def test_two_generations_are_kept(tmp_path: Path) -> None:
    states = tensors.Generations(tmp_path)
    for number in (1, 2, 3):
        states.save(number, {"n": number}, {})
    assert states.numbers() == [3, 2]
    states.path(3).write_bytes(b"spoilt")
    assert [record.header["n"] for _, record in states.undamaged()] == [2]
    states.save(1, {"n": 1}, {})
    assert states.numbers() == [1]


@pytest.mark.parametrize("state", [None, (np.ones(2), 3.0), {"a": [np.zeros(1), np.array(2, np.float32)]}])
def test_states_come_back_as_they_were(tmp_path: Path, state: Any) -> None:
    atomic.write(tmp_path / "x", tensors.pack({}, tensors.flatten(state)))
    back = tensors.restore(state, tensors.read(tmp_path / "x").arrays)
    assert tree.named(back).keys() == tree.named(state).keys()
    for ours, theirs in zip(tree.leaves(back), tree.leaves(state), strict=True):
        assert type(ours) is type(theirs)
        np.testing.assert_array_equal(ours, theirs)


def test_a_state_of_another_shape_is_damaged() -> None:
    with pytest.raises(DamagedError, match="shape"):
        tensors.restore({"x": np.zeros(3)}, {"x": np.zeros(4)})
    with pytest.raises(DamagedError, match="wanted"):
        tensors.restore({"x": np.zeros(3)}, {"y": np.zeros(3)})
