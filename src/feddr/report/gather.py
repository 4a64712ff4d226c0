"""Gathers from the folders of runs what their report shows: plain values, small enough to embed."""

import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import feddr
from feddr.config.labels import entries, labels
from feddr.history import COLUMNS, read_rows
from feddr.metrics import better
from feddr.plots.styles import line_styles
from feddr.report import reading
from feddr.report.client_metrics import client_metrics
from feddr.report.clients import federation, taking_part
from feddr.report.formatting import words
from feddr.report.placement import placement
from feddr.report.program import program
from feddr.runs import stored
from feddr.runs.folder import CHECKPOINTS, CONFIG, PROGRESS
from feddr.storage import limits

HISTORY, SETTINGS, CERTIFICATE, LOG = "history.csv", "settings.json", "certificate.json", "log.jsonl"

HIDDEN = ("name", "algorithm", "rules", "cluster")
"""Settings of a single run that the page has elsewhere, or that mean nothing to a person."""

MOST_ROWS = 2000
"""Rows of a method that are drawn; of more, evenly spaced ones are, the first and the last among them."""

DIGITS = 7


def gather(runs: Sequence[Path]) -> dict[str, Any]:
    """Return what the page shows of some runs, for JSON.

    Parameters
    ----------
    runs
        Folders that ``feddr run``, ``feddr compare``, ``feddr deploy`` or ``Result.save`` have written, or are writing.

    Raises
    ------
    ValueError
        Where a folder is not that of a run, or one of its files cannot be read.
    """
    described = [_run(Path(run)) for run in runs]
    methods = [method for run in described for method in run["methods"]]
    for method, style in zip(methods, line_styles([method.pop("algorithm") for method in methods]), strict=True):
        method |= style._asdict()
    names = [run["name"] for run in described]
    for run in described:
        if names.count(run["name"]) > 1:
            run["name"] = run["path"]
    return {
        "title": ", ".join(dict.fromkeys(run["name"] for run in described)),
        "version": feddr.__version__,
        "written": datetime.now().astimezone().isoformat(timespec="seconds"),
        "runs": described,
    }


