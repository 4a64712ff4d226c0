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
