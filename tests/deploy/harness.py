"""Real SuperLinks and SuperNodes on free loopback ports, started by ``feddr deploy`` and killed by their ids."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from feddr.deploy.address import free_port
from feddr.deploy.environment import environment
from tests.deploy import warm

BIN = Path(sys.executable).parent

PATIENCE = 5.0
"""Times are for an idle machine with two cores; one with other work to do takes much longer, and is no failure."""


class Federation:
    """A SuperLink and its nodes, each in a folder of its own under ``folder``.

    Parameters
    ----------
    certs
        What ``feddr deploy certs`` made; None for plain text on loopback.
    """

    def __init__(self, folder: Path, certs: Path | None = None) -> None:
        self.folder, self.certs, self.port = folder, certs, free_port()
        self.server: subprocess.Popen[bytes] | None = None
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.strangers: list[subprocess.Popen[bytes]] = []
        self.runs: list[int] = []
        self.bin = BIN
        self.warm: Path | None = None
        self.short: tempfile.TemporaryDirectory[str] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def state(self) -> Path:
        return self.folder / "server"

    def node_state(self, i: int) -> Path:
        return self.folder / f"node-{i}"

    def start_server(self, timeout: float = 40.0) -> None:
        """Start the SuperLink, and wait until it answers and has admitted the keys."""
        before = len(self.server_events("ready"))
        secure = [] if self.certs is None else ["--certs", str(self.certs / "server")]
        self.server = self._start(["server", "--port", str(self.port), "--state", str(self.state), *secure], "server")
        self.wait_ready(before + 1, timeout)

    def wait_ready(self, times: int, timeout: float = 40.0) -> None:
        wait_for(lambda: len(self.server_events("ready")) >= times, timeout, "the SuperLink is ready", self.explain)

    def start_node(self, i: int, *options: str) -> None:
        """Start a node and do not wait for it."""
        secure = [] if self.certs is None else ["--certs", str(self.certs / f"node-{i}")]
        where = ["--superlink", self.address, "--partition", str(i), "--state", str(self.node_state(i))]
        self.nodes[i] = self._start(["node", *where, *secure, *options], f"node-{i}")

    def start_nodes(self, nodes: Sequence[int], timeout: float = 60.0, sites: Path | None = None) -> None:
        """Start nodes together and wait until all have joined; ``sites`` has the file of each, ``site-0.toml``."""
        before = {i: len(self.node_events(i, "joined")) for i in nodes}
        for i in nodes:
            self.start_node(i, *([] if sites is None else ["--site", str(sites / f"site-{i}.toml")]))
        for i in nodes:
            self.wait_joined(i, before[i] + 1, timeout)
            if sites is not None and self.warm is not None:  # with a site's file the node has a program of its own
                warm.install(self.node_state(i) / "bin" / "flwr-clientapp", self.warm)

    def warm_apps(self, timeout: float = 60.0) -> None:
        """Let what is started from now on fork its app processes from one that is kept warm."""
        self.short = tempfile.TemporaryDirectory(prefix="feddr-")  # the path of a socket has 107 characters at most
        self.warm = Path(self.short.name) / "warm"
        alone = {"JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1"}  # a process with a second thread is not forked
        surroundings = {**environment(self.folder / "warm" / "flwr"), **alone}
        command = [sys.executable, "-P", str(Path(warm.__file__)), str(self.warm)]
        with open(self.folder / "warm.out", "ab") as output:
            self.strangers.append(subprocess.Popen(command, stdout=output, stderr=output, env=surroundings))
        wait_for(self.warm.exists, timeout, "app processes can be forked", self.explain)
        self.bin = warm.clone(self.folder / "warm" / "python", self.warm)

    def start_stranger(self, name: str, options: list[str]) -> None:
        """Start a supervised node that should not get in."""
        where = ["--superlink", self.address, "--partition", "1", "--state", str(self.folder / name)]
        self.strangers.append(self._start(["node", *where, *options], name))

    def stranger_events(self, name: str, event: str) -> list[dict[str, Any]]:
        return _events(self.folder / name / "events.jsonl", event)

    def wait_joined(self, i: int, times: int, timeout: float = 60.0) -> None:
        wait_for(lambda: len(self.node_events(i, "joined")) >= times, timeout, f"node {i} joins", self.explain)

    def submit(self, app: Path, **config: Any) -> int:
        """Submit a run by ``flwr run`` and return its number."""
        overrides = " ".join(f"{key.replace('__', '.').replace('_', '-')}={json.dumps(v)}" for key, v in config.items())
        command = [str(BIN / "flwr"), "run", str(app), "feddr", "--format", "json", "--run-config", overrides]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=150, check=False)
        found = re.search(r'"run-id": "(\d+)"', done.stdout)
        assert found is not None, f"flwr run: {done.stdout}{done.stderr}\n{self.explain()}"
        self.runs.append(int(found[1]))
        return self.runs[-1]

    def run_log(self, run: int) -> str:
        """Return what a run has printed."""
        command = [str(BIN / "flwr"), "log", str(run), "feddr", "--show"]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=100, check=False
        ).stdout[-8000:]

    def log(self, name: str) -> list[dict[str, Any]]:
        """Return the lines that the server app of a run has logged so far."""
        path = self.run_folder(name) / "log.jsonl"
        if not path.exists():
            return []
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines()]

    def run_folder(self, name: str) -> Path:
        return self.state / "server" / name

    def wait_event(
        self,
        name: str,
        event: str,
        timeout: float,
        times: int = 1,
        where: Callable[[dict[str, Any]], bool] | None = None,
    ) -> list[dict[str, Any]]:
        """Wait until a run has logged an event so many times, and return these."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.log(name) if line["event"] == event and (where is None or where(line))]

        what = f"{times} x {event!r} in the log of {name}"

        def enough() -> bool:
            over = self.ended(self.runs[-1])
            if len(found()) >= times:
                return True
            assert not over, f"The run has ended without {what}.\n{self.explain()}"
            return False

        wait_for(enough, timeout, what, self.explain)
        return found()

    def ended(self, run: int) -> bool:
        """Return whether the server app of a run has ended, well or not."""
        return re.search(f"Finished task [0-9]+ of run {run}", (self.state / "superlink.log").read_text()) is not None

    def server_events(self, event: str) -> list[dict[str, Any]]:
        return _events(self.state / "events.jsonl", event)

    def node_events(self, i: int, event: str) -> list[dict[str, Any]]:
        return _events(self.node_state(i) / "events.jsonl", event)

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.state / "flwr")

    def explain(self) -> str:
        """Return the ends of all logs."""
        logs = sorted(path for path in self.folder.rglob("*") if path.suffix in (".log", ".jsonl", ".out"))
        ends = [f"==> {path}\n{_tail(path)}" for path in logs]
        return "\n".join([*ends, *[f"==> run {run}\n{self.run_log(run)}" for run in self.runs[-1:]]])

    def kill_node(self, i: int) -> None:
        """Kill -9 the SuperNode of a supervised node, and with it its helpers."""
        os.killpg(int(self.node_events(i, "started")[-1]["pid"]), signal.SIGKILL)

    def kill_supervisor(self, i: int) -> None:
        """Kill -9 what would start a node again."""
        self.nodes[i].kill()
        self.nodes[i].wait(10)

    def kill_server(self) -> None:
        """Kill -9 the SuperLink; its supervisor starts it again."""
        os.kill(int(self.server_events("started")[-1]["pid"]), signal.SIGKILL)

    def processes(self, name: str = "", under: Path | None = None) -> list[int]:
        """Return the processes whose Flower home lies in this federation, and whose command line holds ``name``."""
        return [pid for pid, command in _running(under or self.folder) if name in command]

    def close(self) -> None:
        """Kill everything that was started here, and everything that was started by it."""
        for process in self._supervisors():
            process.kill()
        for _ in range(3):  # a process may start another one while it is being killed
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        for process in self._supervisors():
            process.wait(10)
        if self.short is not None:
            self.short.cleanup()

    def _supervisors(self) -> list["subprocess.Popen[bytes]"]:
        return [*([] if self.server is None else [self.server]), *self.nodes.values(), *self.strangers]

    def _start(self, words: list[str], name: str) -> "subprocess.Popen[bytes]":
        # The supervisor itself is found by this too, when everything is killed.
        surroundings = {**environment(self.folder / name / "flwr"), "JAX_PLATFORMS": "cpu"}
        surroundings["FEDDR_COMPILATION_CACHE"] = os.environ.get(
            "FEDDR_COMPILATION_CACHE", str(self.folder / "compiled")
        )
        with open(self.folder / f"{name}.out", "ab") as output:
            return subprocess.Popen(
                [str(self.bin / "python"), "-P", "-m", "feddr", "deploy", *words],
                stdout=output,
                stderr=output,
                env=surroundings,
                start_new_session=True,
            )


def wait_for(condition: Callable[[], bool], timeout: float, what: str, explain: Callable[[], str] = str) -> None:
    """Poll until a condition holds, and fail with an explanation when time is up."""
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {timeout:.0f} s in vain: {what}.\n{explain()}")
        time.sleep(0.25)


def _events(path: Path, event: str) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["event"] == event]


def _running(folder: Path) -> Iterator[tuple[int, str]]:
    marker = f"FLWR_HOME={folder}/".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if any(word.startswith(marker) for word in (entry / "environ").read_bytes().split(b"\0")):
                    yield (
                        int(entry.name),
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                    )


def _tail(path: Path, size: int = 3000) -> str:
    return path.read_bytes()[-size:].decode(errors="replace")
