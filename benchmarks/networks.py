"""Networks that people train, beside the same network in PyTorch: steps a second on one core and on all of them.

On one core both sides are measured in processor time, which other work on the machine hardly changes; on several, by
the clock. Sides take turns, and the best of each counts. Both compute FedAvg's local work on the same number of clients
and samples; feddr aggregates and keeps its books as always, and evaluates at the end.
"""

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners import Runner, run

MINIMUM = {"cnn": 2.0, "lstm": 1.5, "transformer": 1.5}
"""What feddr aims at: its steps on one core over those of the PyTorch loop."""

FROM_TORCH = {"cnn": 1.5, "60x32x10": 8.0}
"""What a PyTorch module in the simulator aims at, over itself in PyTorch."""

OF_PEAK, TWO_OVER_ONE = {"784x512x512x62": 0.4}, {"cnn": 1.7}
NAMES = ("60x32x10", "784x512x512x62", "cnn", "lstm", "transformer")
FEDDR = Runner("feddr", "feddr", "network_feddr.py")
MODULE = Runner("from_torch", "torchax", "network_feddr.py")
LOOP = Runner("PyTorch loop", "torch", "network_torch.py")
SIDES = (FEDDR, MODULE, LOOP)


def measure(quick: bool) -> list[dict[str, Any]]:
    """Return one record for each run of each side; those of feddr on one core tell of evaluation and compilation."""
    cores, records = os.cpu_count() or 1, []
    with tempfile.TemporaryDirectory() as folder:
        kept = {"FEDDR_COMPILATION_CACHE": folder}
        for _ in range(1 if quick else 3):
            for name in NAMES:
                for side in SIDES:
                    if side is MODULE and name not in FROM_TORCH:
                        continue
                    for count in (1, cores) if cores > 1 and side is not MODULE else (1,):
                        runner = dataclasses.replace(side, arguments=(side.name, str(count), "2" if quick else "5"))
                        found = run(runner, Path(name), kept)
                        rate = found.get("steps_per_second")
                        shown = f"{rate:,.1f} steps a second" if rate else found["error"]
                        print(f"  {name:15} {side.name:13} {count} core(s)  {shown}", flush=True)
                        records.append({"network": name, "side": side.name, "cores": count, **found})
    return records


def table(records: Sequence[dict[str, Any]], peaks: dict[int, float]) -> list[str]:
    """Return the lines of the table over networks."""
    head = [
        "network",
        "feddr, steps/s on one core",
        "PyTorch loop",
        "ratio",
        "`from_torch`, over PyTorch",
        "all cores: feddr, PyTorch processes",
        "feddr, all over one",
        "GFLOP/s on one",
        "of peak",
        "first round, s: cold, warm",
        "evaluation over 10 rounds of work",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    cores = max((r["cores"] for r in records), default=1)
    for name in dict.fromkeys(r["network"] for r in records):
        good = [r for r in records if r["network"] == name and "error" not in r]

        def best(side: Runner, count: int, good: list[dict[str, Any]] = good) -> float | None:
            rates = [r["steps_per_second"] for r in good if (r["side"], r["cores"]) == (side.name, count)]
            return max(rates, default=None)

        ours, theirs, module = best(FEDDR, 1), best(LOOP, 1), best(MODULE, 1)
        all_ours, all_theirs = best(FEDDR, cores), best(LOOP, cores)
        first = [r for r in good if r["side"] == FEDDR.name]
        gflops = ours and first and ours * first[0]["flops"] / 1e9
        warm = [r["first_round"] for r in first[1:]]
        evaluation = min((r["evaluation_over_work"] for r in first if r["cores"] == 1), default=None)
        cells = [
            name,
            _number(ours),
            _number(theirs),
            _ratio(ours, theirs, MINIMUM.get(name)),
            _ratio(module, theirs, FROM_TORCH.get(name)),
            f"{_number(all_ours)}, {_number(all_theirs)}",
            _ratio(all_ours, ours, TWO_OVER_ONE.get(name)),
            _number(gflops or None),
            _ratio(gflops or None, peaks.get(1), OF_PEAK.get(name)),
            ", ".join(
                f"{value:.1f}" for value in [r["first_round"] for r in first[:1]] + ([min(warm)] if warm else [])
            ),
            _number(evaluation),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    failures = dict.fromkeys(f"- {r['network']}, {r['side']}: {r['error']}" for r in records if "error" in r)
    return [*lines, *([""] if failures else []), *failures]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.1f}"


def _ratio(value: float | None, base: float | None, least: float | None) -> str:
    if value is None or base is None:
        return ""
    verdict = "" if least is None else f" ({'at least' if value >= least * base else '**below**'} {least:g})"
    return f"{value / base:.2f}{verdict}"
