"""Append-only logs in JSON Lines."""

import re
from pathlib import Path

from feddr.storage import jsonl


def test_entries_come_back_in_order_without_lines_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for number in range(3):
        jsonl.append(path, {"number": number, "text": "a\nb"})
    with open(path, "a") as file:
        file.write("[1]\n" + "[" * 100_000 + '\n{"number": 3}\n{"num')
    assert [entry["number"] for entry in jsonl.entries(path)] == [0, 1, 2, 3]


def test_the_time_is_that_of_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", jsonl.timestamp())
