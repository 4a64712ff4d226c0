"""A small experiment, and executors that need no JAX."""

import tomllib
from collections.abc import Iterator
from typing import Any

from feddr.tune import Executor, RunRecord, RunSpec
from feddr.tune.jobs import record
from tests.small_experiments import FEDAVG, FEDPD, toml

PLAIN = 'name = "FedDR"\neta = 1.0'
TOML, TWO, THREE = toml(PLAIN), toml(PLAIN, FEDPD), toml(PLAIN, FEDPD, FEDAVG)


def raw(text: str = TOML) -> dict[str, Any]:
    return tomllib.loads(text)


def bowl(job: RunSpec) -> float:
    """A made-up metric: best at eta = 10, and a little different for each seed."""
    return (float(job.settings.get("algorithm.eta", 1.0)) - 10.0) ** 2 + 0.5 * job.seed


def made_up(*, most: int | None = None, seen: list[tuple[str, int, int]] | None = None) -> Executor:
    """Return an executor that computes ``bowl``, and is interrupted after ``most`` jobs."""

    def executor(jobs: Iterator[RunSpec]) -> Iterator[RunRecord]:
        for count, job in enumerate(jobs):
            if count == most:
                raise KeyboardInterrupt
            if seen is not None:
                seen.append(job.key)
            yield record(job, "finished", value=bowl(job), round=3, rounds=3, local_steps=30, seconds=0.1)

    return executor
