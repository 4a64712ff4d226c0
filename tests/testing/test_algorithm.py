"""Our own algorithms keep the laws of ``feddr.testing``, and one that breaks a law is caught by its name."""

import inspect
import itertools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import optax
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm, Uploads
from feddr.algorithms.fedavg import FedAvgServer
from feddr.local import Solution, Subproblem
from feddr.prox.regulariser import Prox
from feddr.testing import check_algorithm
from feddr.tree import Tree

QUICK: list[Algorithm] = [feddr.FedDR(), feddr.FedBuff(buffer=3)]
OTHERS: list[Algorithm] = [
    feddr.FedDR(eta=1.0, alpha=1.5, mean="all"),
    feddr.FedDR(eta=1.0, alpha=1.5, init="full"),
    feddr.FedDR(eta=[0.5, 1.0, 2.0], alpha=1.2),
    feddr.FedDR(eta=1000.0, alpha=1.95, start="own", mean="all"),
    feddr.AsyncFedDR(),
    feddr.FedAsync(),
    feddr.CA2FL(buffer=3),
    feddr.FedAvg(),
    feddr.FedProx(mu=0.5),
    feddr.FedPD(eta=1.0),
    feddr.FedSplit(eta=1.0),
    feddr.FedDyn(eta=1.0),
    feddr.Scaffold(),
    feddr.Scaffnew(p=0.2),
    feddr.FedNova(),
    feddr.MimeLite(),
    feddr.FedMid(),
    feddr.FedMid(proximal="server"),
    feddr.FedMid(proximal="clients"),
    feddr.FedDualAvg(),
    feddr.FedDecoupled(),
    feddr.FedAvgM(),
    feddr.FedAdam(),
    feddr.FedYogi(),
    feddr.FedAdagrad(),
    feddr.FedOpt(optax.sgd(1.0)),
]


@pytest.mark.parametrize(
    "algorithm", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)], ids=repr
)
def test_ours_keep_the_laws(algorithm: Algorithm) -> None:
    check_algorithm(algorithm)


def test_every_algorithm_is_here() -> None:
    protocols = {"Algorithm", "Asynchronous", "Deployable"}
    ours = {name for name in feddr.algorithms.__all__ if hasattr(getattr(feddr.algorithms, name), "composite")}
    assert {type(one).__name__ for one in QUICK + OTHERS} == ours - protocols


class Changeable:
    """FedAvg as an ordinary object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(feddr.FedAvg(), name)


@dataclass(frozen=True)
class Unhashable(feddr.FedAvg):
    settings: list[float] = field(default_factory=list)


class ChangesItsArguments(feddr.FedAvg):
    def finish(self, c: Any, xbar: Tree, sub: Subproblem, solution: Solution) -> tuple[Any, Tree]:
        solution.x[...] = 0.0
        return super().finish(c, xbar, sub, solution)


class Remembers(feddr.FedAvg):
    calls = itertools.count()

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(tree.scale(1.0 + next(self.calls), super().aggregate(s, uploads, prox).xbar))


class Nameless(NamedTuple):
    model: Tree


class HasNoXbar(feddr.FedAvg):
    def server(self, x0: Tree) -> Any:
        return Nameless(x0)

    def broadcast(self, s: Any) -> Tree:
        return s.model


class Narrow(feddr.FedAvg):
    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        return FedAvgServer(tree.cast(super().aggregate(s, uploads, prox).xbar, np.float32))


class MiscountsUploads(feddr.FedDR):
    def increment(self, xhat: Tree, before: Tree, xbar: Tree) -> Tree:
        return tree.scale(2.0, super().increment(xhat, before, xbar))


class LosesItsBooks(feddr.Scaffold):
    def aggregate(self, s: Any, uploads: Uploads, prox: Prox) -> Any:
        return super().aggregate(s, uploads, prox)._replace(control=s.control)


class CannotRecover(feddr.Scaffold):
    def recover(self, message: Any) -> Any:
        return super().recover(message)._replace(control=tree.scale(float("nan"), message.control))


class RecoversNothing(feddr.Scaffold):
    def recover(self, message: Any) -> Any:
        return super().recover(message)[:0]


class SaysComposite(feddr.FedAvg):
    composite = True


class SaysMaybe(feddr.FedAvg):
    partial = None  # type: ignore[assignment]


class DependsOnTheCaller(feddr.FedAvg):
    """Another message in the plain loop than in the simulator."""

    def broadcast(self, s: FedAvgServer) -> Tree:
        plain = any(frame.filename.endswith("reference.py") for frame in inspect.stack())
        return tree.scale(1.0 + 1e-3 * plain, s.xbar)


class CountsThreads(feddr.FedAvg):
    """A thread cannot count the others in a way that a test could rely on, so that this one looks at the caller."""

    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        callers = [frame.frame.f_locals for frame in inspect.stack() if frame.function == "_play"]
        many = any(locals_["more"].get("threads") == 3 for locals_ in callers)
        return FedAvgServer(tree.scale(1.0 + 1e-3 * many, super().aggregate(s, uploads, prox).xbar))


class KeepsBesideItsState(feddr.FedAvg):
    """What a round leaves behind outside of the state is not in a checkpoint."""

    seen: set[int] = set()  # noqa: RUF012

    def server(self, x0: Tree) -> Any:
        self.seen.clear()
        return super().server(x0)

    def aggregate(self, s: Any, uploads: Uploads, prox: Prox) -> Any:
        self.seen.add(s.xbar.tobytes())
        return FedAvgServer(tree.scale(1.0 / len(self.seen), super().aggregate(s, uploads, prox).xbar))


class GoesUphill(feddr.FedAvg):
    def aggregate(self, s: FedAvgServer, uploads: Uploads, prox: Prox) -> FedAvgServer:
        new = super().aggregate(s, uploads, prox).xbar
        return FedAvgServer(tree.axpy(-0.1, tree.sub(new, s.xbar), s.xbar))


BROKEN: list[tuple[Any, str]] = [
    (Changeable(), "'hyper-parameters': Changeable can be changed"),
    (Unhashable(), "'hyper-parameters': Unhashable cannot be hashed"),
    (ChangesItsArguments(), "'pure rules': finish changed its arguments"),
    (Remembers(), "'pure rules': aggregate returned two results"),
    (HasNoXbar(), "'server state': it has no xbar, got Nameless"),
    (Narrow(), "'server state': xbar must be finite and float64, got float32"),
    (MiscountsUploads(eta=1.0, alpha=1.2), r"'absolute uploads': .* is [\d.]+, at most"),
    (LosesItsBooks(), r"'invariant': invariant_gap is [\d.]+, at most"),
    (CannotRecover(), "'recovery': the subproblem or the upload after recover is not finite"),
    (RecoversNothing(), "'recovery': recover gives"),
    (SaysComposite(), r"'flags': composite is True, .* is [\d.]+, at most 1e-09"),
    (SaysMaybe(), "'flags': partial is None"),
    (DependsOnTheCaller(), r"'reference': .* is [\d.e-]+, at most"),
    (CountsThreads(), r"'threads': three threads changed the state of the server, xbar by [\d.e-]+, 0 is allowed"),
    (KeepsBesideItsState(), r"'resume': a stop after 2 of 4 rounds changed .* by [\d.e-]+, 0 is allowed"),
    (GoesUphill(), r"'descent': .* is [\d.e+]+, at most 0.95"),
]


@pytest.mark.parametrize(("algorithm", "message"), BROKEN, ids=[type(one).__name__ for one, _ in BROKEN])
def test_a_broken_law_is_named(algorithm: Algorithm, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_algorithm(algorithm)
