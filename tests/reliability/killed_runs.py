"""Kills runs at random moments, takes them up again, and compares what comes of them with runs that were let be.

``python -m tests.reliability.killed_runs FOLDER KILLS SEED`` prints what it has seen as JSON. Every run is a process of
its own, forked from one that has imported everything and started nothing, so that a kill costs no more than a start.
"""

import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feddr
from feddr.checkpoint import Checkpoints
from feddr.engines import asynchronous, simulate
from feddr.storage.atomic import replace
from tests.checkpoint.small_runs import ROUGH, classes, digest, go

assert simulate is not None
assert asynchronous is not None  # what runs need is imported before they are forked

ENGINES = ("rounds", "clock")
LENGTH = 120


def play(engine: str, **more: Any) -> feddr.Result:
    """Do the run of an engine."""
    if engine == "clock":
        algorithm = feddr.AsyncFedDR(eta=1.0, alpha=1.2, buffer=2, init="joining")
        return go(classes(), algorithm, LENGTH, clock=feddr.Clock(ROUGH), concurrency=4, **more)
    rounds = {"sampling": feddr.sampling.Uniform(3), "clock": feddr.Clock(ROUGH, deadline=2.0)}
    return go(classes(), feddr.FedDR(eta=1.0, alpha=1.2), LENGTH, **rounds, **more)


def fork(engine: str, folder: Path, **more: Any) -> int:
    """Start a run that leaves its digest in a folder, and return the process."""
    process = os.fork()
    if process:
        return process
    try:
        replace(folder / "digest", digest(play(engine, **more)).encode())
    except BaseException as error:
        os.write(2, f"{engine}: {type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def ended(process: int, seconds: float, enough: Callable[[], bool] = lambda: False) -> int | None:
    """Wait for a process, for a time at most or until it is enough, and return its exit code."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not enough():
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def newest(kept: Checkpoints) -> list[int]:
    """Return the round of the newest checkpoint, if there is one."""
    try:
        return kept.numbers()[:1]
    except FileNotFoundError:  # the run has ended, and removed them while we looked
        return []


class Chain:
    """One run after the other of an engine, each killed and taken up again until it ends."""

    def __init__(self, engine: str, folder: Path, rng: random.Random) -> None:
        self.engine, self.folder, self.rng = engine, folder, rng
        self.expected, self.seconds = self._whole()
        self.runs = self.killed = self.survived = self.here = self.saving = self.early = 0
        self.rounds: list[int] = []

    def _whole(self) -> tuple[str, float]:
        place, begin = self.folder / f"{self.engine}-whole", time.monotonic()
        place.mkdir(parents=True)
        assert ended(fork(self.engine, place, checkpoint=feddr.Checkpoint(place / "kept", every=1)), 3000) == 0
        return (place / "digest").read_text(), time.monotonic() - begin

    def go_on(self, seconds: float, saved: bool = False) -> bool:
        """Let the run continue for so long at most, from its next save if wanted, and return whether it has ended."""
        place = self.folder / f"{self.engine}-{self.runs}"
        place.mkdir(exist_ok=True)
        more = {"threads": self.rng.choice([1, 2, 3]), "client_memory": self.rng.choice([0, 300, 2**30])}
        kept = Checkpoints(place / "kept")
        before = newest(kept)
        process = fork(self.engine, place, checkpoint=feddr.Checkpoint(place / "kept", every=1, resume=True), **more)
        code = ended(process, 3000, lambda: newest(kept) != before) if saved else None
        code = ended(process, seconds) if code is None else code
        if code is None:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            rounds = newest(kept)
            self.here += 1
            self.early += not rounds
            self.saving += any((place / "kept").glob(".*.part"))
            self.rounds += rounds
            return False
        same = code == 0 and (place / "digest").read_text() == self.expected
        self.killed, self.survived = self.killed + self.here, self.survived + (self.here if same else 0)
        self.runs, self.here = self.runs + 1, 0
        return True


def main(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill, resume, compare, and return the counts."""
    rng = random.Random(seed)
    chains = [Chain(engine, folder, rng) for engine in ENGINES]
    for saved in itertools.cycle([True, False]):  # on a busy machine, time alone would kill all of them at the start
        if sum(chain.killed + chain.here for chain in chains) >= kills:
            break
        for chain in chains:
            chain.go_on(rng.uniform(0, chain.seconds), saved)
    for chain in chains:
        assert not chain.here or chain.go_on(3000)
    return {
        "kills": sum(chain.killed for chain in chains),
        "survived": sum(chain.survived for chain in chains),
        "while_saving": sum(chain.saving for chain in chains),
        "before_the_first": sum(chain.early for chain in chains),
        "runs": sum(chain.runs for chain in chains),
        "at": [k for chain in chains for k in chain.rounds],
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
