"""What every runner shares: the workload from its two files, and a clock. NumPy and the standard library alone."""

import itertools
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Work:
    """A workload; client i owns the rows ``offsets[i]`` to ``offsets[i + 1]``, and takes part where ``cohorts`` say."""

    name: str
    layers: list[int]
    epochs: int
    batch_size: int
    lr: float
    threads: int
    warmup: int
    seconds: float
    algorithm: str
    x: Array
    y: Array
    offsets: Array
    cohorts: Array
    init: list[tuple[Array, Array]]

    @property
    def num_clients(self) -> int:
        return len(self.offsets) - 1

    def client(self, i: int) -> tuple[Array, Array]:
        rows = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return self.x[rows], self.y[rows]

    def steps(self, i: int) -> int:
        """Local SGD steps of client i; sizes are whole batches, so that everybody counts alike."""
        return self.epochs * int(self.offsets[i + 1] - self.offsets[i]) // self.batch_size

    def cohort(self, k: int) -> list[int]:
        """The clients of round k = 0, 1, ..."""
        return [int(i) for i in self.cohorts[k % len(self.cohorts)]]

    def loss(self, weights: list[tuple[Array, Array]]) -> float:
        """Mean cross-entropy over all samples, to see that everybody trains the same network on the same data."""
        scores = self.x
        for layer, (weight, bias) in enumerate(weights):
            scores = scores @ np.asarray(weight) + np.asarray(bias)
            if layer < len(weights) - 1:
                scores = np.maximum(scores, 0)
        top = scores.max(axis=1)
        log_sum = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return float(np.mean(log_sum - scores[np.arange(len(self.y)), self.y]))


def load(stem: str) -> Work:
    """Read ``stem.json`` and ``stem.npz``."""
    settings = json.loads(Path(stem + ".json").read_text())
    arrays = dict(np.load(stem + ".npz"))
    pairs = itertools.pairwise(settings["layers"])
    init = [(arrays.pop(f"weight{i}"), arrays.pop(f"bias{i}")) for i, _ in enumerate(pairs)]
    return Work(**settings, **arrays, init=init)


class Clock:
    """Times rounds: the first is kept apart, the next ``warmup - 1`` are left out, then it runs for ``seconds``."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.launched = float(sys.argv[2])
        self.first_round = float("nan")
        self.loss: float | None = None
        self.rounds: list[tuple[float, int, int]] = []
        self.done = 0
        self.last = self.begin = 0.0

    def tick(self, steps: int, clients: int) -> bool:
        """Note the end of a round and return whether it is time to stop."""
        now = time.perf_counter()
        self.done += 1
        if self.done == 1:
            self.first_round = time.time() - self.launched
        if self.done > self.work.warmup:
            self.rounds.append((now - self.last, steps, clients))
        elif self.done == self.work.warmup:
            self.begin = now
        self.last = now
        return len(self.rounds) >= 2 and now - self.begin > self.work.seconds

    def resume(self) -> None:
        """Leave out what has happened since the last round ended."""
        self.last = time.perf_counter()

    def report(self, setup: str, versions: dict[str, str]) -> None:
        """Print one line of JSON."""
        seconds, steps, clients = (sum(column) for column in zip(*self.rounds, strict=True))
        line = {
            "setup": setup,
            "versions": versions,
            "first_round": self.first_round,
            "loss_after_first_round": self.loss,
            "rounds": len(self.rounds),
            "seconds": seconds,
            "steps_per_second": steps / seconds,
            "clients_per_second": clients / seconds,
            "round_seconds": statistics.median(seconds for seconds, _, _ in self.rounds),
            "memory_mb": memory("VmRSS"),
            "peak_memory_mb": memory("VmHWM"),
        }
        print(json.dumps(line), flush=True)


def memory(field: str) -> float:
    """Return VmRSS (resident now) or VmHWM (its peak) of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
