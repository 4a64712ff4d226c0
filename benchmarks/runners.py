"""Starts a runner of ``peers/`` in its environment and reads the line of JSON that it prints."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments

PEERS = Path(__file__).parent / "peers"
LIMIT = 240.0
"""Seconds after which a runner is given up."""

Result = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """A peer in one configuration; one that is not ``quick`` is left out of quick runs, and run once in others."""

    name: str
    environment: str
    script: str
    arguments: tuple[str, ...] = ()
    algorithm: str = "FedAvg"
    processes: int = 1
    quick: bool = True

    def command(self, stem: Path) -> list[str]:
        folder = environments.bin_folder(self.environment)
        start = [str(folder / "python")]
        if self.processes > 1:
            start = [str(folder / "torchrun"), "--standalone", "--nproc-per-node", str(self.processes)]
        return [*start, str(PEERS / self.script), str(stem), repr(time.time()), *self.arguments]


def run(runner: Runner, stem: Path, env: dict[str, str] | None = None) -> Result:
    """Run and return what it measured, or ``{"error": ...}``; never longer than LIMIT."""
    command, load = runner.command(stem), os.getloadavg()[0]
    variables = {**os.environ, **(env or {}), "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {LIMIT:.0f} s", "load": load}
    finally:  # also when the benchmark is interrupted; a runner may have started processes of its own
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            return {**json.loads(line), "load": load}
    tail = (err.strip() or out.strip()).splitlines()[-1:] or ["no output"]
    return {"error": f"exit code {process.returncode}: {tail[0]}", "load": load}


def alone(script: str, *arguments: str, environment: str = "feddr") -> Result:
    """Run a part of this benchmark in a process of its own, and return the line of JSON that it prints last."""
    command = [str(environments.bin_folder(environment) / "python"), script, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {LIMIT:.0f} s"}
    if done.returncode == 0:
        found: Result = json.loads(done.stdout.splitlines()[-1])
        return found
    return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}


FEDDR = Runner("feddr FedAvg", "feddr", "run_feddr.py")
RUNNERS = (
    FEDDR,
    Runner("feddr FedDR", "feddr", "run_feddr.py", algorithm="FedDR"),
    Runner("FedJAX", "fedjax", "run_fedjax.py"),
    Runner("FedJAX, pmap", "fedjax", "run_fedjax.py", ("--pmap",), quick=False),
    Runner("pfl-research", "pfl", "run_pfl.py"),
    Runner("pfl-research, 2 processes", "pfl", "run_pfl.py", processes=2, quick=False),
    Runner("Flower", "flower", "run_flower.py"),
    Runner("PyTorch loop", "torch", "run_torch.py"),
    Runner("PyTorch loop, 2 processes", "torch", "run_torch.py", ("--processes",), quick=False),
)
