"""``client_app``: a node with one client's data, its rules of the algorithm, and its state on the node's own disk.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from feddr import precision as precisions
from feddr import tree
from feddr.algorithms import Algorithm, Deployable
from feddr.algorithms.algorithm import ProblemLike
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.errors import inaccurate, warn_inaccurate
from feddr.engines.shared.evaluation import Evaluator
from feddr.engines.shared.plain_clients import PlainClients
from feddr.engines.shared.randomness import client_rng, upload_draw
from feddr.flower import compressed, identity, messages, secure_site, steps, wire
from feddr.flower.messages import Checkup, Hello, Metrics, Presence, TableQuestion, TaskHeader, UploadHeader, Working
from feddr.flower.settings import FromContext, from_context
from feddr.flower.shared_table import TableProblem, answer, own_problem
from feddr.local import LocalSolver, Solution
from feddr.problem import Problem
from feddr.secure import SecureAggregation
from feddr.storage import lock, tensors
from feddr.tree import Tree
from feddr.xla import compilation_cache


def client_app(
    problem: Callable[[int, Context], ProblemLike] | TableProblem,
    algorithm: FromContext[Algorithm],
    local: FromContext[LocalSolver],
    *,
    folder: str | Path | None = None,
    mods: Sequence[Mod] = (),
    secure: FromContext[SecureAggregation | None] = None,
) -> ClientApp:
    """Return a Flower ClientApp for one client.

    Parameters
    ----------
    problem
        From (client, context) to the problem with this client's data and nobody else's; the client is the node's
        ``partition-id``. Its start must be the server's. A ``feddr.torch.TorchProblem`` will do. Or
        ``SharedTable.problem(read)``, where the nodes agree first on how to prepare their tables.
    algorithm
        The server's, as the server is given it, or a function from Flower's context to it. Where its eta or alpha is
        "auto", or eta a list, the server sends the client its own numbers.
    local
        How the client solves its subproblems, or a function from Flower's context to it.
    folder
        Where the client keeps its state, unless the node config has a ``feddr-folder``; $FEDDR_HOME by default, else
        ~/.local/state/feddr.
    mods
        Flower mods around the client's work, such as ``LocalDpMod``; those that read arrays need the server to
        broadcast ``"dense"``, and an algorithm without compression.
    secure
        The server's, for secure rounds (docs/SECURE.md), or a function from Flower's context to it. The client then
        takes part in those alone: it sends nothing of its own that the server could read.

    Examples
    --------
    >>> import feddr
    >>> from feddr import flower
    >>> def problem(client, context):
    ...     data = feddr.datasets.synthetic(1, 1, num_clients=4, seed=0).train.client(client)
    ...     one = feddr.FederatedData.from_clients([data])
    ...     return feddr.Problem.classification(feddr.models.softmax(60, 10), one)
    >>> app = flower.client_app(problem, feddr.FedDR(), feddr.local.SGD(lr=0.01))
    """
    app = ClientApp()

    def node(context: Context, preparation: str = "") -> Node:
        node = Node.open(
            problem, from_context(algorithm, context), from_context(local, context), folder, context, preparation
        )
        return dataclasses.replace(node, secure=from_context(secure, context))

    @app.query()
    def hello(message: Message, context: Context) -> Message:
        greeting = Hello.read(message.content)
        return Message(node(context, greeting.preparation).hello(greeting).content(), reply_to=message)

    @app.query("table")
    def table(message: Message, context: Context) -> Message:
        question = TableQuestion.read(message.content)
        return Message(answer(problem, node(context).client, context, question).content(), reply_to=message)

    @app.query("checkup")
    def checkup(message: Message, context: Context) -> Message:
        return Message(node(context).checkup(Checkup.read(message.content)).content(), reply_to=message)

    @app.query("secure")
    def protocol(message: Message, context: Context) -> Message:
        return Message(secure_site.answer(node(context), message.content), reply_to=message)

    @app.train("secure", mods=list(mods))
    def masked(message: Message, context: Context) -> Message:
        preparation = TaskHeader.read(message.content).preparation
        return Message(secure_site.answer(node(context, preparation), message.content), reply_to=message)

    @app.train(mods=list(mods))
    def train(message: Message, context: Context) -> Message:
        task, arrays = TaskHeader.read(message.content), messages.arrays(message.content)
        upload, counted = node(context, task.preparation).train(task, arrays)
        return Message(upload.content(counted), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        task, arrays = TaskHeader.read(message.content), messages.arrays(message.content)
        return Message(node(context, task.preparation).evaluate(task, arrays).content(), reply_to=message)

    return app


class Kept(NamedTuple):
    """The state that a client continues from: its update number, and whether it had to restart."""

    state: Any
    number: int
    rejoined: bool = False


@dataclass(frozen=True)
class Node:
    """One client."""

    client: int
    load: Callable[[], ProblemLike]
    algorithm: Deployable
    local: LocalSolver
    root: Path
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
        return cls(client, lambda: own_problem(problem, client, context, preparation), algorithm, local, root)

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
            state, solution = self.solved(rules, kept.state, message, task, kept.number)
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
        )
        if compressor is not None:
            return upload, compressed.encode(encoded)
        return upload, wire.encode(rules.absolute_upload(state, solution.x), dtype)

    def solved(
        self, rules: Deployable, state: Any, message: Tree, task: TaskHeader, number: int
    ) -> tuple[Any, Solution]:
        """Return the client's state after its next update, and the solution of its subproblem."""
        sub = rules.subproblem(state, message)
        rng = client_rng(task.seed, self.client, number)
        solution = self._solver(precisions.of(task.precision))(0, sub, rng, task.round, task.probability)
        if inaccurate(solution):
            warn_inaccurate(solution, self.client, task.round, self.local, rules)
        solution = solution._replace(draw=upload_draw(task.seed, self.client, number))
        return rules.finish(state, message, sub, solution)[0], solution

    def evaluate(self, task: TaskHeader, arrays: Any) -> Metrics:
        """Return the means over this client's samples at xbar."""
        self.check_plain()
        self.rules(task)
        dtype = precisions.of(task.precision)
        xbar = wire.decode(arrays, tree.cast(self.problem.init, dtype), dtype, sent_by_server=True)
        metrics, test = self._metrics(xbar, dtype), self.problem.data.test
        return Metrics(
            uid=task.uid,
            ticket=task.ticket,
            client=self.client,
            loss=metrics["train_loss"],
            accuracy=metrics["train_accuracy"],
            samples=self.problem.data.train.num_samples,
            test_accuracy=metrics["test_accuracy"],
            test_samples=0 if test is None else test.num_samples,
        )

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
        if not isinstance(self.problem, Problem):
            return PlainClients(self.problem, self.local, dtype)
        samples = precisions.samples(self.problem.data.train.samples, dtype)
        return CompiledClients(self.problem, samples, self.local, dtype, self.algorithm.needs_gradient)

    def _metrics(self, xbar: Tree, dtype: np.dtype[Any]) -> dict[str, float]:
        problem = self.problem
        if isinstance(problem, Problem):
            return Evaluator(problem, dtype).at(xbar)
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
        rules: Deployable = steps.own(self.algorithm, task.eta, task.alpha)
        return rules
