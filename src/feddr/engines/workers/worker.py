"""A worker: computes the clients of its shards, keeps their states, and sends sums over its shards."""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr.algorithms import Algorithm, FedDR
from feddr.certify.clients import ClientMeasurer, ClientTerms, NodeSums
from feddr.checkpoint import encoding
from feddr.engines.shared.errors import DivergedError, inaccurate
from feddr.engines.shared.evaluation import Kind
from feddr.engines.shared.executor import ClientTask
from feddr.engines.shared.means import PersonalSums
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.pieces import Layout, Part
from feddr.engines.shared.run import Run
from feddr.engines.shared.shards import TreeNode, cover, first_client, fold
from feddr.engines.workers.placement import Range
from feddr.engines.workers.plain import PlainRun
from feddr.local import Estimate, LocalSolver
from feddr.problem import Problem
from feddr.tree import Tree
from feddr.xla import batching
from feddr.xla.thread_pool import ThreadPool


@dataclass(frozen=True)
class Duty:
    """What all workers of a run have to know.

    Parameters
    ----------
    layout
        How passes go through the samples of the whole problem.
    work
        Of a client of mean size, by which JAX is set up.
    certify
        Whether every round is measured for a certificate.
    """

    algorithm: Algorithm
    local: LocalSolver
    options: EngineOptions
    layout: Layout
    work: float
    certify: bool = False


class Inaccurate(NamedTuple):
    """A client whose solver missed its stopping rule: its error bound and its number of gradients."""

    client: int
    error: float
    steps: int


class Report(NamedTuple):
    """What came of a round on one worker.

    Parameters
    ----------
    sums
        Of uploads, for each node of the worker's shards.
    skipped
        Clients whose uploads were not finite.
    upload_bytes
        Bytes of one upload.
    steps
        Local steps of all its clients.
    prox_error
        The largest error of a prox, NaN for none.
    met
        The curvature that the solver of a client met.
    failed
        The arguments of the DivergedError that ends the run, None where there is none.
    seconds
        That the clients took.
    """

    sums: NodeSums
    skipped: list[int]
    upload_bytes: int
    steps: int
    prox_error: float
    met: dict[int, Estimate]
    inaccurate: Inaccurate | None
    failed: tuple[Any, ...] | None
    seconds: float


class Past(NamedTuple):
    """A round that is over: its message, the clients of one worker that were asked, and those that were skipped."""

    round: int
    message: Tree
    clients: list[int]
    skipped: frozenset[int]


class Moved(NamedTuple):
    """The clients whose states a round has changed, with their models before it."""

    round: int
    before: dict[int, Tree]


