"""``client_app``: the Flower ClientApp of a node, which answers each message of the server."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from feddr.algorithms import Algorithm
from feddr.algorithms.algorithm import ProblemLike
from feddr.flower import messages, secure_site
from feddr.flower.guard import SiteGuard
from feddr.flower.messages import Checkup, Hello, TableQuestion, TaskHeader
from feddr.flower.node import Node
from feddr.flower.settings import FromContext, from_context
from feddr.flower.shared_table import FEWEST_ROWS, TableProblem, answer
from feddr.local import LocalSolver
from feddr.secure import SecureAggregation


def client_app(
    problem: Callable[[int, Context], ProblemLike] | TableProblem,
    algorithm: FromContext[Algorithm],
    local: FromContext[LocalSolver],
    *,
    folder: str | Path | None = None,
    mods: Sequence[Mod] = (),
    experiment: str = "",
    fewest_rows: int = FEWEST_ROWS,
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
    experiment
        The hash of the experiment, which deployments from a config fill in: a site may list those that it takes part
        in (``experiments`` in its rules), and counts updates by it.
    fewest_rows
        A part of the client's data with fewer samples tells no sums for the server's ``metrics``; a ``SharedTable`` has
        its own number.
    secure
        The server's, for secure rounds (docs/SECURE.md), or a function from Flower's context to it. The client then
        takes part in those alone: it sends nothing of its own that the server could read.

    Notes
    -----
    Where the node was started with ``--site SITE.toml`` the rules of that file hold. Everything that leaves is written
    to a log first, which ``feddr deploy audit`` checks.

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
    app, guard = ClientApp(), SiteGuard(experiment, folder)

    def node(context: Context, preparation: str = "") -> Node:
        own = Node.open(
            problem,
            from_context(algorithm, context),
            from_context(local, context),
            folder,
            context,
            preparation,
            problem.table.fewest_rows if isinstance(problem, TableProblem) else fewest_rows,
        )
        return dataclasses.replace(own, secure=from_context(secure, context))

    @app.query(mods=[guard])
    def hello(message: Message, context: Context) -> Message:
        greeting = Hello.read(message.content)
        return Message(node(context, greeting.preparation).hello(greeting).content(), reply_to=message)

    @app.query("table", mods=[guard])
    def table(message: Message, context: Context) -> Message:
        question = TableQuestion.read(message.content)
        one = node(context)
        if isinstance(problem, TableProblem) and one.site_rules.minimum_records is not None:
            one.site_rules.check_records(problem.training_size(one.client, context))
        return Message(answer(problem, one.client, context, question).content(), reply_to=message)

    @app.query("checkup", mods=[guard])
    def checkup(message: Message, context: Context) -> Message:
        return Message(node(context).checkup(Checkup.read(message.content)).content(), reply_to=message)

    @app.query("secure", mods=[guard])
    def protocol(message: Message, context: Context) -> Message:
        return Message(secure_site.answer(node(context), message.content), reply_to=message)

    @app.train("secure", mods=[guard, *mods])
    def masked(message: Message, context: Context) -> Message:
        one = node(context, TaskHeader.read(message.content).preparation)
        reply = Message(secure_site.answer(one, message.content), reply_to=message)
        for norm in one.norms:
            guard.note(message, norm)
        return reply

    @app.train(mods=[guard, *mods])
    def train(message: Message, context: Context) -> Message:
        task, arrays = TaskHeader.read(message.content), messages.arrays(message.content)
        one = node(context, task.preparation)
        upload, counted = one.train(task, arrays)
        guard.note(message, one.norms[-1])
        return Message(upload.content(counted), reply_to=message)

    @app.evaluate(mods=[guard])
    def evaluate(message: Message, context: Context) -> Message:
        task, arrays = TaskHeader.read(message.content), messages.arrays(message.content)
        return Message(node(context, task.preparation).evaluate(task, arrays).content(), reply_to=message)

    return app
