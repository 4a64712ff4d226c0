"""feddr beside its peers: every runner on every workload, in turns, so that other load hits all alike."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners import FEDDR, RUNNERS, Runner, run
from workloads import WORKLOADS, Workload

THREADS = 2
RATE = {"small": "steps_per_second", "large": "steps_per_second", "tiny": "clients_per_second"}

# What feddr aims at: feddr FedAvg over the peer.
TARGETS = {
    "FedJAX": {"small": 5.0},
    "pfl-research": {"small": 30.0, "large": 7.0},
    "PyTorch loop": {"small": 30.0, "large": 7.0},
    "Flower": {"small": 20.0, "tiny": 50.0},
}


def measure(quick: bool, runners: Sequence[Runner], workloads: Sequence[Workload]) -> list[dict[str, Any]]:
    """Return one record for each run."""
    repetitions, seconds, warmup = (1, 1.5, 2) if quick else (3, 5.0, 2)
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name), {"FEDDR_COMPILATION_CACHE": str(Path(name) / "cache")}
        for workload in workloads:
            stem = workload.write(folder)
            for repetition in range(repetitions):
                for runner in runners if repetition == 0 else [runner for runner in runners if runner.quick]:
                    settings = json.loads(stem.with_suffix(".json").read_text())
                    settings |= {"threads": THREADS, "warmup": warmup, "seconds": seconds}
                    stem.with_suffix(".json").write_text(json.dumps(settings | {"algorithm": runner.algorithm}))
                    result = run(runner, stem, cache)
                    rate = result.get(RATE[workload.name])
                    shown = f"{rate:,.0f} a second" if rate else result["error"]
                    print(f"  {workload.name:6} {repetition + 1}/{repetitions} {runner.name:26} {shown}", flush=True)
                    records.append(
                        {"workload": workload.name, "runner": runner.name, "repetition": repetition, **result}
                    )
    return records


def chosen(only: str | None, quick: bool) -> tuple[list[Runner], list[Workload]]:
    """Return the runners and workloads that a quick run, or one ``only`` for a peer or a workload, is about."""
    runners = [runner for runner in RUNNERS if runner.quick or not quick]
    workloads = list(WORKLOADS)
    if only in {workload.name for workload in WORKLOADS}:
        return runners, [workload for workload in WORKLOADS if workload.name == only]
    if only in {runner.environment for runner in RUNNERS}:
        runners = [runner for runner in RUNNERS if runner is FEDDR or runner.environment == only]
    return runners, workloads


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of ratios."""
    names = list(dict.fromkeys(record["workload"] for record in records))
    unit = {"steps_per_second": "steps/s", "clients_per_second": "tasks/s"}
    head = [
        "",
        *(cell for name in names for cell in (f"{name}, {unit[RATE[name]]}", "feddr/peer")),
        "first round, s: first run, later",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for runner in dict.fromkeys(record["runner"] for record in records):
        cells = [runner]
        for name in names:
            rate = best(records, runner, name)
            cells += ["failed" if rate is None else f"{rate:,.0f}", ratio_cell(records, runner, name)]
        lines.append("| " + " | ".join([*cells, first_rounds(records, runner)]) + " |")
    return lines


def first_rounds(records: Sequence[dict[str, Any]], runner: str) -> str:
    """Return the time from launch to the end of the first round on the first workload, without and with caches."""
    first = [
        r["first_round"]
        for r in records
        if r["runner"] == runner and r["workload"] == records[0]["workload"] and "error" not in r
    ]
    return ", ".join(f"{value:.1f}" for value in (first[:1] + ([min(first[1:])] if len(first) > 1 else [])))


def best(records: Sequence[dict[str, Any]], runner: str, workload: str) -> float | None:
    """Return the best rate of the repetitions: what else runs on the machine can only slow a run down."""
    found = [r for r in records if (r["runner"], r["workload"]) == (runner, workload) and "error" not in r]
    return max((float(r[RATE[workload]]) for r in found), default=None)


def ratio_cell(records: Sequence[dict[str, Any]], runner: str, workload: str) -> str:
    ours, theirs = best(records, FEDDR.name, workload), best(records, runner, workload)
    if ours is None or theirs is None:
        return ""
    value = ours / theirs
    target = TARGETS.get(runner.split(",")[0], {}).get(workload)
    verdict = "" if target is None else f" ({'at least' if value >= target else '**below**'} {target:g})"
    return f"{value:.1f}{verdict}"