class Worker:
    """Owns the clients of some shards; everything that it returns is small, or one model for each node of its shards.

    A round is committed once the driver has said so: with each call it gives the last round that counts, ``through``.
    """

    def __init__(self, duty: Duty, threads: int) -> None:
        batching.prepare(duty.work)
        self.duty, self.pool = duty, ThreadPool(threads)
        self.options = replace(duty.options, metrics=(), per_client=False, stop_when=None, verbose=False)
        self.nodes: list[TreeNode] = []
        self.pending: tuple[int, list[tuple[int, Any]]] = (-1, [])
        self.moved = Moved(-1, {})
        self.measurer: ClientMeasurer | None = None

    def assign(self, problem: Any, shards: Range) -> None:
        """Take over shards, with their samples."""
        self.nodes, self.measurer = cover(*shards), None
        if isinstance(problem, Problem):
            self.run: Run = Run(
                problem, self.duty.algorithm, self.duty.local, self.options, self.pool, self.duty.layout
            )
        else:
            self.run = PlainRun(problem, self.duty.algorithm, self.duty.local, self.options, self.duty.layout)

    def round(self, through: int, k: int, message: Tree, clients: Sequence[int], upcoming: Sequence[int]) -> Report:
        """Let clients compute in round k; ``upcoming`` are those of the next one."""
        self._commit(through)
        begin, tasks = time.perf_counter(), [ClientTask(k, i, message) for i in clients]
        try:
            outcome = self.run.compute(k, tasks, self.nodes, lambda: upcoming)
        except DivergedError as error:
            failed = (str(error), error.client, error.round, error.step, error.last_good_round)
            return Report([], [], 0, 0, np.nan, {}, None, failed, time.perf_counter() - begin)
        solutions = [(task.client, update.solution) for task, update in outcome.accepted]
        errors = [float(solution.error) for _, solution in solutions if not np.isnan(float(solution.error))]
        missed = next(((i, solution) for i, solution in solutions if inaccurate(solution)), None)
        everybody = [*outcome.accepted, *outcome.skipped]
        report = Report(
            sums=outcome.sums,
            skipped=[task.client for task, _ in outcome.skipped],
            upload_bytes=self.run.upload_bytes(everybody[0][1]) if everybody else 0,
            steps=sum(int(update.solution.steps) for _, update in everybody),
            prox_error=max(errors, default=np.nan),
            met={i: Estimate(*map(float, one.met)) for i, one in solutions if one.met is not None},
            inaccurate=None if missed is None else Inaccurate(missed[0], float(missed[1].error), int(missed[1].steps)),
            failed=None,
            seconds=time.perf_counter() - begin,
        )
        self.pending = (k, [(task.client, update.client) for task, update in outcome.accepted])
        return report

    def replay(self, past: Iterable[Past]) -> None:
        """Compute rounds again whose states were lost."""
        for k, message, clients, skipped in past:
            tasks = [ClientTask(k, i, message) for i in clients]
            done = zip(tasks, self.run.executor.execute(tasks), strict=True) if tasks else ()
            self.pending = (k, [(task.client, update.client) for task, update in done if task.client not in skipped])
            self._commit(k)

    def sums(self, through: int, x: Tree, part: Part, gradient: bool) -> NodeSums:
        """Return the sums over the samples of each node at x, and the gradient."""
        self._commit(through)
        return list(fold(self.nodes, self.run.evaluator.shard_sums(x, part, gradient))) if self.nodes else []

    def each(self, through: int, x: Tree, part: Part, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions at x of each sample."""
        self._commit(through)
        return self.run.evaluator.each(x, part, kind)

    def personal(self, through: int) -> list[PersonalSums]:
        """Return what the clients' own models do on their own samples, in the order of clients."""
        self._commit(through)
        own = ((i, c.x) for i, c in sorted(self.run.state.clients.items()) if hasattr(c, "x"))
        return list(self.run.evaluator.personal_sums(own))

    def measure(self, through: int, k: int, xbar: Tree, lowers: NDArray[np.float64]) -> ClientTerms:
        """Return what a certificate needs of the clients after round k, given lower bounds on their curvatures."""
        self._commit(through)
        n = self.run.problem.data.num_clients
        if self.measurer is None:
            probabilities = self.options.sampling.probabilities(n)
            assert isinstance(self.duty.algorithm, FedDR)  # the driver has refused all others
            self.measurer = ClientMeasurer(self.run.problem, self.duty.algorithm, lowers, probabilities)
        own = range(first_client(self.nodes[0].start, n), first_client(self.nodes[-1].stop, n))
        before = self.moved.before if self.moved.round == k else {}
        return self.measurer(self.run.state.clients, xbar, before, own, self.nodes)

    def clients(self, through: int) -> list[int]:
        """Return the clients whose states are here."""
        self._commit(through)
        return sorted(self.run.state.clients)

    def states(self, through: int, clients: Sequence[int]) -> list[encoding.Arrays]:
        """Return the states of clients, in segments."""
        self._commit(through)
        return list(encoding.segments({i: self.run.state.clients[i] for i in clients}))

    def load(self, segments: Iterable[encoding.Arrays], updates: Mapping[int, int]) -> None:
        """Take over the states of clients, and how many updates they have made."""
        self.run.load_clients(segments)
        self.run.state.updates.update(updates)

    def _commit(self, through: int) -> None:
        """Make the states of the last round count, if the driver has counted it."""
        k, done = self.pending
        if k <= through:
            state = self.run.state
            if self.duty.certify and done:
                x0 = self.run.problem.init
                self.moved = Moved(k, {i: state.clients[i].x if i in state.clients else x0 for i, _ in done})
            for i, client in done:
                state.clients[i] = client
                state.updates[i] = state.updates.get(i, 0) + 1
            self.pending = (-1, [])


def batched(clients: Sequence[int], count: int) -> list[list[int]]:
    """Return clients, some at a time."""
    rest = iter(clients)
    return list(iter(lambda: list(itertools.islice(rest, count)), []))
