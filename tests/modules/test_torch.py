"""PyTorch modules: the same mathematics as in JAX, by name, with buffers that stay as they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.engines.shared.plain_clients import PlainClients
from feddr.local import Subproblem
from tests.conftest import make_classes

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'feddr[torch]'")
from feddr.torch import TorchProblem, load, parameters  # noqa: E402  only where torch is there

DATA = make_classes(sizes=(13, 30, 8, 21), dimension=5, classes=3, seed=2)
SIZES = (5, 7, 3)
FULL = feddr.local.SGD(lr=0.1, epochs=5, batch_size=None)
BATCHES = feddr.local.SGD(lr=0.1, epochs=2, batch_size=4)
G = feddr.prox.L1(0.01)


def to_torch(params: tree.Tree) -> dict[str, NDArray[Any]]:
    """Name and transpose the parameters of ``feddr.models.mlp`` as ``torch.nn.Sequential`` has them."""
    named: dict[str, NDArray[Any]] = {}
    for i, layer in enumerate(params.values()):
        named |= {f"{2 * i}.weight": layer["weight"].T, f"{2 * i}.bias": layer["bias"]}
    return named


def problems(g: feddr.prox.Regulariser | None = G, dtype: Any = np.float64) -> tuple[feddr.Problem, TorchProblem]:
    """Return the same network with the same start, once in each library."""
    ours = feddr.Problem.classification(feddr.models.mlp(SIZES), DATA, g=g, weights="samples", seed=3)
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3)).to(
        torch.float64 if dtype == np.float64 else torch.float32
    )
    load(net, to_torch(tree.cast(ours.init, dtype)))
    return ours, TorchProblem(net, DATA, g=g, weights="samples")


def difference(theirs: tree.Tree, ours: tree.Tree) -> float:
    return max(float(np.abs(theirs[name] - array).max()) for name, array in to_torch(ours).items())


@pytest.mark.parametrize(
    ("algorithm", "g"),
    [
        (feddr.FedDR(eta=2.0, alpha=1.3, init="joining"), G),
        (feddr.FedAvg(), None),
        (feddr.FedProx(mu=0.3), None),
        (feddr.Scaffold(), None),
        (feddr.FedMid(), G),
        (feddr.MimeLite(), None),
        (feddr.FedDyn(eta=2.0), None),
        (feddr.FedAdam(), None),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("local", [FULL, BATCHES], ids=["full", "batches"])
def test_every_algorithm_does_what_it_does_in_jax(
    algorithm: Algorithm, g: feddr.prox.Regulariser | None, local: feddr.local.SGD
) -> None:
    ours, theirs = problems(g)
    sampling = feddr.sampling.Uniform(3)
    settings: dict[str, Any] = {"local": local, "rounds": 4, "seed": 1, "sampling": sampling, "evaluate_every": 2}
    expected = feddr.simulate(ours, algorithm, precision="float64", **settings)
    found = feddr.reference(theirs, algorithm, precision="float64", **settings)
    assert difference(found.params, expected.params) < 1e-12
    for name in ("F", "f", "g", "train_accuracy", "test_accuracy", "gradient_mapping"):
        np.testing.assert_allclose(found.history.column(name), expected.history.column(name), rtol=1e-10, atol=1e-12)
    assert found.history.column("bytes_up") == expected.history.column("bytes_up")


def test_full_batch_steps_agree_in_float32() -> None:
    ours, theirs = problems(dtype=np.float32)
    algorithm = feddr.FedDR(eta=2.0, alpha=1.3)
    expected = feddr.simulate(ours, algorithm, local=FULL, rounds=10)
    found = feddr.reference(theirs, algorithm, local=FULL, rounds=10)
    assert difference(found.params, expected.params) < 2e-6
    assert all(array.dtype == np.float32 for array in found.params.values())


def test_an_optimiser_of_optax_and_a_certified_solver_work_too() -> None:
    import optax

    ours, theirs = problems()
    start = tree.cast(theirs.init, np.float64)
    sub = Subproblem(start, start, eta=1e-2)
    certified = TorchProblem(theirs.module, DATA, g=G, curvature=(-50.0, 50.0))
    for problem, solver in (
        (theirs, feddr.local.Optax(optax.adam(1e-2), batch_size=4)),
        (certified, feddr.local.Accelerated()),
    ):
        solution = PlainClients(problem, solver, np.float64)(1, sub, np.random.default_rng(0))
        assert tree.norm(tree.sub(solution.x, start)) > 0
    assert solution.error < 1e-8
    with pytest.raises(ValueError, match=r"needs bounds on the curvature of f_1, .* give the problem curvature"):
        PlainClients(theirs, feddr.local.Accelerated(), np.float64)(1, sub, np.random.default_rng(0))
    assert difference(theirs.gradient(start), ours.gradient(tree.cast(ours.init, np.float64))) < 1e-12


def test_parameters_go_out_and_in_by_name() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    net[0].bias.requires_grad_(False)
    out = parameters(net)
    assert sorted(out) == ["0.weight", "1.bias", "1.weight"]
    load(net, {name: np.ones_like(array) for name, array in out.items()})
    assert all(float(p.detach().min()) == 1.0 for name, p in net.named_parameters() if name in out)
    with pytest.raises(ValueError, match=r"parameters \['0.weight', '1.bias', '1.weight'\], got \['0.weight'\]"):
        load(net, {"0.weight": out["0.weight"]})
    with pytest.raises(ValueError, match=r"0\.weight needs the shape \(3, 2\), got \(2, 3\)"):
        load(net, {**out, "0.weight": out["0.weight"].T})


def test_frozen_parameters_and_buffers_stay_and_do_not_travel() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
    with pytest.raises(ValueError, match=r"BatchNorm1d 1 has seen no data; show it some samples .* GroupNorm"):
        TorchProblem(net, DATA)
    net(torch.tensor(DATA.train.samples["x"], dtype=torch.float32))
    net[0].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    result = feddr.reference(TorchProblem(net, DATA), feddr.FedAvg(), local=BATCHES, rounds=3)
    assert sorted(result.params) == ["0.bias", "1.bias", "1.weight", "2.bias", "2.weight"]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items()), "the module was changed"
    load(net, result.params)
    after = net.state_dict()
    assert torch.equal(after["1.running_mean"], before["1.running_mean"])
    assert not torch.equal(after["1.weight"], before["1.weight"])
    assert result.history.column("F")[-1] < result.history.column("F")[0]


def test_a_loss_that_is_averaged_is_refused() -> None:
    mean = torch.nn.functional.cross_entropy
    with pytest.raises(ValueError, match=r"one value for each sample, for 2 samples it returned shape \(\)"):
        TorchProblem(torch.nn.Linear(5, 3), DATA, loss=lambda out, batch: mean(out, batch["y"]))


def test_the_simulator_says_where_a_torch_problem_belongs() -> None:
    _, theirs = problems(g=None)
    with pytest.raises(ValueError, match=r"compiles a loss written in JAX, got a TorchProblem; use feddr.reference"):
        feddr.simulate(theirs, feddr.FedAvg(), local=FULL, rounds=1)  # type: ignore[arg-type]  # that is the point


def test_a_deployed_module_does_what_the_reference_does(tmp_path: Path) -> None:
    from feddr import flower
    from tests.flower.fake_grid import FakeGrid
    from tests.flower.federations import deploy, distance, populated, xbar_of

    _, whole = problems()
    assert DATA.test is not None
    alone = [
        TorchProblem(whole.module, feddr.FederatedData.from_clients([DATA.client(i)], [DATA.test.client(i)]), g=G)
        for i in range(4)
    ]
    algorithm = feddr.FedDR(eta=0.8, alpha=1.2, init="joining")
    settings: dict[str, Any] = {"rounds": 3, "seed": 2, "precision": "float64", "evaluate_every": 3}
    expected = feddr.reference(whole, algorithm, local=BATCHES, sampling=feddr.sampling.Uniform(2), **settings)
    app = flower.client_app(lambda client, _: alone[client], algorithm, BATCHES)
    federation = flower.Federation(whole.init, 4, G, "samples", evaluation="nodes")
    grid = populated(FakeGrid(), app, range(4), tmp_path)
    history = deploy(grid, federation, algorithm, tmp_path, feddr.sampling.Uniform(2), **settings)
    assert distance(xbar_of(tmp_path), expected.state.server.xbar) < 1e-12
    for name in ("train_accuracy", "test_accuracy"):
        np.testing.assert_allclose(history.column(name), expected.history.column(name), rtol=1e-12)


def test_data_made_on_demand_is_judged_by_its_panel() -> None:
    data = feddr.FederatedData.generated(DATA.client, DATA.sizes, panel=[0, 2])
    ours, theirs = problems()
    ours = feddr.Problem(ours.loss, data, ours.init, G, "samples", ours.correct)
    theirs = TorchProblem(theirs.module, data, g=G, weights="samples")
    assert theirs.F(theirs.init) == pytest.approx(ours.F(ours.init), rel=1e-13)
    assert difference(theirs.gradient(theirs.init), ours.gradient(ours.init)) < 1e-13
    assert theirs.accuracy(theirs.init, data.train) == pytest.approx(ours.accuracy(ours.init, data.train), rel=1e-6)
    algorithm = feddr.FedDR(eta=2.0)
    runs = [feddr.reference(p, algorithm, local=BATCHES, rounds=1, precision="float64") for p in (theirs, ours)]
    assert difference(runs[0].params, runs[1].params) < 1e-12


class Scaled(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        return self.linear((x / 255).flatten(1))


@pytest.mark.parametrize("net", [torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2)), Scaled()], ids=type)
@pytest.mark.parametrize("dtype", [np.int16, np.int64, bool])
def test_pixels_are_numbers_to_a_module(net: Any, dtype: Any) -> None:
    images = np.random.default_rng(0).integers(0, 255, (5, 2, 3)).astype(dtype)
    whole, real = (
        TorchProblem(net, feddr.FederatedData.from_clients([{"x": x, "y": [0, 1, 0, 1, 1]}]))
        for x in (images, images.astype(np.float64))
    )
    for precision in (np.float32, np.float64):
        x = tree.cast(whole.init, precision)
        assert whole.F(x) == real.F(x)
        assert whole.accuracy(x, whole.data.train) == real.accuracy(x, real.data.train)
    runs = [feddr.reference(p, feddr.FedAvg(), local=FULL, rounds=1, precision="float64") for p in (whole, real)]
    assert runs[0].history.last.F == runs[1].history.last.F


@pytest.mark.parametrize("dtype", [np.int16, np.int64])
def test_tokens_stay_whole(dtype: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Embedding(9, 2), torch.nn.Flatten(), torch.nn.Linear(6, 2))
    tokens = np.array([[0, 8, 3], [1, 1, 2]], dtype)
    problem = TorchProblem(net, feddr.FederatedData.from_clients([{"x": tokens, "y": [0, 1]}]))
    result = feddr.reference(problem, feddr.FedAvg(), local=FULL, rounds=1, precision="float64")
    assert problem.F(result.params) < problem.F(problem.init)


def test_a_module_that_computes_in_float32_on_its_own_keeps_its_tokens() -> None:
    class Fixed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(9, 2)

        def forward(self, x: Any) -> Any:
            return self.table(x).mean(1) @ torch.ones(2, 2)

    data = feddr.FederatedData.from_clients([{"x": np.array([[0, 8], [1, 1]]), "y": [0, 1]}])
    problem = TorchProblem(Fixed(), data)
    assert np.isfinite(problem.F(problem.init))


def test_parameters_of_any_type_become_real() -> None:
    _, problem = problems()
    x = tree.map(lambda a: np.round(3 * a), problem.init)
    whole = tree.cast(x, int)
    assert problem.F(whole) == problem.F(x)
    assert problem.accuracy(whole, DATA.train) == problem.accuracy(x, DATA.train)
    for name, slope in problem.gradient(whole).items():
        np.testing.assert_array_equal(slope, problem.gradient(x)[name])
    net = torch.nn.Linear(5, 3).to(torch.bfloat16)
    short = TorchProblem(net, DATA)
    assert all(leaf.dtype == np.float32 for leaf in short.init.values())
    assert np.isfinite(short.F(short.init))
    load(net, short.init)
    assert torch.equal(net.weight.float(), torch.tensor(short.init["weight"]))


def test_parameters_are_loaded_as_they_are_or_refused() -> None:
    net = torch.nn.Linear(3, 1, bias=False)
    load(net, {"weight": np.array([[1, 2, 3]])[:, ::-1]})
    assert net.weight.tolist() == [[3.0, 2.0, 1.0]]
    with pytest.raises(ValueError, match="The parameter weight must be real or whole numbers, got complex128"):
        load(net, {"weight": np.full((1, 3), 1j)})


def test_a_module_without_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one number"):
        TorchProblem(torch.nn.Flatten(), DATA)


def test_the_reference_measures_everything() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5)).astype(np.float32)
    clients: list[dict[str, Any]] = [{"x": x[i::4], "y": (x[i::4, 0] > 0).astype(np.int64)} for i in range(4)]
    problem = TorchProblem(torch.nn.Linear(5, 2), feddr.FederatedData.from_clients(clients, clients))
    result = feddr.reference(
        problem,
        feddr.FedDR(eta=1.0, alpha=1.1),
        local=feddr.local.SGD(lr=0.1),
        rounds=2,
        metrics=["f1", "loss"],
        per_client=True,
        personal=True,
    )
    row, table = result.history.last, result.history.clients.last
    assert row.train_loss == pytest.approx(problem.f(result.params), rel=1e-6)  # clients of one size
    assert row.metrics["test_loss"] == pytest.approx(row.train_loss)
    assert row.test_accuracy == pytest.approx(float(np.mean(table["test_accuracy"])))
    assert row.metrics["worst_client_test_accuracy"] == min(table["test_accuracy"])
    assert row.wall_time > 0
    assert np.isfinite(row.personal_train_loss)


def test_a_criterion_in_place_of_a_loss_is_refused_with_the_way_to_write_it() -> None:
    net = torch.nn.Linear(5, 3)
    with pytest.raises(
        ValueError, match=r"function of \(outputs, batch\), got the module CrossEntropyLoss; write lambda"
    ):
        TorchProblem(net, DATA, torch.nn.CrossEntropyLoss())
    criterion = torch.nn.CrossEntropyLoss(reduction="none")
    ours, same = TorchProblem(net, DATA, lambda out, batch: criterion(out, batch["y"])), TorchProblem(net, DATA)
    assert ours.F(ours.init) == pytest.approx(same.F(same.init), rel=1e-6)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ValueError, match=r"module must be an instance, got the class Linear; write Linear\(\.\.\.\)\."):
        TorchProblem(torch.nn.Linear, DATA)
    with pytest.raises(ValueError, match=r"module must be a Module, got a function; give a torch\.nn\.Module, such as"):
        TorchProblem(lambda x: x, DATA)
