"""One client of a deployment: its data, its rules of the algorithm, and its state on the node's own disk.

Why a lost reply does no harm
-----------------------------
A client writes its new state before its reply leaves, so it may be one update ahead of the server: when the reply is
lost, refused or too late. The server's next task says which update of this client it has accepted, and the client
keeps the state before its newest, so it goes back to exactly the state that the server counts. The lost update has then
never happened, and because the randomness of an update depends on (seed, client, number) alone, the run is the one in
which it was not lost.

Where that state is not at hand, the client cannot be wrong either. Uploads are idempotent: what a client sends is the
value xhat_i that the server is to count from now on, not a change; the server takes the difference to what it has
counted before, so that xtilde = sum_i v_i xhat_i holds whatever the client was doing in between. So a client that is
ahead and no longer has that state, because the server was restored from an older copy, continues from its newest one;
and a client that has lost its state, or was restored from a copy older than what the server counts, restarts at xbar
and says so. Both change how far the method has come, and neither what it converges to.

A compressed upload is a change, the way from the value that the server counts to the one that it is to count. It counts
only as the update after the one that was accepted, and the client sends it only from the state that the server counts:
the task has the number of that update and a digest of that value. A client without such a state restarts at xbar and
says so; its upload is then the way from what ``recover`` makes of the broadcast, which the server works out, too. So a
lost upload is computed again from the accepted state, a repeated or late one is refused by its ticket and its number,
and what both sides count is the same to the last bit.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Context

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, Deployable
from feddr.algorithms.algorithm import ProblemLike
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.errors import inaccurate, warn_inaccurate
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.measured import Evaluates
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.plain_evaluation import PlainEvaluator
from feddr.engines.shared.privacy import check_local, check_samples, record_level
from feddr.engines.shared.randomness import client_rng, upload_draw
from feddr.flower import compressed, identity, limits, private, site_metrics, steps, wire
from feddr.flower.guard import site_of
from feddr.flower.messages import Checkup, Hello, Metrics, Presence, TaskHeader, UploadHeader, Working
from feddr.flower.shared_table import FEWEST_ROWS, TableProblem, own_problem
from feddr.local import LocalSolver, Solution
from feddr.problem import Problem
from feddr.secure import SecureAggregation
from feddr.sites import SiteRules
from feddr.storage import lock, tensors
from feddr.tree import Tree
from feddr.xla import compilation_cache


class Kept(NamedTuple):
    """The state that a client continues from: its update number, and whether it had to restart."""

    state: Any
    number: int
    rejoined: bool = False


@dataclass(frozen=True)
class Node:
    """One client; ``norms`` has how far each of its updates is from the model that it was sent."""

    client: int
    load: Callable[[], ProblemLike]
    algorithm: Deployable
    local: LocalSolver
    root: Path
    fewest_rows: int = FEWEST_ROWS
    site_rules: SiteRules = field(default_factory=SiteRules)
    norms: list[float] = field(default_factory=list)
    secure: SecureAggregation | None = None

    @cached_property
    def problem(self) -> ProblemLike:
        """The client's own problem, loaded when it is needed."""
        problem = self.load()
        if problem.data.num_clients != 1:
            raise ValueError(
                f"A node's problem holds its own client's data, got {problem.data.num_clients} clients; "
                "build it with FederatedData.from_clients([one])."
            )
        self.site_rules.check_records(problem.data.train.num_samples)
        return problem

    @classmethod
    def open(
        cls,
        problem: Callable[[int, Context], ProblemLike] | TableProblem,
        algorithm: Algorithm,
        local: LocalSolver,
        folder: str | Path | None,
        context: Context,
        preparation: str = "",
        fewest_rows: int = FEWEST_ROWS,
    ) -> "Node":
        """Return the client of this node."""
        client = context.node_config.get("partition-id")
        if type(client) is not int or client < 0:
            raise ValueError(
                f"A node needs the number of its client, got partition-id={client!r}; start it with "
                '--node-config "partition-id=0", and each other node with another number.'
            )
        if not isinstance(algorithm, Deployable):
            name = type(algorithm).__name__
            raise ValueError(
                f"A deployment needs a method whose uploads can be absolute, {name} has no such rules; "
                "use FedDR or AsyncFedDR."
            )
        compilation_cache.enable()
        root = identity.root(context.node_config.get("feddr-folder"), folder)
        load = functools.partial(own_problem, problem, client, context, preparation)
        site = site_of(context)
        allowed = SiteRules() if site is None else site.rules
        return cls(client, load, algorithm, local, root, fewest_rows, allowed)

    def hello(self, hello: Hello) -> Presence:
        """Answer with the client of this node, and the numbers that the server asks for."""
        asked = hello.samples or hello.work
        size = self.problem.data.train.num_samples if asked else -1
        length = getattr(self.local, "work", None) if hello.work else None
        work = None if length is None else length(size)
        return Presence(
            hello.run, self.client, size if hello.samples else -1, float("nan") if work is None else float(work)
        )

    def checkup(self, checkup: Checkup) -> Working:
        """Answer whether a process of this client is at work."""
        return Working(checkup.run, self.client, lock.is_locked(self.folder(checkup.run)))

    def train(self, task: TaskHeader, arrays: Any) -> tuple[UploadHeader, ArrayRecord]:
        """Do the client's update, and write its state to disk; return what the server is to count, or the way to it."""
        self.check_plain()
        dtype = precisions.of(task.precision)
        rules: Any = self.rules(task)
        compressor, encoded = getattr(rules, "upload", None), list[bytes]()
        if compressor is not None:
            rules = dataclasses.replace(rules, upload=compressed.recording(compressor, encoded))
        x0 = tree.cast(self.problem.init, dtype)
        message = self.read(arrays, x0, dtype, rules)
        folder = self.folder(task.run)
        with lock.locked(folder):
            states = tensors.Generations(folder / "state")
            kept = self._choose(states, task, x0, message, rules)
            state, solution, spent = self.solved(rules, kept.state, message, task, kept.number)
            counted, norm = limits.bounded(rules, state, solution.x, message, self.site_rules)  # before it is stored
            self.norms.append(norm)
            number = kept.number + 1
            states.save(number, {"uid": task.uid, "number": number}, tensors.flatten(state))
        upload = UploadHeader(
            run=task.run,
            uid=task.uid,
            ticket=task.ticket,
            client=self.client,
            number=number,
            version=task.version,
            precision=task.precision,
            rejoined=kept.rejoined,
            steps=int(solution.steps),
            error=float(solution.error),
            spent=spent,
        )
        if compressor is not None:
            return upload, compressed.encode(encoded)
        return upload, wire.encode(counted, dtype)

    def solved(
        self, rules: Any, state: Any, message: Tree, task: TaskHeader, number: int
    ) -> tuple[Any, Solution, float]:
        """Return the client's state after its next update, what the rules saw of the solution, and what was spent.

        The last is the account of a private method, after this update; 0 without privacy.
        """
        sub = rules.subproblem(state, message)

        def solve() -> Solution:
            rng = client_rng(task.seed, self.client, number)
            solver, noise = self._solver(precisions.of(task.precision)), private.SecretNoise()
            solution = solver(0, sub, rng, task.round, task.probability, noise)
            if inaccurate(solution):
                warn_inaccurate(solution, self.client, task.round, self.local, rules)
            return solution

        if getattr(rules, "privacy", None) is None:
            solution, spent = solve(), 0.0
        else:
            check_local(rules.privacy, self.local)
            check_samples(rules.privacy, self.problem.data.train.samples)
            account, update = private.account(self.root, self.client), private.private_message(task, number, message)
            solution, spent = account.release(rules, self.local, sub, update, solve)
        solution = solution._replace(draw=upload_draw(task.seed, self.client, number))
        return rules.finish(state, message, sub, solution)[0], solution, spent

    def evaluate(self, task: TaskHeader, arrays: Any) -> Metrics:
        """Return the means over this client's samples at xbar, but for those that its site keeps to itself."""
        private.check(self.algorithm, "nodes")
        self.check_plain()
        self.rules(task)
        dtype = precisions.of(task.precision)
        xbar = wire.decode(arrays, tree.cast(self.problem.init, dtype), dtype, sent_by_server=True)
        problem = self.problem
        evaluator = Evaluator(problem, dtype) if isinstance(problem, Problem) else PlainEvaluator(problem, dtype)
        metrics, test = self._metrics(evaluator, xbar), problem.data.test
        fewest = max(self.fewest_rows, self.site_rules.fewest_records_evaluated or 0)
        full = Metrics(
            uid=task.uid,
            ticket=task.ticket,
            client=self.client,
            loss=metrics["train_loss"],
            accuracy=metrics["train_accuracy"],
            samples=problem.data.train.num_samples,
            test_accuracy=metrics["test_accuracy"],
            test_samples=0 if test is None else test.num_samples,
            sums=site_metrics.answer(problem, evaluator, xbar, task.metrics, fewest),
        )
        return limits.disclosed(full, self.site_rules)

    def check_plain(self) -> None:
        """Refuse a task whose answer the server could read, where this client takes part in secure rounds."""
        if self.secure is not None:
            raise ValueError(
                f"This site takes part in secure rounds only, with {self.secure}, and was asked for what the server "
                "can read; give the server app the same, or this one none."
            )

    def folder(self, run: str) -> Path:
        """Return the folder of this client in a run."""
        return self.root / "node" / run / f"client-{self.client}"

    def read(self, arrays: Any, x0: Tree, dtype: np.dtype[Any], rules: Deployable) -> Tree:
        """Return the broadcast of a task."""
        template = tree.cast(rules.broadcast(rules.server(x0)), dtype)
        download = getattr(rules, "download", None)
        if download is not None:
            (message,) = compressed.decode(arrays, download, [template])
            return message
        return wire.decode(arrays, template, dtype, sent_by_server=True)

    def _solver(self, dtype: np.dtype[Any]) -> CompiledClients | PlainClients:
        privacy = record_level(self.algorithm)
        if not isinstance(self.problem, Problem):
            return PlainClients(self.problem, self.local, dtype, privacy)
        samples, mean = precisions.samples(self.problem.data.train.samples, dtype), self.algorithm.needs_gradient
        return CompiledClients(self.problem, samples, self.local, dtype, mean, privacy=privacy)

    def _metrics(self, evaluator: Evaluates, xbar: Tree) -> dict[str, float]:
        problem = self.problem
        if isinstance(problem, Problem):
            return evaluator.at(xbar)
        return {
            "train_loss": problem.f(xbar),
            "train_accuracy": problem.accuracy(xbar, problem.data.train),
            "test_accuracy": problem.accuracy(xbar, problem.data.test),
        }

    def _choose(
        self, states: tensors.Generations, task: TaskHeader, x0: Tree, message: Tree, rules: Deployable
    ) -> Kept:
        """Return the state to continue from; the top of this file says why."""
        fresh = rules.client(x0, message)
        if task.accepted == 0:
            return Kept(fresh, 0)
        lost = Kept(rules.recover(message), task.accepted, rejoined=True)
        own = {number: record.arrays for number, record in states.undamaged() if record.header["uid"] == task.uid}
        if getattr(rules, "upload", None) is not None:
            state = tensors.restore(fresh, own[task.accepted]) if task.accepted in own else None
            same = state is not None and identity.digest(rules.absolute_upload(state, x0)) == task.counted
            return Kept(state, task.accepted) if same else lost
        number = task.accepted if task.accepted in own else max(own, default=0)
        return lost if number < task.accepted else Kept(tensors.restore(fresh, own[number]), number)

    def rules(self, task: TaskHeader) -> Deployable:
        """Return the algorithm with this client's step sizes, if the task is for this node."""
        if task.client != self.client:
            raise ValueError(f"This node is client {self.client}, the task is for client {task.client}.")
        if task.rules != identity.rules(self.algorithm, task.precision, self.problem.init, self.secure):
            raise ValueError(
                f"Server and node must have the same algorithm and the same start, this node has {self.algorithm} and "
                "a start of its own; give both apps the same algorithm, and problems with the server's init."
            )
        rules: Deployable = steps.own(self.algorithm, task.eta, task.alpha, task.alpha_decay)
        return rules