def sources(runs: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """Return the files that a page is made from, with their sizes and times: other files, another page."""
    patterns = (CONFIG, "*.csv", "*.json", LOG, "*/*.csv", "*/*.json")  # the files of checkpoints lie deeper
    paths = {path for run in runs for pattern in patterns for path in Path(run).glob(pattern)}
    stats = []
    for path in sorted(paths):
        try:
            stat = path.stat()
        except FileNotFoundError:  # it was removed between the two steps
            continue
        stats.append((str(path), stat.st_size, stat.st_mtime_ns))
    return tuple(stats)


def _run(folder: Path) -> dict[str, Any]:
    if (folder / CONFIG).is_file():
        return _experiment(folder)
    if (folder / HISTORY).is_file():
        return _experiment(folder.parent, folder.name) if (folder.parent / CONFIG).is_file() else _single(folder)
    what = "is not a folder" if not folder.is_dir() else f"has neither {CONFIG} nor {HISTORY}"
    raise ValueError(f"RUN must be the folder of a run, {folder} {what}; feddr run and feddr compare make one.")


def _experiment(folder: Path, only: str | None = None) -> dict[str, Any]:
    """Return what ``feddr run`` or ``feddr compare`` has left, of all methods or of one."""
    text = reading.text(folder / CONFIG)
    with reading.reading(folder / CONFIG):
        raw = tomllib.loads(text)
        known = labels(entries(raw))
    statuses = reading.table(folder / CHECKPOINTS / PROGRESS)
    unfinished = bool(statuses) or (folder / CHECKPOINTS).is_dir()
    methods = [
        _method(folder, label, entry, statuses.get(label), unfinished)
        for label, entry in zip(known, entries(raw), strict=True)
        if only in (None, label)
    ]
    verb = "compare" if len(known) > 1 or (folder / "comparison.csv").exists() else "run"
    commands = [_command(verb, folder / CONFIG)]
    if unfinished:
        commands.append(_command(verb, "--resume", folder))
    return {
        "name": str(raw.get("name", folder.name)),
        "path": str(folder),
        "config": text,
        "commands": commands,
        "settings": [[key, words(value)] for key, value in _flat(raw) if key != "algorithm"],
        "clients": _clients(folder),
        "methods": [method for method in methods if method is not None],
        "unfinished": unfinished,
    }


def _method(folder: Path, label: str, entry: Mapping[str, Any], note: Any, unfinished: bool) -> dict[str, Any] | None:
    live, method_folder = folder / CHECKPOINTS / f"{label}.csv", folder / label
    going_on = live.is_file() and not _newer(method_folder / HISTORY, live)
    history = live if going_on else method_folder / HISTORY
    if not history.is_file():
        return None
    note = note if isinstance(note, dict) else {}
    status = "unfinished" if going_on else str(note.get("status", "interrupted" if unfinished else "ended"))
    return {
        **_common(method_folder, history, label),
        "status": status,
        "reason": str(note.get("reason", "")),
        "algorithm": str(entry.get("name", label)),
        "entry": words(entry),
    }


def _single(folder: Path) -> dict[str, Any]:
    """Return what ``Result.save`` or a deployment has left."""
    method = _common(folder, folder / HISTORY, folder.name)
    settings = method["settings"]
    name = re.match(r"\w+", str(settings.get("algorithm", "")))
    label = name[0] if name else folder.name
    method |= {"label": label, "algorithm": label, "status": "ended", "reason": "", "entry": ""}
    deployed = (folder / LOG).is_file()
    if deployed and '"event": "end"' not in reading.text(folder / LOG)[-4096:]:
        method["status"] = "unfinished"
    return {
        "name": str(settings.get("name", folder.name)),
        "path": str(folder),
        "config": None,
        "commands": [] if deployed or not settings else [program(settings)],
        "settings": [[key, words(value)] for key, value in settings.items() if key not in HIDDEN],
        "clients": _clients(folder),
        "methods": [method],
        "unfinished": method["status"] == "unfinished",
    }


def _common(folder: Path, history: Path, label: str) -> dict[str, Any]:
    with reading.reading(history):
        rows = read_rows(history)
    settings = reading.table(folder / SETTINGS) or _started(folder / LOG)
    with reading.reading(folder / SETTINGS):
        placed = placement(settings.get("cluster"))
    return {
        "label": label,
        "rows": len(rows),
        "columns": _columns(rows),
        "metrics": _asked(rows),
        "settings": settings,
        "placement": placed,
        "certificate": reading.table(folder / CERTIFICATE) or None,
        "participation": taking_part(folder, settings.get("clients")),
        "client_metrics": client_metrics(folder),
    }


def _newer(path: Path, other: Path) -> bool:
    return path.is_file() and path.stat().st_mtime_ns >= other.stat().st_mtime_ns


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    """Return the columns in which something was measured, of as many rows as can be drawn."""
    step = max(1, -(-len(rows) // MOST_ROWS))
    chosen = [*rows[:-1:step], *rows[-1:]]
    columns = {name: [_number(row[name]) for row in chosen] for name in (rows[0] if rows else {})}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _asked(rows: Sequence[Mapping[str, float]]) -> dict[str, str | None]:
    """Return the further metrics of a run, and which end of each is the better one; those of clients are elsewhere."""
    names = [name for name in (rows[0] if rows else {}) if name not in COLUMNS and "_client_" not in name]
    return {name: better(name) for name in names}


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 2**53 else float(f"{value:.{DIGITS}g}")


def _flat(raw: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the settings, tables after what is simple, and the seed of the data beside those of the run."""
    simple = [(key, value) for key, value in raw.items() if not isinstance(value, dict | list)]
    tables = [(key, value) for key, value in raw.items() if isinstance(value, dict)]
    data = raw.get("data", {})
    seed = [("data.seed", data["seed"])] if isinstance(data, dict) and "seed" in data else []
    return [*simple, *seed, *tables]


def _command(verb: str, *arguments: str | Path) -> str:
    return shlex.join(["feddr", verb, *map(str, arguments)])


def _clients(folder: Path) -> dict[str, Any] | None:
    path = folder / stored.CLIENTS
    if not path.is_file():
        return None
    with reading.reading(path):
        return federation(path)


def _started(log: Path) -> dict[str, Any]:
    """Return the settings of a deployed run that has not ended, from the first line of its log."""
    if not log.is_file():
        return {}
    with reading.reading(log), open(log, "rb") as file:
        first = json.loads(file.readline(limits.CONFIG) or b"{}")
        if not isinstance(first, dict):
            raise ValueError("its first line is no JSON object")
    return {key: value for key, value in first.items() if key not in ("time", "event", "uid", "version")}
