"""Local updates of clients as compiled XLA calls, shared by clients of every size."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from feddr import precision, tree
from feddr.local import Curvature, Estimate, LocalSolver, Solution, SolverContext, Subproblem, descent, solve
from feddr.local.gradients import (
    ClientRows,
    batch_gradient,
    capacity,
    clipped_gradient,
    full_gradient,
    own_samples,
)
from feddr.local.solver import Batches
from feddr.privacy import RecordLevel
from feddr.privacy.site_level import NormalNoise
from feddr.problem import Problem
from feddr.theory.curvature import ClientCurvature
from feddr.tree import Tree
from feddr.xla import batching, kernel
from feddr.xla.batching import BatchingPolicy, Workload


class SubproblemTask(NamedTuple):
    """A client, its subproblem, its batches, the round, and how likely the client is to take part in one.

    ``noise`` is where the noise of steps comes from that are private.
    """

    client: int
    sub: Subproblem
    batches: Batches | None
    round: int = 0
    probability: float = 1.0
    noise: NormalNoise | None = None


class Arguments(NamedTuple):
    """What the compiled loop needs to know of a client; ``start`` is that of the subproblem, which has none itself."""

    start: Tree
    samples: Tree
    sub: Subproblem
    rows: ClientRows
    steps: Any
    context: SolverContext


class CompiledClients:
    """Solves the subproblems of a problem's clients.

    All samples stay on the device. A step gathers its rows by index; the number of steps is an argument of the compiled
    loop, not a part of it, and index matrices come in a few capacities, so nothing is recompiled from client to client.

    Parameters
    ----------
    samples
        The training samples of all clients, on the device; None where clients make theirs when they are needed.
    needs_gradient
        Whether solutions carry the mean of the gradients.
    policy
        Who shares a call; by default what is best for the device.
    privacy
        Where each step is private: how gradients of records are clipped, and the noise. None for gradients as they are.
    """

    def __init__(
        self,
        problem: Problem,
        samples: Tree | None,
        local: LocalSolver,
        dtype: Any,
        needs_gradient: bool,
        policy: BatchingPolicy | None = None,
        privacy: RecordLevel | None = None,
    ) -> None:
        self.problem, self.samples, self.local, self.dtype = problem, samples, local, np.dtype(dtype)
        self.privacy = privacy
        self.policy = batching.choose() if policy is None else policy
        side_by_side = self.policy.side_by_side
        self.sizes = problem.data.sizes
        self._parameters = tree.size(problem.init)

        def one(
            start: Tree, samples: Tree, sub: Subproblem, rows: ClientRows, steps: Any, context: SolverContext
        ) -> Solution:
            sub = sub._replace(start=start)
            if privacy is not None:
                oracle = clipped_gradient(problem.loss, samples, rows, privacy.clip)
            else:
                oracle = (full_gradient if rows.batch is None else batch_gradient)(problem.loss, samples, rows)
            mean = needs_gradient and sub.probe is None
            prox = problem.regulariser.prox
            solution = solve(local, sub, oracle, steps, context, mean, prox)
            if sub.probe is None:
                return solution
            return solution._replace(gradient=full_gradient(problem.loss, samples, rows)(sub.probe, 0))

        def several(starts: Tree, shared: Tree | None, clients: Arguments) -> Solution:
            def each(client: Arguments) -> Solution:
                return one(*(client if shared is None else client._replace(samples=shared)))

            clients = clients._replace(start=starts)
            return jax.vmap(each)(clients) if side_by_side else jax.lax.map(each, clients)

        # None of the functions may refer to self: samples would stay on the device until the garbage collector comes.
        options = batching.compiler_options(self._parameters)
        small = batching.without_library(self._parameters) and not side_by_side
        # The start is donated: its buffer becomes the solution's.
        self._one = jax.jit(kernel.whole(one, small), compiler_options=options, donate_argnums=0)
        self._several = jax.jit(kernel.whole(several, small), compiler_options=options, donate_argnums=0)
        self.curvature = ClientCurvature(problem, samples, dtype)

    def __call__(
        self,
        client: int,
        sub: Subproblem,
        rng: np.random.Generator,
        round_: int = 0,
        probability: float = 1.0,
        noise: NormalNoise | None = None,
    ) -> Solution:
        """Solve the subproblem of a client, which takes part with a probability; the result is in NumPy arrays."""
        return self.solve([SubproblemTask(client, sub, self.draw(client, rng), round_, probability, noise)])[0]

    def draw(self, client: int, rng: np.random.Generator) -> Batches | None:
        """Return random batches of a client, None where every step uses all of its rows."""
        return self.local.batches(int(self.sizes[client]), rng)

    def calls(self, clients: Sequence[int]) -> list[list[int]]:
        """Group clients into compiled calls, the longest first, so that no core waits for a late one."""
        return self.policy.calls(sorted(map(self._load, clients), key=lambda load: (-load.work, load.client)))

    def worth_a_thread(self, client: int) -> bool:
        """Return whether it pays to compute the call of a client in another thread."""
        return self.policy.worth_a_thread(self._load(client))

    def solve(self, tasks: Sequence[SubproblemTask]) -> list[Solution]:
        """Solve the subproblems of clients that share a call."""
        return self.begin(tasks)()

    def begin(self, tasks: Sequence[SubproblemTask]) -> Callable[[], list[Solution]]:
        """Begin to solve the subproblems of clients that share a call, and return what waits for them."""
        if not self.policy.shares(self._load(tasks[0].client)):
            each = [self.call(self.arguments(task)) for task in tasks]
            return lambda: [tree.map(np.asarray, solution) for solution in each]
        stacked = self._stacked(tasks, self.policy.width)
        with precision.scope(self.dtype):
            together, _ = self._several(stacked.start, self.samples, stacked._replace(start=None))
        return lambda: _apart(together, len(tasks))

    def call(self, arguments: Arguments) -> Solution:
        """Begin to solve the subproblem of one client, and return arrays that will hold the solution."""
        with precision.scope(self.dtype):
            solution, _ = self._one(*arguments)
        return solution

    def arguments(self, task: SubproblemTask) -> Arguments:
        """Return the arguments of a call for one client."""
        start, size, steps = map(np.int32, self._place(task.client))
        samples = self._own_samples(task.client) if self.samples is None else self.samples
        batch, used = (None, None) if task.batches is None else padded(task.batches)
        rows = ClientRows(start, size, batch, used, self._noise(task))
        sub, context = tree.map(np.asarray, (self._needed(task.sub), self._context(task)))
        return Arguments(sub.start, samples, sub._replace(start=None), rows, steps, context)

    def _load(self, client: int) -> Workload:
        size = int(self.sizes[client])
        steps = self.local.num_steps(size)
        work = float(steps * (self.local.batch_size or size) * self._parameters)
        return Workload(client, (capacity(steps), capacity(size) if self.samples is None else 0), work)

    def _stacked(self, tasks: Sequence[SubproblemTask], places: int) -> Arguments:
        """Return the arguments of several clients, each an entry of each array; places left over do no steps."""
        start, size, steps = layout = np.zeros((3, places), np.int32)
        layout[:, : len(tasks)] = np.array([self._place(task.client) for task in tasks]).T
        sub = _stack([self._needed(task.sub) for task in tasks], places)
        samples = _stack([self._own_samples(task.client) for task in tasks], places) if self.samples is None else None
        context = _stack([self._context(task) for task in tasks], places)
        batches = [task.batches for task in tasks if task.batches is not None]
        batch, used = _padded_together(batches, places) if batches else (None, None)
        noise = None if self.privacy is None else _stack([self._noise(task) for task in tasks], places)
        rows = ClientRows(start, size, batch, used, noise)
        return Arguments(sub.start, samples, sub._replace(start=None), rows, steps, context)

    def _place(self, client: int) -> tuple[int, int, int]:
        """Return the first row of a client in ``samples``, or in what it makes itself, its size, and its steps."""
        size = int(self.sizes[client])
        start = 0 if self.samples is None else int(self.problem.data.train.offsets[client])
        return start, size, self.local.num_steps(size)

    def _own_samples(self, client: int) -> Tree:
        return own_samples(self.problem.data, client, self.dtype)

    def _noise(self, task: SubproblemTask) -> Tree:
        """Return the noise of a client's steps, with steps left over, up to a capacity; None where none is private."""
        if self.privacy is None:
            return None
        assert task.noise is not None, "private steps need a source of noise"
        steps = self.local.num_steps(int(self.sizes[task.client]))
        drawn = self.privacy.step_noise(steps, tree.cast(task.sub.start, self.dtype), task.noise)

        def filled(noise: NDArray[Any]) -> NDArray[Any]:
            more = np.zeros((capacity(steps), *noise.shape[1:]), noise.dtype)
            more[:steps] = noise
            return more

        return tree.map(filled, drawn)

    def _needed(self, sub: Subproblem) -> Subproblem:
        """Return what the solver needs to know of a subproblem: most have no use for the client's last model."""
        return sub if self.local.certified else sub._replace(last=None)

    def _context(self, task: SubproblemTask) -> SolverContext:
        if task.sub.descent is not None:
            descent.length(
                self.local, task.round
            )  # refuses a solver that cannot take these steps, before a compilation
        curvature: Curvature | Estimate = Curvature()
        if self.local.certified:
            curvature = self.curvature.strongly_convex(task.client, task.sub.eta, type(self.local).__name__)
        return SolverContext(curvature, task.round, float(task.probability))


