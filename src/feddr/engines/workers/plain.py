"""The clients of a worker whose problem is PyTorch's: updates in plain loops, and passes over shards."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddr import tree
from feddr.algorithms import Algorithm, Roles
from feddr.data import Samples
from feddr.engines.shared.client_store import ClientStore
from feddr.engines.shared.errors import check_finite
from feddr.engines.shared.evaluation import Kind
from feddr.engines.shared.executor import ClientTask, ClientUpdate
from feddr.engines.shared.means import PersonalSums
from feddr.engines.shared.options import EngineOptions
from feddr.engines.shared.pieces import Layout, Part, RowRange, division
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.plain_evaluation import PlainEvaluator
from feddr.engines.shared.privacy import record_level, released
from feddr.engines.shared.randomness import client_rng, noise_rng, upload_draw
from feddr.engines.shared.run import Run
from feddr.engines.shared.shards import TreeNode, Vector
from feddr.engines.shared.state import RunState
from feddr.local import LocalSolver
from feddr.tree import Tree


class PlainRun(Run):
    """A run whose clients take one step after the other, in the library of the problem."""

    def __init__(
        self, problem: Any, algorithm: Algorithm, local: LocalSolver, options: EngineOptions, layout: Layout
    ) -> None:
        self.problem, self.algorithm, self.local, self.options = problem, algorithm, local, options
        self.dtype = options.dtype
        self.x0 = tree.cast(problem.init, self.dtype)
        self.roles = Roles(algorithm, problem.client_weights)
        server = algorithm.server(tree.cast(self.x0, np.float64))
        self.state = RunState(server, ClientStore(options.client_memory))
        self.evaluator: Any = ShardEvaluator(problem, self.dtype, layout)
        self.executor: Any = PlainExecutor(self)
        self._upload_bytes = 0

    def check_upload(self, task: ClientTask, update: ClientUpdate, last_good_round: int) -> bool:
        """Return whether an upload is finite; DivergedError where it is not and ``on_bad_client`` is "stop"."""
        del last_good_round
        if self.options.on_bad_client == "stop":
            check_finite(update.upload, task.client, task.round, self.local, self.algorithm)
        return all(np.isfinite(leaf).all() for leaf in tree.leaves(update.upload))


class PlainExecutor:
    """Executes the tasks of clients one after the other."""

    def __init__(self, run: PlainRun) -> None:
        self.run = run
        self.solve = PlainClients(run.problem, run.local, run.dtype, record_level(run.algorithm))
        self.probabilities = run.options.sampling.probabilities(run.problem.data.num_clients)

    def execute(self, tasks: Sequence[ClientTask], upcoming: Callable[[], Iterable[int]] = tuple) -> list[ClientUpdate]:
        """Execute tasks, one for each client."""
        del upcoming  # nothing is drawn ahead
        return [self._execute(task) for task in tasks]

    def _execute(self, task: ClientTask) -> ClientUpdate:
        k, i, message = task
        state, rules, seed = self.run.state, self.run.roles.client(i), self.run.options.seed
        c = state.clients[i] if i in state.clients else rules.client(self.run.x0, message)
        sub, number = rules.subproblem(c, message), state.updates.get(i, 0)
        noise = noise_rng(seed, i, number)
        solution = self.solve(i, sub, client_rng(seed, i, number), k, self.probabilities[i], noise)
        solution = solution._replace(draw=upload_draw(seed, i, number))
        seen = solution
        if getattr(rules, "privacy", None) is not None:
            seen = released(rules, self.run.local, sub, solution, noise)
        after, upload = rules.finish(c, message, sub, seen)
        return ClientUpdate(after, upload, solution)


class ShardEvaluator(PlainEvaluator):
    """Evaluates models on the samples of some shards, with the problem's own methods."""

    def __init__(self, problem: Any, dtype: Any, layout: Layout) -> None:
        super().__init__(problem, dtype)
        self.layout = layout

    def shard_sums(self, x: Tree, part: Part, gradient: bool) -> Iterator[tuple[TreeNode, Vector]]:
        """Yield the sums over the samples of each shard: weighted loss, loss, right predictions, and the gradient."""
        problem: Any = self.problem
        totals: dict[int, Vector] = {}
        for (shard, start, stop), rows in self._pieces(part):
            loss = np.sum(self._of(x, rows, "loss"), dtype=np.float64)
            right = np.sum(self._of(x, rows, "correct"), dtype=np.float64) if self._right else 0.0
            value, slope = problem.weighted(x, rows, problem.sample_weights[start:stop]) if gradient else (0.0, ())
            flat = [np.asarray(leaf, np.float64).ravel() for leaf in tree.leaves(slope)]
            sums = np.concatenate([[value, loss, right], *flat])
            totals[shard] = totals[shard] + sums if shard in totals else sums
        yield from ((TreeNode(0, shard), sums) for shard, sums in totals.items())

    def each(self, xbar: Tree, part: Part, kind: Kind) -> NDArray[Any]:
        """Return the outputs, the loss or the right predictions of each sample, a piece of a shard at a time."""
        x = tree.cast(xbar, self.dtype)
        values = [self._of(x, rows, kind) for _, rows in self._pieces(part)]
        return np.concatenate(values) if values else np.zeros(0)

    def _pieces(self, part: Part) -> Iterator[tuple[RowRange, Samples]]:
        """Yield the pieces of a part with their samples, in order."""
        data = self.problem.data
        samples = data.part(part)
        if samples is not None:
            for piece in division(samples, data.panel, self.layout.clients):
                rows = slice(piece.start, piece.stop)
                yield piece, {name: array[rows] for name, array in samples.samples.items()}

    def personal_sums(self, models: Iterable[tuple[int, Tree]]) -> Iterator[PersonalSums]:
        """Yield the sums over the own samples of each client, at its own model."""
        data = self.problem.data
        for i, model in models:
            x = tree.cast(model, self.dtype)
            own, test = data.train.client(i), None if data.test is None else data.test.client(i)
            yield PersonalSums(i, *self._sums(x, own), *(self._sums(x, test)[1:] if test else (0.0, 0)))

    def _sums(self, x: Tree, samples: Any) -> tuple[float, float, int]:
        losses = self._of(x, samples, "loss")
        right: NDArray[Any] = self._of(x, samples, "correct") if self._right else np.zeros(1)
        return float(np.sum(losses, dtype=np.float64)), float(np.sum(right, dtype=np.float64)), len(losses)
