"""Atomic writes and locks."""

import os
import stat
from pathlib import Path

import pytest

from feddr.storage import atomic, lock


def test_bytes_are_on_the_disk_before_their_name_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    replace = os.replace

    def fsync(number: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")

    def rename(old: Path, new: Path) -> None:
        assert old.read_bytes() == b"whole"
        calls.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    atomic.write(tmp_path / "new" / "x", b"whole")
    assert calls == ["file", "rename", "folder"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with lock.locked(tmp_path):
        assert lock.is_locked(tmp_path)
        with pytest.raises(RuntimeError, match="busy here"), lock.locked(tmp_path, RuntimeError("busy here")):
            pass
    assert not lock.is_locked(tmp_path)


@pytest.mark.parametrize("shared", [False, True])
def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "x.csv"
    atomic.replace(path, b"old")

    def fail() -> None:
        with atomic.replacing(path, shared) as beside:
            beside.write_bytes(b"ne")
            raise RuntimeError("in the midst")

    with pytest.raises(RuntimeError, match="in the midst"):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_system_that_refuses_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "x"
    with pytest.raises(ValueError, match=f"^{path}: cannot be written, Not a directory.$"), atomic.refusing(path):
        path.write_bytes(b"")
