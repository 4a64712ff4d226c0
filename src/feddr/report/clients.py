"""The clients of a run as a report shows them: samples, participation and staleness."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple, TypeVar

from feddr.report.reading import reading
from feddr.runs import stored

MOST_CLIENTS = 300
"""Bars or rows of a picture; of more clients, neighbours are put together and their means are shown."""

MOST_CELLS = 20_000

MOST = 10_000_000

FIRST = ["client", "train", "test", "label_skew"]

T = TypeVar("T")


class ClientRow(NamedTuple):
    """A line of clients.csv, with its place in it."""

    number: int
    name: str
    train: int
    test: int
    skew: float
    counts: tuple[int, ...]


def federation(path: Path) -> dict[str, Any]:
    """Return samples and labels of each client from clients.csv, the largest first."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    if header[: len(FIRST)] != FIRST:
        raise ValueError(f"its first line must begin with {','.join(FIRST)}")
    rows = [
        ClientRow(i, name, int(train), int(test), float(skew), tuple(map(int, counts)))
        for i, (name, train, test, skew, *counts) in enumerate(lines)
    ]
    rows.sort(key=lambda row: -(row.train + row.test))
    columns = header[len(FIRST) :]
    groups = _groups(rows, min(MOST_CLIENTS, max(20, MOST_CELLS // max(1, len(columns)))))
    sizes, skews = [row.train for row in rows], [row.skew for row in rows]
    return {
        "columns": columns,
        "total": len(rows),
        "samples": {"train": sum(sizes), "test": sum(row.test for row in rows)},
        "size": [min(sizes), median(sizes), max(sizes)],
        "skew": [min(skews), median(skews), max(skews)],
        "places": [group[0].number for group in groups],
        "names": [group[0].name if len(group) == 1 else f"{len(group)} clients" for group in groups],
        "train": [_mean([row.train for row in group]) for group in groups],
        "test": [_mean([row.test for row in group]) for group in groups],
        "counts": [[_mean(column) for column in zip(*(row.counts for row in group), strict=True)] for group in groups],
    }


def taking_part(folder: Path, clients: object) -> dict[str, Any] | None:
    """Return updates and staleness of each of so many clients; None where a run has not kept them."""
    readers = {stored.PARTICIPATION: stored.read_participation, "log.jsonl": stored.from_log}
    path = next((folder / name for name in readers if (folder / name).is_file()), None)
    if path is None:
        return None
    with reading(path):
        parts = readers[path.name](path)
        by_client = {part.client: part for part in parts}
        n = max(clients if isinstance(clients, int) else 0, max(by_client, default=-1) + 1)
        if n > MOST:
            raise ValueError(f"a report has room for {MOST:,} clients, got {n:,}")
    everybody = [by_client.get(i, stored.Contribution(i, 0)) for i in range(n)]
    counts, measured = [part.updates for part in everybody], [part for part in parts if part.measured]
    groups = _groups(everybody, MOST_CLIENTS)
    stale = any(part.staleness_max > 0 for part in measured)
    total = sum(part.measured for part in measured)
    return {
        "clients": n,
        "active": len(parts),
        "total": sum(counts),
        "updates": [min(counts, default=0), median(counts) if counts else 0, max(counts, default=0)],
        "measured": total,
        "staleness": [
            round(sum(part.staleness_mean * part.measured for part in measured) / total, 3),
            max(part.staleness_max for part in measured),
        ]
        if stale
        else None,
        "first": [group[0].client for group in groups],
        "by_client": [_mean([part.updates for part in group]) for group in groups],
        "mean": [_mean([part.staleness_mean for part in group if part.measured]) for group in groups] if stale else [],
        "most": [max((part.staleness_max for part in group if part.measured), default=None) for group in groups]
        if stale
        else [],
    }


def _groups(rows: Sequence[T], most: int) -> list[Sequence[T]]:
    size = max(1, -(-len(rows) // most))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return values[0] if len(values) == 1 else float(f"{fmean(values):.4g}")
