"""Submits an experiment to the SuperLink of this machine, and follows it by the log that its server app writes."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddr.deploy import bundle
from feddr.deploy.environment import environment, program
from feddr.deploy.experiment import TableExperiment
from feddr.deploy.server import CONNECTION

LOOK = 0.5
"""Seconds between looks at the log."""

ASK = 20.0
"""Seconds between questions to the SuperLink, which are for a server app that was killed and could log nothing."""

SUBMIT = 120.0
"""Seconds that ``flwr run`` may take."""


class RunFailure(RuntimeError):  # noqa: N818  it says what became of the run
    """A deployed run has ended without its last round.

    Examples
    --------
    >>> raise RunFailure("No update was accepted for 600 s.")
    Traceback (most recent call last):
    feddr.deploy.run.RunFailure: No update was accepted for 600 s.
    """


@dataclass(frozen=True)
class SubmittedRun:
    """A run that was submitted.

    Parameters
    ----------
    number
        Flower's number of the run.
    folder
        The folder of the run, on this machine.
    begin
        Where its part of the log begins, since a run that resumes goes on in the same one.
    state
        The folder of the SuperLink.
    """

    number: int
    folder: Path
    begin: int
    state: Path

    def events(self, clock: Callable[[], float] = time.monotonic) -> Iterator[dict[str, Any]]:
        """Yield what the log says, to the end of the run.

        Raises
        ------
        RunFailure
            Where the run has failed, or its server app is gone.
        """
        path, offset, asked = self.folder / "log.jsonl", self.begin, clock()
        while True:
            text = _new(path, offset)
            offset += len(text)
            for line in text.splitlines():
                event = json.loads(line)
                yield event
                if event["event"] == "failed":
                    raise RunFailure(str(event["reason"]))
                if event["event"] == "end":
                    return
            if not text and clock() - asked > ASK:
                asked = clock()
                status = self._status()
                if status.startswith("finished") and not _new(path, offset):
                    raise RunFailure(
                        f"The run {self.number} is {status}, and its log has no end; flwr log {self.number} feddr says "
                        "more."
                    )
            time.sleep(LOOK)

    def _status(self) -> str:
        """Return what the SuperLink says of the run; nothing where it does not answer."""
        command = [program("flwr"), "list", "--run-id", str(self.number), CONNECTION, "--format", "json"]
        done = _flwr(command, self.state)
        status = re.search(r'"status": "([^"]*)"', done.stdout)
        return "" if status is None else status[1]


def submit(config: Path, state: Path) -> SubmittedRun:
    """Submit the experiment of a file, and return as soon as the SuperLink has accepted it.

    Parameters
    ----------
    state
        The folder of ``feddr deploy server`` on this machine.

    Raises
    ------
    ValueError
        Where the experiment cannot be run, there is no such server, or it does not accept the run.
    """
    experiment = TableExperiment.read(config)
    if not (state / "flwr" / "config.toml").is_file():
        raise ValueError(
            f"A run is submitted where its server runs, {state} is not the state of one; start it with "
            f"feddr deploy server --state {state}."
        )
    folder = state / "server" / experiment.settings.name
    log = folder / "log.jsonl"
    begin = log.stat().st_size if log.exists() else 0
    with tempfile.TemporaryDirectory(prefix="feddr-") as temporary:
        app = Path(temporary) / "feddr-experiment"
        bundle.write(app, config.read_bytes())
        done = _flwr([program("flwr"), "run", str(app), CONNECTION, "--format", "json"], state)
    number = re.search(r'"run-id": "?(\d+)', done.stdout)
    if number is None:
        said = " ".join((done.stdout + done.stderr).split())[-400:]
        raise ValueError(f"The server at {state} has not accepted the run: {said}")
    return SubmittedRun(int(number[1]), folder, begin, state)


def _flwr(command: list[str], state: Path) -> "subprocess.CompletedProcess[str]":
    """Run Flower's command line with the server's settings."""
    surroundings = environment(state.resolve() / "flwr")
    try:
        return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=SUBMIT, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {SUBMIT:.0f} s")


def _new(path: Path, offset: int) -> str:
    """Return the whole lines of a log from an offset on; it is in ASCII, so that characters are bytes."""
    if not path.exists():
        return ""
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read()
    return data[: data.rfind(b"\n") + 1].decode("ascii")
