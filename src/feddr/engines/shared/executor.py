"""The client executor: the tasks of a round are prepared, computed on a thread pool, and finished into uploads."""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms import Roles
from feddr.engines.shared.compiled_clients import CompiledClients, SubproblemTask
from feddr.engines.shared.prefetch import BatchPrefetcher
from feddr.engines.shared.privacy import record_level, released
from feddr.engines.shared.randomness import noise_rng, upload_draw
from feddr.engines.shared.state import RunState
from feddr.local import Solution, Subproblem
from feddr.tree import Tree
from feddr.xla.thread_pool import ThreadPool

AHEAD = 2
"""Short calls that are begun before the first of them is waited for: the device works while the next is prepared."""

SEVERAL = 2**20
"""Numbers of uploads of a round from which on several threads compress them; it takes a millisecond or so."""


class ClientTask(NamedTuple):
    """What a client is to do: an update in a round, from the message that it was sent."""

    round: int
    client: int
    message: Tree


class ClientUpdate(NamedTuple):
    """The result of a task: the client's next state, its upload, and how its subproblem was solved."""

    client: Any
    upload: Tree
    solution: Solution


class SolvedTask(NamedTuple):
    """A task after the local work: the state that the client began with, what it had to solve, and how that ended."""

    task: ClientTask
    before: Any
    sub: Subproblem
    solution: Solution


class ClientExecutor:
    """Executes the tasks of clients; it reads the state of a run and does not change it.

    Parameters
    ----------
    roles
        The algorithm as each client runs it.
    x0
        The start of the run, which clients that come for the first time may begin with.
    probabilities
        How likely each client is to take part in a round, for solvers that want to know.
    pool
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
        pool: ThreadPool,
    ) -> None:
        self.roles, self.clients, self.state, self.x0 = roles, clients, state, x0
        self.probabilities, self.seed, self.pool = probabilities, seed, pool
        self.prefetcher = BatchPrefetcher(clients.local, clients.sizes, seed)

    def execute(self, tasks: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> list[ClientUpdate]:
        """Execute tasks, one for each client, side by side, the longest first.

        A thread that has nothing left to do draws batches for the clients of the next round, ``upcoming``.
        """
        by_client = {task.client: task for task in tasks}
        solved: dict[int, SolvedTask] = {}
        updates: dict[int, ClientUpdate] = {}
        # Uploads are compressed in a row, after the local work, which empties the caches; the rest is done at once.
        later = getattr(self.roles.algorithm, "upload", None) is not None

        def begin(clients: list[int]) -> Callable[[], None]:
            end = self._begin([by_client[i] for i in clients])

            def finish() -> None:
                for one in end():
                    if later:
                        solved[one.task.client] = one
                    else:
                        updates[one.task.client] = self._finish(one)

            return finish

        calls = self.clients.calls(list(by_client))
        long = [clients for clients in calls if self.clients.worth_a_thread(clients[0])]
        self.pool.each(lambda clients: begin(clients)(), long, self._ahead(by_client, upcoming))
        under_way: deque[Callable[[], None]] = deque()
        for clients in calls[len(long) :]:
            under_way.append(begin(clients))
            if len(under_way) > AHEAD:
                under_way.popleft()()
        for end in under_way:
            end()
        if later:
            updates = self._finished(list(solved.values()))
        return [updates[task.client] for task in tasks]

    def prepare(self, task: ClientTask) -> tuple[Any, SubproblemTask]:
        """Return the state that a client begins with, and what it has to solve."""
        k, i, message = task
        state, rules = self.state, self.roles.client(i)
        c = state.clients[i] if i in state.clients else rules.client(self.x0, message)
        number = state.updates.get(i, 0)
        batches = self.prefetcher.take(i, number)
        noise = None if record_level(rules) is None else noise_rng(self.seed, i, number)
        return c, SubproblemTask(i, rules.subproblem(c, message), batches, k, self.probabilities[i], noise)

    def _ahead(self, active: Container[int], upcoming: Callable[[], Iterable[int]]) -> Iterator[Callable[[], None]]:
        """Yield functions that draw the batches of the next round."""
        updates = self.state.updates
        yield from self.prefetcher.ahead((i, updates.get(i, 0) + (i in active)) for i in upcoming())

    def _begin(self, tasks: Sequence[ClientTask]) -> Callable[[], list[SolvedTask]]:
        """Begin the tasks of clients that share a call, and return a function that waits for them."""
        with _quiet():
            before, solving = zip(*map(self.prepare, tasks), strict=True)
            solutions = self.clients.begin(solving)

        def end() -> list[SolvedTask]:
            each = zip(tasks, before, solving, solutions(), strict=True)
            return [SolvedTask(task, c, one.sub, solution) for task, c, one, solution in each]

        return end

    def _finished(self, solved: Sequence[SolvedTask]) -> dict[int, ClientUpdate]:
        """Return the updates of tasks, made in a row; by several threads where the uploads are large."""
        updates: dict[int, ClientUpdate] = {}

        def in_a_row(some: Sequence[SolvedTask]) -> None:
            updates.update({one.task.client: self._finish(one) for one in some})

        threads = self.pool.threads if len(solved) * tree.size(self.x0) >= SEVERAL else 1
        if threads == 1:
            in_a_row(solved)
        else:
            self.pool.each(in_a_row, [solved[j::threads] for j in range(min(threads, len(solved)))])
        return updates

    def _finish(self, one: SolvedTask) -> ClientUpdate:
        task, c, sub, solution = one
        rules = self.roles.client(task.client)
        compressor = getattr(rules, "upload", None)
        if compressor is not None and compressor.random:  # a draw takes as long as to quantise a small model
            number = self.state.updates.get(task.client, 0)
            solution = solution._replace(draw=upload_draw(self.seed, task.client, number))
        seen = solution
        if getattr(rules, "privacy", None) is not None:
            number = self.state.updates.get(task.client, 0)
            seen = released(rules, self.clients.local, sub, solution, noise_rng(self.seed, task.client, number))
        with _quiet():
            state, upload = rules.finish(c, task.message, sub, seen)
        return ClientUpdate(state, upload, solution)


def _quiet() -> np.errstate:
    """Return a context without warnings: whoever takes an upload looks whether it is finite."""
    return np.errstate(over="ignore", invalid="ignore")
