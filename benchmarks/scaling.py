"""feddr alone: in the number of clients, in threads and in the size of the model."""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners import FEDDR, run
from workloads import LARGE, SMALL, Workload, flops

HUGE = Workload("huge", (784, 512, 512, 62), clients=20, sampled=8, epochs=1, sizes=(50, 150))
EVERYONE = dataclasses.replace(SMALL, name="everyone", sampled=SMALL.clients)
MODELS = (SMALL, EVERYONE, LARGE, HUGE)
SEEN = 500


def clients(quick: bool) -> list[dict[str, Any]]:
    """FedDR on 10^2 to 10^6 clients, 3 samples each made on demand, 100 in a round, each size in its own process."""
    records = []
    for power in (2, 3, 6) if quick else (2, 3, 4, 5, 6):
        command = [sys.executable, __file__, str(10**power), "20" if quick else "100"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        found = done.stdout.splitlines()[-1:] if done.returncode == 0 else []
        tail = (done.stderr.strip().splitlines() or ["no output"])[-1]
        records.append(json.loads(found[0]) if found else {"clients": 10**power, "error": tail})
        print(f"  clients {records[-1]}", flush=True)
    return records


def models(quick: bool) -> list[dict[str, Any]]:
    """FedAvg on each model with one thread on one core and two threads on two, in turns.

    The process is bound to its cores, and has compiled code of its own: XLA divides operations among the cores that it
    sees when it compiles them, and JAX would let one process use what the other has compiled.
    """
    records, cores = [], sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        for workload in MODELS:
            stem = workload.write(Path(name))
            common = json.loads(stem.with_suffix(".json").read_text())
            for repetition in range(1 if quick else 5):
                for threads in (1, 2):
                    settings = {
                        "threads": threads,
                        "warmup": 2,
                        "seconds": 1.5 if quick else 5.0,
                        "algorithm": "FedAvg",
                    }
                    stem.with_suffix(".json").write_text(json.dumps(common | settings))
                    os.sched_setaffinity(0, cores[:threads])
                    try:
                        found = run(FEDDR, stem, {"FEDDR_COMPILATION_CACHE": f"{name}/cache-{threads}"})
                    finally:
                        os.sched_setaffinity(0, cores)
                    record = {"workload": workload.name, "repetition": repetition, "threads": threads, **found}
                    records.append(record | {"balance": balance(stem, threads)})
                    shown = f"{found['steps_per_second']:,.0f} steps/s" if "error" not in found else found["error"]
                    print(f"  {workload.name:8} {threads} thread(s) {shown}", flush=True)
    return records


def balance(stem: Path, threads: int) -> float:
    """Return the largest speed-up that the sizes of the clients allow, longest first, a round waiting for its last."""
    import numpy as np

    arrays = np.load(stem.with_suffix(".npz"))
    sizes, alone, together = np.diff(arrays["offsets"]), 0, 0
    for cohort in arrays["cohorts"]:
        load = [0] * threads
        for size in sorted(sizes[cohort], reverse=True):
            load[load.index(min(load))] += int(size)
        alone, together = alone + sum(load), together + max(load)
    return alone / together


def client_table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of the table over the number of clients, with ratios to a thousand of them."""
    lines = [
        "| clients | a round, ms: median, fastest | to 1,000 clients | clients seen | resident then, MB | to 1,000 |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    base = next((r for r in records if r["clients"] == 1000 and "error" not in r), None)
    for r in records:
        if "error" in r:
            lines.append(f"| {r['clients']:,} | {r['error']} | | | | |")
            continue
        time_ratio = f"{r['round_seconds'] / base['round_seconds']:.2f}" if base else ""
        memory_ratio = f"{r['memory_mb'] / base['memory_mb']:.2f}" if base else ""
        lines.append(
            f"| {r['clients']:,} | {1000 * r['round_seconds']:.1f}, {1000 * r['fastest_round_seconds']:.1f} | "
            f"{time_ratio} | {r['seen']:,} | {r['memory_mb']:.0f} | {memory_ratio} |"
        )
    return lines


def model_table(records: Sequence[dict[str, Any]], peaks: dict[int, float]) -> list[str]:
    """Return the lines of the table over models and threads, with the share of the peak GFLOP/s."""
    head = [
        "network, clients in a round",
        "cores",
        "steps/s",
        "two over one",
        "balance allows",
        "GFLOP/s",
        "of peak",
        "peak memory, MB",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for workload in MODELS:
        for threads in (1, 2):
            mine = [r for r in records if r["workload"] == workload.name and "error" not in r]
            these = [r for r in mine if r["threads"] == threads]
            if not these:
                continue
            rate = statistics.median(r["steps_per_second"] for r in these)
            gflops = rate * flops(workload.layers, workload.batch_size) / 1e9
            one = {r["repetition"]: r["steps_per_second"] for r in mine if r["threads"] == 1}
            pairs = [r["steps_per_second"] / one[r["repetition"]] for r in these if r["repetition"] in one]
            gain = (
                [f"{statistics.median(pairs):.2f}", f"{these[0]['balance']:.2f}"]
                if threads == 2 and pairs
                else ["", ""]
            )
            share = f"{100 * gflops / peaks[threads]:.0f}%" if threads in peaks else ""
            name = f"{'x'.join(map(str, workload.layers))}, {workload.sampled} of {workload.clients}"
            memory = max(r["peak_memory_mb"] for r in these)
            cells = [name, str(threads), f"{rate:,.0f}", *gain, f"{gflops:.1f}", share, f"{memory:.0f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _point(num_clients: int, rounds: int) -> dict[str, Any]:
    import numpy as np
    from peers.measure import memory

    import feddr
    from feddr.engines.rounds import Progress

    samples, features, classes, sampled = 3, 10, 4, 100

    def make(client: int) -> feddr.data.Samples:
        rng = np.random.default_rng(client)
        x = rng.standard_normal((samples, features), dtype=np.float32)
        return {"x": x, "y": rng.integers(0, classes, samples, dtype=np.int32)}

    data = feddr.FederatedData.generated(make, np.full(num_clients, samples), panel=100)
    ends: list[float] = []
    seen: tuple[int, float] = 0, 0.0

    def after_round(progress: Progress) -> None:
        nonlocal seen
        ends.append(time.perf_counter())
        if seen[0] < SEEN:  # memory is compared when about equally many clients have a state
            seen = len(progress.state.clients), memory("VmRSS")

    feddr.simulate(
        feddr.Problem.classification(feddr.models.mlp([features, 16, classes]), data),
        feddr.FedDR(eta=1.0, alpha=1.0),
        local=feddr.local.SGD(lr=0.01, epochs=1, batch_size=10),
        sampling=feddr.sampling.Uniform(sampled),
        rounds=rounds,
        evaluate_every=rounds,
        callback=after_round,
        threads=2,
    )
    # The start and the end are evaluated and left out.
    times = np.diff(ends)[2:-1]
    return {
        "clients": num_clients,
        "round_seconds": float(np.median(times)),
        "fastest_round_seconds": float(np.min(times)),
        "seen": seen[0],
        "memory_mb": seen[1],
    }


if __name__ == "__main__":
    print(json.dumps(_point(int(sys.argv[1]), int(sys.argv[2]))))