def mean_work(problem: Problem, local: LocalSolver) -> float:
    """Return the work of a client of mean size: steps x samples in a step x parameters."""
    size = int(problem.data.sizes.mean())
    return float(local.num_steps(size) * (local.batch_size or size) * tree.size(problem.init))


def padded(batches: Batches) -> Batches:
    """Return batches with steps left over, up to a capacity."""
    if len(batches.rows) == capacity(len(batches.rows)):
        return batches
    return Batches(*(several[0] for several in _padded_together([batches], places=1)))


def _padded_together(each: list[Batches], places: int) -> Batches:
    """Return the batches of several clients of one capacity, each an entry of each array."""
    steps = capacity(len(each[0].rows))
    rows, used = _aligned((places, steps, each[0].rows.shape[1])), _aligned((places, steps))
    used.fill(1)
    for j, batches in enumerate(each):
        count = len(batches.rows)
        rows[j, :count], used[j, :count] = batches
    return Batches(rows, used)


def _aligned(shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return an aligned array of zeros, which XLA reads in place instead of copying it."""
    memory = np.zeros(math.prod(shape) + 16, np.int32)
    first = -memory.ctypes.data % 64 // 4
    return memory[first : first + math.prod(shape)].reshape(shape)


def _stack(trees: list[Tree], places: int) -> Any:
    """Return the trees stacked along a new first axis, padded with the last one."""
    filled = [*trees, *trees[-1:] * (places - len(trees))]
    return tree.map(lambda *leaves: np.array(leaves), *filled)  # np.stack would be slower


def _apart(together: Solution, count: int) -> list[Solution]:
    """Return the first solutions of a batch, each with its own entry of every array."""
    leaves, structure = jax.tree.flatten(together)
    # Copies, so that a client's state does not keep those of all others alive.
    columns = [[entry.copy() for entry in np.asarray(leaf)[:count]] for leaf in leaves]
    return [jax.tree.unflatten(structure, entries) for entries in zip(*columns, strict=True)]
