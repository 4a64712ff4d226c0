"""The log of what leaves: whatever is done to it afterwards is seen."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from feddr.sites import AuditLog, verify

Lines = list[bytes]


def written(folder: Path, count: int = 5) -> tuple[AuditLog, list[str]]:
    log = AuditLog(folder)
    entries = [{"kind": "train", "run": "a", "experiment": "x", "bytes": 10, "norm": 0.5 * i} for i in range(count)]
    return log, [log.append(entry) for entry in entries]


def test_a_log_that_nobody_has_touched_is_whole(tmp_path: Path) -> None:
    log, heads = written(tmp_path)
    summary = verify(log.path)
    assert (summary.lines, summary.head, summary.torn) == (5, heads[-1], False)
    assert summary.kinds == {("a", "train"): (5, 50, 2.0)}
    for head in heads:  # also one that was noted earlier: what follows it was written since
        assert verify(log.path, head).lines == 5
    assert (log.updates("x"), log.updates("y")) == (5, 0)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [lines[0], lines[1].replace(b'"bytes": 10', b'"bytes": 11'), *lines[2:]], "line 2 was changed"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 2 was changed, or a line after it was removed"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 1 was changed, or a line after it"),
        (lambda lines: lines[1:], "a line before the first was removed"),
        (lambda lines: [*lines[:2], b"something else", *lines[2:]], "line 3 is not as a node writes it"),
        (lambda lines: [*lines, lines[-1]], "line 5 was changed, or a line after it"),
    ],
    ids=["changed", "removed", "swapped", "first removed", "inserted", "repeated"],
)
def test_what_is_changed_removed_or_moved_is_seen(tmp_path: Path, change: Callable[[Lines], Lines], line: str) -> None:
    log, _ = written(tmp_path)
    lines = log.path.read_bytes().splitlines()
    log.path.write_bytes(b"\n".join(change(lines)) + b"\n")
    with pytest.raises(ValueError, match=line):
        verify(log.path)


@pytest.mark.parametrize("last", ["cut off", "changed"])
def test_the_end_is_known_to_whoever_has_the_head(tmp_path: Path, last: str) -> None:
    log, heads = written(tmp_path)
    lines = log.path.read_bytes().splitlines(keepends=True)
    end = [] if last == "cut off" else [lines[-1].replace(b'"norm": 2.0', b'"norm": 1.0')]
    log.path.write_bytes(b"".join(lines[:-1] + end))
    assert verify(log.path).lines == 4 + len(end)  # nothing in the log itself can say so
    with pytest.raises(ValueError, match="the end was cut off, or a line was changed"):
        verify(log.path, heads[-1])
    assert verify(log.path, heads[-2]).lines == 4 + len(end)


def test_half_a_line_has_not_left_and_is_replaced_by_the_next(tmp_path: Path) -> None:
    log, heads = written(tmp_path)
    with open(log.path, "ab") as file:
        file.write(b'{"time": "2024')
    assert (verify(log.path).torn, verify(log.path).head) == (True, heads[-1])
    log.append({"kind": "hello"})
    assert (verify(log.path).torn, verify(log.path).lines) == (False, 6)


def test_a_line_longer_than_what_is_read_at_once_has_its_hash(tmp_path: Path) -> None:
    log, _ = written(tmp_path, 1)
    log.append({"kind": "error", "text": "x" * 200_000})
    log.append({"kind": "hello"})
    assert verify(log.path).lines == 3


def test_two_writers_make_one_chain(tmp_path: Path) -> None:
    writers = [threading.Thread(target=written, args=(tmp_path, 8)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert verify(AuditLog(tmp_path).path).lines == 32


def test_a_line_is_on_the_disk_before_its_hash_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, synced = AuditLog(tmp_path), list[int]()
    monkeypatch.setattr("os.fsync", lambda _: synced.append(log.path.stat().st_size))
    log.append({"kind": "hello"})
    log.append({"kind": "hello"})
    sizes = [len(line) for line in log.path.read_bytes().splitlines(keepends=True)]
    assert synced[0] == sizes[0]
    assert synced[-1] == sum(sizes)


def test_numbers_that_json_does_not_have_are_not_written(tmp_path: Path) -> None:
    log, _ = written(tmp_path, 1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.append({"kind": "train", "norm": float("nan")})
    assert verify(log.path).lines == 1
    assert json.loads(log.path.read_text())["before"] == "0" * 64


def test_a_log_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such log"):
        verify(tmp_path / "log.jsonl")
