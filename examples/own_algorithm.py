"""An algorithm of your own: FedAvgM, federated averaging with momentum on the server.

An algorithm is a handful of pure rules: what the server knows at first, what it sends, what a client has to solve, what
it sends back, and what the server makes of the sum. It says nothing of loops, threads, data or randomness, so that the
rules below run in the slow and obviously right ``feddr.reference`` and in the fast ``feddr.simulate``, with the same
result. FedAvgM (Hsu, Qi and Brown 2019) takes the mean move of the clients as a gradient and gives it momentum:

    v := beta v + (xbar - mean of the clients' models),     xbar := xbar - lr v

The picture: FedAvgM beside FedAvg and FedDR on digits of which each client has few kinds; loss and accuracy at xbar.

    python examples/own_algorithm.py [--quick] [--out DIR]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import common
import pandas as pd

import feddr
from feddr import tree
from feddr.algorithms import Algorithm, Uploads
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.tree import Tree


class Server(NamedTuple):
    """State of the server: the model, where everything is evaluated, and the velocity."""

    xbar: Tree
    velocity: Tree


@dataclass(frozen=True)
class FedAvgM:
    """FedAvg with momentum on the server; with beta = 0 and lr = 1 it is FedAvg."""

    beta: float = 0.9
    lr: float = 1.0

    composite: ClassVar[bool] = False  # g = 0 only
    partial: ClassVar[bool] = True  # some of the clients in a round are enough
    full_start: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

    def server(self, x0: Tree) -> Server:
        """Start at x^0, at rest."""
        return Server(x0, tree.zeros_like(x0))

    def broadcast(self, s: Server) -> Tree:
        """Send the model."""
        return s.xbar

    def client(self, _x0: Tree, _xbar: Tree) -> None:
        """Keep nothing from one round to the next."""

    def subproblem(self, _c: None, xbar: Tree) -> Subproblem:
        """Let a client minimise f_i, started at the model that it was sent."""
        return Subproblem(start=xbar)

    def finish(self, _c: None, _xbar: Tree, _sub: Subproblem, solution: Solution) -> tuple[None, Tree]:
        """Send back the model that came out."""
        return None, solution.x

    def aggregate(self, s: Server, uploads: Uploads, _prox: Prox) -> Server:
        """Move with the velocity."""
        mean = tree.scale(1.0 / uploads.weight, uploads.sum)
        velocity = tree.axpy(self.beta, s.velocity, tree.sub(s.xbar, mean))
        return Server(tree.axpy(-self.lr, velocity, s.xbar), velocity)


@dataclass(frozen=True)
class Findings:
    """How far the two engines are apart, relative to the norm of the model, and the last rows."""

    difference: float
    last: pd.DataFrame


def main(argv: Sequence[str] | None = None) -> Findings:
    """Check the rules, compare the methods, print a table and draw the picture."""
    options = common.arguments(__doc__, argv)
    rounds = 10 if options.quick else 100
    data = feddr.datasets.bundled("digits", partition="dirichlet", beta=0.1, num_clients=20)
    problem = feddr.Problem.classification(feddr.models.mlp([64, 32, 10]), data, weights="samples")
    local, sampling = feddr.local.SGD(lr=0.02, epochs=2, batch_size=10), feddr.sampling.Uniform(5)
    run = partial(feddr.simulate, problem, local=local, sampling=sampling, seed=0)
    slow = partial(feddr.reference, problem, local=local, sampling=sampling, seed=0)

    few = 2 if options.quick else 5
    fast, plain = (engine(FedAvgM(), rounds=few).params for engine in (run, slow))
    difference = tree.norm(tree.sub(fast, plain)) / tree.norm(plain)
    print(f"After {few} rounds, simulate and reference differ by {difference:.1e} of the model's norm (float32).\n")

    methods: dict[str, Algorithm] = {"FedAvg": feddr.FedAvg(), "FedAvgM (this file)": FedAvgM()}
    methods["FedDR"] = feddr.FedDR()  # as it is; beta = 0.9 as usual, and FedAvg has nothing to set
    histories = {name: run(method, rounds=rounds, evaluate_every=2).history for name, method in methods.items()}
    columns = ["train_loss", "train_accuracy", "test_accuracy", "local_steps"]
    last = pd.DataFrame({name: history.to_pandas()[columns].iloc[-1] for name, history in histories.items()}).T
    print(last.round(4).to_string())

    figure, (left, right) = common.panels([1, 1])
    for i, (name, history) in enumerate(histories.items()):
        common.curve(left, history.column("round"), history.column("train_loss"), i, name)
        common.curve(right, history.column("round"), [100 * a for a in history.column("test_accuracy")], i, name)
    left.set(xlabel="round", ylabel="training loss at xbar")
    common.log_scale(left)
    right.set(xlabel="round", ylabel="test accuracy at xbar (%)")
    right.legend(frameon=False)
    common.save(figure, options.out / "own_algorithm.png")
    return Findings(difference, last)


if __name__ == "__main__":
    main()
