"""The driver's side of a run on workers: draws nothing, computes no client, and holds one sum at a time."""

import functools
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms import Algorithm
from feddr.algorithms.algorithm import ProblemLike
from feddr.certify.clients import NodeSums
from feddr.certify.measure import MeasuresRound
from feddr.checkpoint import encoding
from feddr.checkpoint.manager import CheckpointManager
from feddr.engines.clock.round_clock import placeholder_upload
from feddr.engines.shared.aggregation import summed
from feddr.engines.shared.client_store import ClientStore
from feddr.engines.shared.errors import DivergedError, warn_inaccurate
from feddr.engines.shared.executor import ClientTask
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.server import ServerRun
from feddr.engines.shared.shards import ROOT, SHARDS, Vector, first_client, fold, shard_of
from feddr.engines.shared.state import RunState, WorkersLoad
from feddr.engines.workers.evaluation import ClusterEvaluator, num_bytes
from feddr.engines.workers.fleet import Fleet
from feddr.engines.workers.placement import Range, improved
from feddr.engines.workers.recovery import Recovery, owned
from feddr.engines.workers.states import RemoteClients
from feddr.engines.workers.worker import Report
from feddr.local import LocalSolver, Solution

BALANCED = 20
"""Rounds after which loads are looked at."""

NEWEST = 20
"""Rounds that say how busy workers are."""

REPLAYED = 20
"""Rounds that a new worker is asked to compute again at a time."""


