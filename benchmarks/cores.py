"""feddr alone on one core and on two, for models of several sizes.

Both are measured in one process, in short turns: the rate of a shared machine changes by a third within minutes, and a
ratio of two rates says something only if they were measured at about the same time. All turns have the same rounds,
with the same clients and steps. Other work on the machine slows some rounds of some turns down, others in others: what
counts is the shortest time that each round has taken.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers.measure import memory
from runners import alone
from workloads import LARGE, LR, SEED, SMALL, Workload, flops

import feddr
from feddr.engines.shared.randomness import sampling_rng
from feddr.engines.shared.state import Progress

EVERYONE = dataclasses.replace(SMALL, name="everyone", sampled=SMALL.clients)
HUGE = Workload("huge", (784, 512, 512, 62), clients=20, sampled=8, epochs=1, sizes=(50, 150))
MODELS = (SMALL, EVERYONE, LARGE, HUGE)
ROUNDS = {SMALL.name: 30, EVERYONE.name: 10, LARGE.name: 10, HUGE.name: 10}
"""Rounds of a turn, which takes about a second."""
WARMUP = 2
"""Rounds at the start of a turn that are not counted."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """FedAvg on each model, one thread on one core and two threads on two, in turns, each model in its own process."""
    records = []
    for workload in MODELS:
        found = alone(__file__, workload.name, "2" if quick else "40")
        records.append({"workload": workload.name, **found})
        shown = found.get("error")
        if shown is None:
            shown = ", ".join(f"{found['fastest'][cores]:,.0f} steps/s on {cores}" for cores in ("one", "two"))
        print(f"  {workload.name:8} {shown}", flush=True)
    return records


def table(records: Sequence[dict[str, Any]], peaks: dict[int, float]) -> list[str]:
    """Return the lines of the table over models, with the share of the peak GFLOP/s."""
    head = [
        "network, clients in a round",
        "steps/s on one core",
        "on two",
        "two over one: fastest rounds; quartiles of turns",
        "balance allows",
        "GFLOP/s on one, two",
        "of peak",
        "peak memory, MB",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for r in records:
        workload = next(workload for workload in MODELS if workload.name == r["workload"])
        name = f"{'x'.join(map(str, workload.layers))}, {workload.sampled} of {workload.clients}"
        if "error" in r:
            lines.append(f"| {name} | {r['error']} |" + " |" * (len(head) - 2))
            continue
        pairs = [two / one for one, two in zip(r["one"], r["two"], strict=True)]
        spread = ", ".join(f"{value:.2f}" for value in statistics.quantiles(pairs, n=4, method="inclusive"))
        rates = [r["fastest"][cores] for cores in ("one", "two")]
        gflops = [rate * flops(workload.layers, workload.batch_size) / 1e9 for rate in rates]
        share = ", ".join(f"{100 * speed / peaks[n]:.0f}%" for n, speed in enumerate(gflops, 1) if n in peaks)
        cells = [name, *(f"{rate:,.0f}" for rate in rates), f"{rates[1] / rates[0]:.2f}; {spread}"]
        cells += [f"{r['balance']:.2f}", ", ".join(f"{speed:.1f}" for speed in gflops), share]
        lines.append("| " + " | ".join([*cells, f"{r['peak_memory_mb']:.0f}"]) + " |")
    return lines


def _turns(workload: Workload, pairs: int) -> dict[str, Any]:
    """Return the rates, in steps a second, of turns on one core and on two."""
    problem = feddr.Problem.classification(feddr.models.mlp(workload.layers), workload.data(), weights="samples")
    cores = sorted(os.sched_getaffinity(0))
    _turn(problem, workload, cores[:2], 10)  # XLA compiles, and makes threads for the cores that it sees
    peak = memory("VmHWM")  # of one run: the threads of many leave freed memory behind
    rounds = ROUNDS[workload.name]
    found: dict[str, list[float]] = {"one": [], "two": []}
    shortest = {name: np.full(rounds - WARMUP, np.inf) for name in found}
    for _ in range(pairs):
        for number, name in enumerate(found, 1):
            seconds, steps = _turn(problem, workload, cores[:number], rounds)
            found[name].append(steps / float(np.sum(seconds)))
            np.minimum(shortest[name], seconds, out=shortest[name])
    fastest = {name: steps / float(np.sum(seconds)) for name, seconds in shortest.items()}
    allowed = balance(workload, problem.data.sizes, rounds)
    return {"rounds": rounds, **found, "fastest": fastest, "balance": allowed, "peak_memory_mb": peak}


def _turn(
    problem: feddr.Problem, workload: Workload, cores: Sequence[int], rounds: int
) -> tuple[NDArray[np.float64], int]:
    """Run with a thread for each of some cores, and return the seconds of each round but the first ones, and steps."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), cores)
    ends: list[tuple[float, int]] = []

    def after_round(progress: Progress) -> None:
        ends.append((time.perf_counter(), progress.state.local_steps))

    feddr.simulate(
        problem,
        feddr.FedAvg(),
        local=feddr.local.SGD(lr=LR, epochs=workload.epochs, batch_size=workload.batch_size),
        sampling=feddr.sampling.Uniform(workload.sampled),
        rounds=rounds,
        seed=SEED,
        threads=len(cores),
        callback=after_round,
    )
    times, steps = zip(*ends[WARMUP:], strict=True)  # the first entry is the start
    return np.diff(times), steps[-1] - steps[0]


def balance(workload: Workload, sizes: Sequence[int], rounds: int) -> float:
    """Return the largest speed-up that the sizes of the clients allow, longest first, a round waiting for its last."""
    sampling, alone, together = feddr.sampling.Uniform(workload.sampled), 0, 0
    for k in range(WARMUP + 1, rounds + 1):
        load = [0, 0]
        for size in sorted(np.asarray(sizes)[sampling.draw(workload.clients, sampling_rng(SEED, k))], reverse=True):
            load[load.index(min(load))] += int(size)
        alone, together = alone + sum(load), together + max(load)
    return alone / together


if __name__ == "__main__":
    chosen = next(workload for workload in MODELS if workload.name == sys.argv[1])
    print(json.dumps(_turns(chosen, int(sys.argv[2]))))
