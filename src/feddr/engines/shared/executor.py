"""The client executor: the tasks of a round are prepared, computed on a thread pool, and finished into uploads."""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr.algorithms import Roles
from feddr.engines.shared.compiled_clients import CompiledClients, SubproblemTask
from feddr.engines.shared.prefetch import BatchPrefetcher
from feddr.engines.shared.state import RunState
from feddr.local import Solution, Subproblem
from feddr.tree import Tree
from feddr.xla.thread_pool import ThreadPool

AHEAD = 2
"""Short calls that are begun before the first of them is waited for: the device works while the next is prepared."""


class ClientTask(NamedTuple):
    """A client's part of a round: the round, the client, and what it was sent."""

    round: int
    client: int
    message: Tree


class ClientUpdate(NamedTuple):
    """What comes of a client's part: its next state, its upload, and how its subproblem was solved."""

    client: Any
    upload: Tree
    solution: Solution


class ClientExecutor:
    """Lets clients do their parts; it reads the state of a run and does not touch it.

    Parameters
    ----------
    roles
        The algorithm as each client runs it.
    x0
        The start of the run, which clients that come for the first time may begin with.
    probabilities
        How likely each client is to take part in a round, for solvers that want to know.
    crew
        The threads that compute clients.
    """

    def __init__(
        self,
        roles: Roles,
        clients: CompiledClients,
        state: RunState,
        x0: Tree,
        probabilities: NDArray[np.float64],
        seed: int,
        crew: ThreadPool,
    ) -> None:
        self.roles, self.clients, self.state, self.x0 = roles, clients, state, x0
        self.probabilities, self.crew = probabilities, crew
        self.draws = BatchPrefetcher(clients.local, clients.sizes, seed)

    def answers(self, jobs: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> list[ClientUpdate]:
        """Let clients, each of them once, do their parts side by side, the longest first.

        A thread that has nothing left to do draws batches for the clients of the next round, ``upcoming``.
        """
        by_client = {job.client: job for job in jobs}
        found: dict[int, ClientUpdate] = {}

        def begin(clients: list[int]) -> Callable[[], dict[int, ClientUpdate]]:
            return self._begin([by_client[i] for i in clients])

        calls = self.clients.calls(list(by_client))
        long = [clients for clients in calls if self.clients.worth_a_thread(clients[0])]
        self.crew.each(lambda clients: found.update(begin(clients)()), long, self._ahead(by_client, upcoming))
        under_way: deque[Callable[[], dict[int, ClientUpdate]]] = deque()
        for clients in calls[len(long) :]:
            under_way.append(begin(clients))
            if len(under_way) > AHEAD:
                found.update(under_way.popleft()())
        for end in under_way:
            found.update(end())
        return [found[job.client] for job in jobs]

    def task(self, job: ClientTask) -> tuple[Any, SubproblemTask]:
        """Return the state that a client begins with, and what it has to solve."""
        k, i, message = job
        state, rules = self.state, self.roles.client(i)
        c = state.clients[i] if i in state.clients else rules.client(self.x0, message)
        batches = self.draws.take(i, state.updates.get(i, 0))
        return c, SubproblemTask(i, rules.subproblem(c, message), batches, k, self.probabilities[i])

    def _ahead(self, active: Container[int], upcoming: Callable[[], Iterable[int]]) -> Iterator[Callable[[], None]]:
        """Yield what draws the batches of the next round, before which the active clients make one update more."""
        updates = self.state.updates
        yield from self.draws.ahead((i, updates.get(i, 0) + (i in active)) for i in upcoming())

    def _begin(self, jobs: Sequence[ClientTask]) -> Callable[[], dict[int, ClientUpdate]]:
        """Begin the parts of clients that share a call, and return what waits for them."""
        with _quiet():
            before, tasks = zip(*map(self.task, jobs), strict=True)
            solutions = self.clients.begin(tasks)

        def end() -> dict[int, ClientUpdate]:
            parts = zip(jobs, before, tasks, solutions(), strict=True)
            with _quiet():
                return {job.client: self._finish(job, c, task.sub, solution) for job, c, task, solution in parts}

        return end

    def _finish(self, job: ClientTask, c: Any, sub: Subproblem, solution: Solution) -> ClientUpdate:
        state, upload = self.roles.client(job.client).finish(c, job.message, sub, solution)
        return ClientUpdate(state, upload, solution)


def _quiet() -> np.errstate:
    """Return a context without warnings: whoever takes an upload looks whether it is finite."""
    return np.errstate(over="ignore", invalid="ignore")