class ClusterRun(ServerRun):
    """A run whose clients compute on workers.

    Parameters
    ----------
    fleet
        The workers, each of which has its shards.
    load
        Of each shard, in expectation.
    grows
        Whether machines that join during the run get workers.
    """

    def __init__(
        self,
        problem: ProblemLike,
        algorithm: Algorithm,
        local: LocalSolver,
        options: EngineOptions,
        fleet: Fleet,
        load: NDArray[np.float64],
        grows: bool = False,
    ) -> None:
        self.load, self.grows, self.measured = load, grows, 0
        self.fleet, self.through = fleet, -1
        self.rounds, self.round_bytes = 0, 0
        self.newest: deque[tuple[float, dict[int, float]]] = deque(maxlen=NEWEST)
        self.firsts = [first_client(shard, problem.data.num_clients) for shard in range(SHARDS + 1)]
        x0 = tree.cast(problem.init, options.dtype)
        state = RunState(algorithm.server(tree.cast(x0, np.float64)))
        self.evaluator = ClusterEvaluator(self, problem, options.dtype)
        super().__init__(problem, algorithm, local, options, self.evaluator, state)
        self.first_state = algorithm.client(self.x0, self.message().content)
        self.stateful = bool(tree.leaves(self.first_state))
        self.recovery = Recovery(options.client_memory)
        self.template = placeholder_upload(self)
        self.state.clients = RemoteClients(self)
        fleet.restore = self._restore

    def attach(self, checkpoints: CheckpointManager) -> None:
        """Learn where the state of the run is saved: states that a worker loses are taken from there."""
        self.recovery.checkpoints = checkpoints

    @property
    def settings(self) -> dict[str, Any]:
        """What the settings of a result say of where clients computed."""
        fleet = self.fleet
        workers = [
            {
                "machine": member.machine,
                "process": member.process,
                "shards": list(member.shards),
                "clients": self._clients_of(j)[1] - self._clients_of(j)[0],
                "seconds": round(member.seconds, 3),
                "replaced": member.replaced,
            }
            for j, member in enumerate(fleet.members)
        ]
        bytes_ = {"bytes": fleet.sent + fleet.received, "bytes_a_round": self.round_bytes // max(self.rounds, 1)}
        return {"cluster": {"workers": workers, "threads": fleet.threads, **bytes_}}

    @property
    def workers(self) -> WorkersLoad:
        """How busy the workers were in the newest rounds, and what was sent."""
        lasted = max(sum(seconds for seconds, _ in self.newest), 1e-9)
        busy = [sum(by.get(j, 0.0) for _, by in self.newest) / lasted for j in range(len(self.fleet.members))]
        return WorkersLoad(tuple(busy), self.fleet.sent + self.fleet.received)

    def measures(self, lowers: NDArray[np.float64]) -> MeasuresRound:
        """Return what asks the workers for the terms of a certificate, given bounds on the curvature of clients."""
        return functools.partial(self.evaluator.measure, lowers=self.fleet.ray.put(lowers))

    def round(self, k: int, tasks: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> set[int]:
        """Let clients compute on their workers, and then the server; return the clients that were skipped."""
        if not tasks:
            return set()
        self._balance()
        message, began = tasks[0].message, time.perf_counter()
        active, soon = (self.by_worker(clients) for clients in ([task.client for task in tasks], upcoming()))
        before = self.fleet.sent + self.fleet.received
        sent = self.fleet.ray.put(message)
        calls = {j: ("round", self.through, k, sent, own, soon.get(j, [])) for j, own in active.items()}
        reports = self.fleet.ask(calls)
        self.fleet.sent += len(calls) * num_bytes(message)
        failed = [report.failed for report in reports.values() if report.failed is not None]
        if failed:
            raise DivergedError(*min(failed, key=lambda arguments: arguments[1]))
        for total in self.total([reports[j].sums for j in sorted(reports)]):
            self.aggregate(summed(total, self.template), k, last_good_round=k - 1)
        skipped = self._count(k, active, reports)
        self.through = k
        self.rounds += 1
        self.newest.append((time.perf_counter() - began, {j: report.seconds for j, report in reports.items()}))
        self.round_bytes += self.fleet.sent + self.fleet.received - before
        if self.stateful:
            everybody = np.array(sorted(task.client for task in tasks), np.int64)
            self.recovery.add(k, message, everybody, frozenset(skipped))
        for i in sorted(skipped):
            self.leave_out(i, k)
        return skipped

    def _balance(self) -> None:
        """Now and then, give shards to workers that have joined, and fewer to those that turned out to be slow."""
        members = self.fleet.members
        if self.rounds - self.measured < BALANCED:
            return
        self.measured = self.rounds
        loads = [float(self.load[slice(*member.shards)].sum()) for member in members]
        speeds = [load / max(member.lately, 1e-9) for load, member in zip(loads, members, strict=True)]
        for member in members:
            member.lately = 0.0
        workers = max(self.fleet.room(), len(members)) if self.grows else len(members)
        shards = improved(self.load, speeds, [member.shards for member in members], workers)
        if shards is not None and len(shards) >= len(members):
            self.regroup(shards)

    def regroup(self, shards: list[Range]) -> None:
        """Give workers other shards, and with them the states of their clients."""
        states = ClientStore(self.options.client_memory)
        states.update(self.state.clients.items())
        for j in self.fleet.regroup(shards):
            first, last = self._clients_of(j)
            own = {i: states[i] for i in states if first <= i < last}
            for segment in encoding.segments(own):
                self.fleet.ask({j: ("load", [segment], {})})
            self.fleet.ask({j: ("load", [], self._updates_of(j))})

    def total(self, sums: Iterable[NodeSums]) -> list[Vector]:
        """Return the sum over all shards, given those of each worker in order; empty where there is nothing to add."""
        sent = list(itertools.chain.from_iterable(sums))
        self.fleet.received += sum(vector.nbytes for _, vector in sent)
        return [total for _, total in fold([ROOT], sent)]

    def _count(self, k: int, active: dict[int, list[int]], reports: dict[int, Report]) -> set[int]:
        """Count what was done in a round, and return the clients that were skipped."""
        state, skipped = self.state, {i for report in reports.values() for i in report.skipped}
        for j, report in sorted(reports.items()):
            self.fleet.members[j].seconds += report.seconds
            self.fleet.members[j].lately += report.seconds
            state.bytes_up += len(active[j]) * report.upload_bytes
            state.local_steps += report.steps
            state.prox_error = float(np.fmax(state.prox_error, report.prox_error))
            if self.accurate and report.inaccurate is not None:
                self.accurate = False
                client, error, steps = report.inaccurate
                warn_inaccurate(Solution(None, steps, error), client, k, self.local, self.algorithm)
            for i in active[j]:
                if i not in skipped:
                    state.updates[i] = state.updates.get(i, 0) + 1
                    state.meet(i, report.met.get(i))
                    state.skipped_in_a_row = 0
        return skipped

    def load_clients(self, segments: Iterable[encoding.Arrays]) -> None:
        """Send the clients' states of a checkpoint to their workers."""
        for segment in segments:
            parts = {j: owned(segment, *self._clients_of(j)) for j in range(len(self.fleet.members))}
            for j, part in parts.items():
                if len(part["clients"]):
                    self.fleet.tell(j, "load", [part], {})

    def load_state_dict(self, arrays: encoding.Arrays) -> None:
        """Load what ``state_dict`` returned, and tell workers how many updates their clients have made."""
        super().load_state_dict(arrays)
        for j in range(len(self.fleet.members)):
            self.fleet.tell(j, "load", [], self._updates_of(j))

    def gather(self) -> None:
        """Take the clients' states over from the workers, which are about to end."""
        states = ClientStore(self.options.client_memory)
        states.update(self.state.clients.items())
        self.state.clients = states

    def _restore(self, j: int) -> None:
        """Make the states of a worker's clients again, in a new worker."""
        clients = self._clients_of(j)
        if not self.stateful:
            self.fleet.tell(j, "load", [], self._updates_of(j))
            return
        self.fleet.tell(j, "load", *self.recovery.start(*clients))
        past = self.recovery.since(*clients)
        while some := list(itertools.islice(past, REPLAYED)):
            self.fleet.tell(j, "replay", some)

    def _updates_of(self, j: int) -> dict[int, int]:
        first, last = self._clients_of(j)
        return {i: count for i, count in self.state.updates.items() if first <= i < last}

    def _clients_of(self, j: int) -> tuple[int, int]:
        """Return the first client of a worker, and the one after its last."""
        start, stop = self.fleet.members[j].shards
        return self.firsts[start], self.firsts[stop]

    def worker_of(self, client: int) -> int:
        """Return the worker that has a client."""
        shard = shard_of(client, self.firsts[-1])
        return next(j for j, member in enumerate(self.fleet.members) if shard < member.shards[1])

    def by_worker(self, clients: Iterable[int]) -> dict[int, list[int]]:
        """Return clients in order, by worker."""
        in_order = np.sort(np.fromiter(clients, np.int64))
        bounds = np.searchsorted(in_order, [self._clients_of(j)[0] for j in range(1, len(self.fleet.members))])
        return {j: own.tolist() for j, own in enumerate(np.split(in_order, bounds)) if len(own)}
