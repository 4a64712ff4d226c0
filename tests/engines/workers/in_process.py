"""Workers in this process, without Ray: what they are asked goes through their methods, and they can be made to die."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from feddr.engines import cluster
from feddr.engines.workers import connection
from feddr.engines.workers.fleet import Fleet, Member
from feddr.engines.workers.placement import Range
from feddr.engines.workers.worker import Worker

FLEETS: list["InProcess"] = []
"""Those of the runs of a test, in order."""


class InProcess(Fleet):
    """A fleet whose actors are workers; ``deaths`` are the calls of ``lethal``, by number, in which a worker dies."""

    deaths: Mapping[int, int] = {}
    lethal = "round"
    joined = 0

    def start(self, shards: list[Range]) -> None:
        """Make the workers."""
        FLEETS.append(self)
        self.rounds = 0
        self.members = [Member(self._worker(block), block, "here") for block in shards]

    def room(self) -> int:
        """There is room for whoever joins."""
        return self.joined or len(self.members)

    def regroup(self, shards: list[Range]) -> list[int]:
        """Give workers other shards."""
        changed = [j for j, block in enumerate(shards) if j >= len(self.members) or self.members[j].shards != block]
        self.members += [Member(self._worker(block), block, "here") for block in shards[len(self.members) :]]
        for j, block in enumerate(shards):
            self.members[j].shards = block
            if j in changed:
                self.tell(j, "assign", self.part(*block), block)
        return changed

    def close(self) -> None:
        """Nothing has to be ended."""

    def ask(self, calls: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call workers one after the other; one that dies has computed, and nobody hears of it."""
        self.rounds += any(call[0] == self.lethal for call in calls.values())
        found = {}
        for j, call in calls.items():
            answer = self.tell(j, *call)
            if call[0] == self.lethal and self.deaths.get(self.rounds) == j:
                self.members[j].actor = self._worker(self.members[j].shards)
                self.members[j].replaced += 1
                self.restore(j)
                answer = self.tell(j, *call)
            found[j] = answer
        return found

    def tell(self, j: int, *call: Any) -> Any:
        """Call a worker."""
        return getattr(self.members[j].actor, call[0])(*call[1:])

    def _worker(self, shards: Range) -> Worker:
        worker = Worker(self.duty, threads=1)
        worker.assign(self.part(*shards), shards)
        return worker


@contextmanager
def without_ray(address: str | None, cpus: int, *more: Any) -> Iterator[Any]:
    """Stand in for a connection to Ray: objects stay what they are."""
    del address, cpus, more
    yield SimpleNamespace(put=lambda value: value, nodes=lambda: [{"Alive": True, "Resources": {"CPU": 64.0}}])


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> type[InProcess]:
    """Let ``simulate_cluster`` have its workers in this process."""
    FLEETS.clear()
    monkeypatch.setattr(InProcess, "deaths", {})
    monkeypatch.setattr(InProcess, "lethal", "round")
    monkeypatch.setattr(InProcess, "joined", 0)
    monkeypatch.setattr(cluster, "Fleet", InProcess)
    monkeypatch.setattr(cluster, "connected", without_ray)
    monkeypatch.setattr(connection, "connected", without_ray)
    return InProcess
