"""Small federations, deployed in one process."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.clientapp import ClientApp
from rich.console import Console

import feddr
from feddr import flower, tree
from feddr.algorithms import Algorithm
from feddr.engines.shared.compiled_clients import CompiledClients
from feddr.engines.shared.evaluation import Evaluator
from feddr.flower import node as node_module
from feddr.flower.progress import ProgressTable
from feddr.flower.run import serve
from feddr.flower.settings import Settings
from feddr.history import History
from feddr.local import LocalSolver
from tests.conftest import make_classes, make_regression
from tests.flower.fake_grid import FakeGrid

QUIET = ProgressTable("test", "round", 0, Console(quiet=True))


def one_client(problem: feddr.Problem, client: int) -> feddr.Problem:
    """Return the problem as the node of a client knows it."""
    test = problem.data.test
    data = feddr.FederatedData.from_clients(
        [problem.data.train.client(client)], None if test is None else [test.client(client)]
    )
    return dataclasses.replace(problem, data=data, g=None, weights="uniform", curvature=None)


def app_for(problem: feddr.Problem, algorithm: Algorithm, local: LocalSolver, **more: Any) -> ClientApp:
    """Return the ClientApp of all nodes of a problem."""

    def own(client: int, context: Context) -> feddr.Problem:
        del context
        return parts(problem)(client)

    return flower.client_app(own, algorithm, local, **more)


@cache
def classes() -> feddr.Problem:
    """Return a small classification problem over four uneven clients with test samples."""
    data = make_classes(sizes=(13, 30, 8, 21), dimension=5, classes=3, seed=2)
    return feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), data, weights="samples")


@cache
def lasso() -> feddr.Problem:
    """Return a sparse regression over three uneven clients, whose own solutions differ."""
    data = make_regression(sizes=(20, 12, 30), dimension=6, seed=1)
    known = feddr.Problem.regression(feddr.models.linear(6), data).curvature
    return feddr.Problem(squares, data, np.zeros(6), feddr.prox.L1(0.3), curvature=known)


@cache
def lasso_solution() -> Any:
    """Return what scikit-learn finds for the pooled problem, whose clients weigh the same whatever their size."""
    from sklearn.linear_model import Lasso

    data, clients = lasso().data.train, 3
    rows = np.sqrt(data.num_samples / (clients * np.repeat(data.sizes, data.sizes)))
    x, y = data.samples["x"] * rows[:, None], data.samples["y"] * rows
    return Lasso(alpha=0.3, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(x, y).coef_


def squares(x: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ x - batch["y"]) ** 2


def federation_of(problem: feddr.Problem, **more: Any) -> flower.Federation:
    weights = problem.weights if isinstance(problem.weights, str) else np.asarray(problem.weights).tolist()
    return flower.Federation(problem.init, problem.data.num_clients, problem.g, weights, **more)


def populated(grid: FakeGrid, app: ClientApp, clients: Iterable[int], folder: Path) -> FakeGrid:
    """Give each client a node."""
    for client in clients:
        grid.add(client, app, folder / f"disk-{client}")
    return grid


def deploy(
    grid: FakeGrid,
    federation: flower.Federation,
    algorithm: Algorithm,
    folder: Path,
    sampling: feddr.sampling.Sampling | None = None,
    **settings: Any,
) -> History:
    scheme = feddr.sampling.Full() if sampling is None else sampling
    chosen = Settings(folder=folder, **settings)
    return serve(grid, federation, algorithm, scheme, chosen, grid.clock, QUIET)


def xbar_of(folder: Path, name: str = "feddr") -> dict[str, Any]:
    """Return xbar as the books have it, by name."""
    arrays = flower.read_run(folder / "server" / name).server
    return {key: array for key, array in arrays.items() if key == "xbar" or key.startswith("xbar.")}


def distance(arrays: dict[str, Any], params: tree.Tree) -> float:
    """Return how far arrays of ``xbar_of`` are from a tree."""
    named = tree.named(params)
    only = len(named) == 1 and "x" in named
    return tree.norm([arrays["xbar" if only else f"xbar.{key}"] - leaf for key, leaf in named.items()])


def events(folder: Path, name: str = "") -> list[dict[str, Any]]:
    """Return the events of a run from its log, all or those of a name."""
    lines = (folder / "server" / "feddr" / "log.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if not name or event["event"] == name]


_COMPILED: dict[Any, Callable[..., Any]] = {}


def keep_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile a client's update once: on a real node every message has a process of its own, and a cache on disk."""

    def make(problem: feddr.Problem, samples: Any, local: Any, dtype: Any, gradient: bool, privacy: Any = None) -> Any:
        key = (id(problem), local, str(dtype), gradient, privacy)
        if key not in _COMPILED:
            _COMPILED[key] = CompiledClients(problem, samples, local, dtype, gradient, privacy=privacy)
        return _COMPILED[key]

    monkeypatch.setattr(node_module, "CompiledClients", make)
    monkeypatch.setattr(node_module, "Evaluator", cache(Evaluator))


@cache
def parts(problem: feddr.Problem) -> Callable[[int], feddr.Problem]:
    """Return the problems of the nodes, each made once."""
    return cache(lambda client: one_client(problem, client))
