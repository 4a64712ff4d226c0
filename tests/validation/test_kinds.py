"""What people hand over by mistake: one line with requirement, value and remedy each."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import feddr
from feddr import FederatedData
from feddr.validation import kinds

X = np.random.default_rng(0).normal(size=(6, 5))
DATA = FederatedData.from_clients([{"x": X[:3], "y": [0, 1, 2]}, {"x": X[3:], "y": [0, 1, 2]}])
SOFTMAX = feddr.models.softmax(5, 3)
PROBLEM = feddr.Problem.classification(SOFTMAX, DATA)
SGD = feddr.local.SGD(lr=0.1)


class Foreign:
    """Stands for a module of another library, which need not be installed to be known by its name."""


def of(library: str) -> Any:
    return type("Net", (Foreign,), {"__module__": f"{library}.nn.modules"})()


def column(y: Any) -> FederatedData:
    return FederatedData.from_clients([{"x": X, "y": y}])


def run(**changes: Any) -> Any:
    given: dict[str, Any] = {"problem": PROBLEM, "algorithm": feddr.FedAvg(), "local": SGD, "rounds": 1} | changes
    engine = given.pop("engine", feddr.simulate)
    return engine(given.pop("problem"), given.pop("algorithm"), **given)


classification, regression = feddr.Problem.classification, feddr.Problem.regression

MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: run(algorithm=feddr.FedDR), "algorithm must be an instance, got the class FedDR; write FedDR(...)."),
    (lambda: run(local=feddr.local.SGD), "local must be an instance, got the class SGD; write SGD(...)."),
    (
        lambda: run(sampling=feddr.sampling.Uniform),
        "sampling must be an instance, got the class Uniform; write Uniform(...).",
    ),
    (lambda: run(algorithm="FedDR"), "algorithm must be an object such as feddr.FedDR(), got 'FedDR'."),
    (lambda: run(local=0.1), "local must be an object such as feddr.local.SGD(lr=0.01), got 0.1."),
    (lambda: run(sampling=1), "sampling must be an object such as feddr.sampling.Uniform(10), got 1."),
    (
        lambda: classification(SOFTMAX, DATA, g=0.1),  # type: ignore[arg-type]
        "g must be an object such as feddr.prox.L1(0.01), got 0.1.",
    ),
    (
        lambda: FederatedData.from_clients({"ann": {"x": X}, "bob": {"x": X}}),  # type: ignore[arg-type]
        "Clients must be a list, with a mapping of arrays for each, got a mapping of 'ann', 'bob'; give "
        "list(clients.values()), or from_arrays(X, y, clients=names).",
    ),
    (
        lambda: run(engine=feddr.reference, algorithm=feddr.FedAvg),
        "algorithm must be an instance, got the class FedAvg; write FedAvg(...).",
    ),
    (
        lambda: feddr.simulate_async(PROBLEM, feddr.AsyncFedDR, local=SGD, updates=1),  # type: ignore[arg-type]
        "algorithm must be an instance, got the class AsyncFedDR; write AsyncFedDR(...).",
    ),
    (
        lambda: run(problem=[1, 2]),
        "problem must be a feddr.Problem, got a list; use Problem.classification or Problem.regression.",
    ),
    (
        lambda: classification(SOFTMAX, DATA, g=feddr.prox.L1),  # type: ignore[arg-type]
        "g must be an instance, got the class L1; write L1(...).",
    ),
    (
        lambda: classification(SOFTMAX, [X, X]),  # type: ignore[arg-type]
        "data must be a FederatedData, got a list; use FederatedData.from_clients([{'x': ..., 'y': ...}, ...]).",
    ),
    (
        lambda: classification(feddr.models.mlp, DATA),  # type: ignore[arg-type]
        "model must be a feddr.models.Model, got the function mlp; call it with its sizes first, as in "
        "feddr.models.mlp([60, 32, 10]).",
    ),
    (
        lambda: classification(of("torch"), DATA),
        "model must be a feddr.models.Model, got a Net; use feddr.models.from_torch(module, example), or "
        "feddr.torch.TorchProblem(module, data).",
    ),
    (
        lambda: regression(of("flax"), DATA),
        "model must be a feddr.models.Model, got a Net; use feddr.models.from_flax(module, example).",
    ),
    (
        lambda: regression(type(of("flax")), DATA),  # type: ignore[arg-type]
        "model must be a feddr.models.Model, got the class Net; use feddr.models.from_flax(module, example).",
    ),
    (
        lambda: regression(of("equinox"), DATA),
        "model must be a feddr.models.Model, got a Net; use feddr.models.from_equinox(build, example).",
    ),
    (
        lambda: classification(feddr.models.softmax(7, 3), DATA),
        "model softmax takes 7 features, the samples have 5; build it with 5.",
    ),
    (
        lambda: regression(feddr.models.linear(4), column(X[:, 0])),
        "model linear takes 4 features, the samples have 5; build it with 5.",
    ),
    (
        lambda: classification(feddr.models.mlp([7, 3]), DATA),
        "model mlp takes 7 features, the samples have 5; build it with 5.",
    ),
    (
        lambda: classification(
            feddr.models.softmax(10, 3), FederatedData.from_clients([{"x": X.reshape(3, 2, 5), "y": [0, 1, 2]}])
        ),
        "model softmax takes 10 features, the samples have the shape (2, 5); make rows of them, x.reshape(len(x), -1).",
    ),
    (
        lambda: classification(feddr.models.Model(lambda _: np.zeros((4, 3)), lambda params, x: x @ params, 3), DATA),
        "model does not fit samples of shape (5,): dot_general requires contracting dimensions to have the same "
        "shape, got (5,) and (4,); build it for this shape.",
    ),
    (
        lambda: classification(feddr.models.mlp([5, 1]), DATA),
        "Classification needs a score for each class, or one number a sample for two classes, got rows of one score; "
        "give the model 2 outputs, or return outputs[:, 0] (torch.nn.Flatten(0) at the end of a module).",
    ),
    (
        lambda: classification(SOFTMAX, column(np.zeros((6, 1), int))),
        "Classification needs one label a sample, the train data has y of shape (6, 1); use y[:, 0].",
    ),
    (
        lambda: regression(feddr.models.linear(5), column(np.zeros((6, 1)))),
        "Regression needs one label a sample, the train data has y of shape (6, 1); use y[:, 0].",
    ),
    (
        lambda: regression(SOFTMAX, DATA),
        "Regression needs a model with one output, got 3; use models.linear, or an mlp whose last size is 1.",
    ),
    (
        lambda: regression(feddr.models.linear(5), FederatedData.from_clients([{"x": X}])),
        "Regression needs the arrays x and y, the train data has no y.",
    ),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=[str(i) for i in range(len(MISTAKES))])
def test_a_mistake_gets_one_line(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message is compared
        mistake()
    assert str(caught.value) == message
    assert "\n" not in message


def test_a_network_with_one_output_may_be_a_regression() -> None:
    problem = regression(feddr.models.mlp([5, 4, 1]), column(X[:, 0]))
    params = problem.init
    assert problem.model is not None
    outputs = np.asarray(problem.model.apply(params, jnp.asarray(X)))[:, 0]
    assert problem.f(params) == pytest.approx(0.5 * np.mean((outputs - X[:, 0]) ** 2), rel=1e-5)
    result = feddr.simulate(problem, feddr.FedAvg(), local=SGD, rounds=1)
    assert result.predict(X).shape == (6,)


@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("feddr.torch", "torch", r"'feddr\[torch\]'"),
        ("feddr.estimators", "sklearn", r"'feddr\[sklearn\]'"),
    ],
)
def test_a_missing_package_is_named(name: str, package: str, install: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=f"{name} needs .*, which is not installed; pip install {install}"):
        importlib.import_module(name)


def test_equinox_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "equinox", None)
    with pytest.raises(ModuleNotFoundError, match="from_equinox needs equinox, which is not installed; pip install"):
        feddr.models.from_equinox(lambda key: key, X)


def test_a_kind_that_is_right_passes() -> None:
    kinds.instance("data", DATA, FederatedData)
    kinds.model(SOFTMAX, feddr.models.Model)
