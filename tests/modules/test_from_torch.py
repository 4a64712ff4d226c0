"""PyTorch modules in the compiled simulator: PyTorch's own results, hand-written JAX's, and every refusal."""

import importlib
import importlib.util
import os
import re
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.models import from_torch, torch_check
from tests.conftest import make_classes
from tests.test_docs import blocks

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'feddr[torch]'")
if importlib.util.find_spec("torchax") is None:  # feddr imports it, and first switches its telemetry off
    pytest.skip("torchax is not installed: pip install 'feddr[torch]'", allow_module_level=True)
from feddr.torch import TorchProblem, load, parameters  # noqa: E402  only where torch is there

nn = torch.nn
RNG = np.random.default_rng(0)
ROWS = np.zeros((1, 6))


class Made(torch.nn.Module):  # type: ignore[misc]
    """A module with these parts, and a function of it and the rows as its forward."""

    def __init__(self, function: Callable[[Any, Any], Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def transformer() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(own: Any, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        seen = own.layers(own.table(x) + own.places(torch.arange(x.shape[1])), mask=mask, is_causal=True)
        return own.scores(seen[:, -1])

    return Made(forward, table=nn.Embedding(7, 8), places=nn.Embedding(5, 8), layers=layers, scores=nn.Linear(8, 7))


def recurrent(layer: Any) -> Any:
    width = layer.hidden_size * (1 + layer.bidirectional)
    last = Made(lambda own, x: own.scores(own.layer(own.table(x))[0][:, -1]), table=nn.Embedding(7, 3), layer=layer)
    last.scores = nn.Linear(width, 7)
    return last


def convolutional() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )


MODULES: dict[str, Callable[[], Any]] = {
    "mlp": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)),
    "cnn": convolutional,
    "lstm": lambda: recurrent(nn.LSTM(3, 4, 2, batch_first=True)),
    "transformer": transformer,
}


def samples(name: str, rows: int) -> dict[str, NDArray[Any]]:
    if name in ("lstm", "transformer"):
        return {"x": RNG.integers(0, 7, (rows, 5)), "y": RNG.integers(0, 7, rows)}
    shape = (1, 6, 6) if name == "cnn" else (6,)
    return {"x": RNG.normal(size=(rows, *shape)), "y": RNG.integers(0, 3, rows)}


@pytest.fixture(scope="module")
def both() -> dict[str, tuple[feddr.Problem, TorchProblem]]:
    """Each module as a problem of JAX and as one of PyTorch."""
    torch.manual_seed(0)
    found = {}
    for name, make in MODULES.items():
        data = feddr.FederatedData.from_clients([samples(name, rows) for rows in (8, 12)])
        net = make()
        model = from_torch(net, data.train.samples["x"][:1])
        ours = feddr.Problem.classification(model, data, weights="samples")
        found[name] = (ours, TorchProblem(net, data, weights="samples"))
    return found


ALGORITHMS = [
    feddr.FedDR(eta=2.0, alpha=1.3),
    feddr.FedAvg(),
    feddr.FedProx(mu=0.3),
    feddr.FedAvgM(),
    feddr.FedAdam(),
    feddr.FedYogi(),
    feddr.FedAdagrad(),
    feddr.FedDyn(eta=2.0),
    feddr.FedPD(eta=2.0),
    feddr.FedSplit(eta=2.0),
    feddr.Scaffold(),
    feddr.MimeLite(),
    feddr.FedMid(),
    feddr.FedDualAvg(),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("name", MODULES)
def test_the_first_round_is_that_of_pytorch(
    name: str, algorithm: Algorithm, both: dict[str, tuple[feddr.Problem, TorchProblem]]
) -> None:
    """In float32, with the same batches: parameters and objective agree to 1e-5."""
    ours, theirs = both[name]
    settings: dict[str, Any] = {"local": feddr.local.SGD(lr=0.02, batch_size=4), "rounds": 1, "seed": 1}
    found, expected = feddr.simulate(ours, algorithm, **settings), feddr.reference(theirs, algorithm, **settings)
    assert set(found.params) == set(expected.params)
    for key, array in expected.params.items():
        np.testing.assert_allclose(found.params[key], array, rtol=0, atol=1e-5)
    assert pytest.approx(expected.history.last.F, rel=1e-5) == found.history.last.F
    assert found.history.last.train_accuracy == expected.history.last.train_accuracy
    assert tree.norm(tree.sub(found.params, ours.init)) > 1e-4


@pytest.mark.parametrize(
    "layer",
    [
        nn.GRU(3, 4, 2, batch_first=True, bidirectional=True),
        nn.LSTM(3, 4, batch_first=True, bias=False, bidirectional=True),
        nn.RNN(3, 4, batch_first=True),
    ],
    ids=str,
)
def test_recurrent_layers_of_all_kinds(layer: Any) -> None:
    net, x = recurrent(layer), RNG.integers(0, 7, (3, 5))
    model = from_torch(net, x)
    np.testing.assert_allclose(model.apply(model.init(0), x), net(torch.tensor(x)).detach().numpy(), atol=1e-6)


def test_it_is_the_network_that_one_writes_in_jax() -> None:
    """McMahan's cnn in PyTorch and in ``feddr.models``, in float64 through a run with FedDR."""
    data = feddr.FederatedData.from_clients(
        [{"x": RNG.normal(size=(n, 8, 8)), "y": RNG.integers(0, 3, n)} for n in (9, 14)]
    )
    ours = feddr.models.cnn(3, (8, 8, 1), channels=(2, 4), kernel=3, hidden=6)
    first, second = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)
    hidden, scores = nn.Linear(16, 6), nn.Linear(6, 3)

    def forward(own: Any, x: Any) -> Any:
        x = torch.relu(nn.functional.max_pool2d(own.first(x[:, None]), 2))
        x = torch.relu(nn.functional.max_pool2d(own.second(x), 2)).permute(0, 2, 3, 1).flatten(1)
        return own.scores(torch.relu(own.hidden(x)))

    net = Made(forward, first=first, second=second, hidden=hidden, scores=scores).double()
    start = ours.init(4)
    named = {"first": "conv0", "second": "conv1", "hidden": "hidden", "scores": "scores"}

    def renamed(params: tree.Tree) -> dict[str, NDArray[Any]]:
        """Return the parameters of ours by the names and with the axes of PyTorch."""
        found = {}
        for theirs, mine in named.items():
            weight = np.asarray(params[mine]["weight"])
            found[f"{theirs}.weight"] = weight.transpose(3, 2, 0, 1) if weight.ndim == 4 else weight.T
            found[f"{theirs}.bias"] = np.asarray(params[mine]["bias"])
        return found

    load(net, renamed(start))
    model = from_torch(net, data.train.samples["x"][:1])
    runs = [
        feddr.simulate(
            feddr.Problem(feddr.Problem.classification(one, data).loss, data, x0, feddr.prox.L1(1e-3)),
            feddr.FedDR(eta=2.0),
            local=feddr.local.SGD(lr=0.1, batch_size=4),
            rounds=3,
            precision="float64",
        )
        for one, x0 in ((model, model.init(0)), (ours, start))
    ]
    for name, array in renamed(runs[1].params).items():
        np.testing.assert_allclose(runs[0].params[name], array, rtol=0, atol=1e-12)


def test_parameters_go_through_a_file_and_back(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    net(torch.randn(20, 6))
    net.eval()
    net[0].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    data = feddr.FederatedData.from_clients([samples("mlp", 12)])
    problem = feddr.Problem.classification(from_torch(net, ROWS), data)
    result = feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=2)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items()), "the module was changed"
    assert sorted(result.params) == ["0.weight", "1.bias", "1.weight", "2.bias", "2.weight"]
    load(net, load_file(result.save(tmp_path) / "model.safetensors"))
    after = net.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in ("0.bias", "1.running_mean", "1.running_var"))
    scores = net(torch.tensor(data.train.samples["x"], dtype=torch.float32))
    loss = nn.functional.cross_entropy(scores, torch.tensor(data.train.samples["y"]))
    assert loss.item() == pytest.approx(result.history.last.F, rel=1e-5)


def test_shared_weights_stay_shared() -> None:
    net = Made(lambda own, x: own.scores(own.table(x).mean(1)), scores=nn.Linear(4, 7), table=nn.Embedding(7, 4))
    net.table.weight = net.scores.weight
    model = from_torch(net, np.array([[0, 3, 6]]))
    assert sorted(model.init(0)) == sorted(parameters(net)) == ["scores.bias", "scores.weight"]
    x = RNG.integers(0, 7, (4, 3))
    np.testing.assert_allclose(model.apply(model.init(0), x), net(torch.tensor(x)).detach().numpy(), atol=1e-6)


def pixels() -> Any:
    return Made(lambda own, x: own.scores((x / 255).flatten(1)), scores=nn.Linear(6, 2))


def test_bytes_are_refused_since_nobody_knows_whether_they_are_pixels() -> None:
    with pytest.raises(ValueError, match=r"must not be bytes, which may be pixels or counts, got uint8.*; use x / 255"):
        from_torch(pixels(), np.zeros((1, 2, 3), np.uint8))


@pytest.mark.parametrize("dtype", [np.int16, np.int64, bool])
def test_pixels_are_numbers_to_a_module(dtype: Any) -> None:
    net = pixels()
    images = RNG.integers(0, 2, (4, 2, 3)).astype(dtype)
    model = from_torch(net, images[:1])
    expected = model.apply(model.init(0), images.astype(np.float32))
    np.testing.assert_array_equal(model.apply(model.init(0), images.astype(np.int32)), expected)
    np.testing.assert_allclose(expected, net(torch.tensor(images).float()).detach().numpy(), atol=1e-6)


def test_threads_trace_one_after_the_other() -> None:
    """Eight threads, each with a batch of a size that nobody has traced, beside PyTorch on the main thread."""
    net = MODULES["lstm"]()
    model = from_torch(net, np.zeros((1, 5), int))
    params, found = model.init(0), {}

    def work(rows: int) -> None:
        found[rows] = np.asarray(jax.jit(model.apply)(params, np.ones((rows, 5), np.int32)))

    threads = [threading.Thread(target=work, args=(rows,)) for rows in range(4, 12)]
    for thread in threads:
        thread.start()
    alone = [net(torch.ones(2, 5, dtype=torch.int64)).detach().numpy() for _ in range(50)]
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(4, 12))
    for rows, outputs in found.items():
        np.testing.assert_allclose(outputs, np.broadcast_to(alone[0][:1], (rows, 7)), atol=1e-6)


def test_it_travels_to_other_processes() -> None:
    cloudpickle: Any = pytest.importorskip(
        "cloudpickle", reason="cloudpickle is not installed: pip install cloudpickle"
    )
    model = from_torch(MODULES["mlp"](), ROWS)
    x = RNG.normal(size=(4, 6)).astype(np.float32)
    again = cloudpickle.loads(cloudpickle.dumps(model))
    np.testing.assert_array_equal(again.apply(again.init(0), x), model.apply(model.init(0), x))


def test_it_runs_on_the_clock() -> None:
    data = feddr.FederatedData.from_clients([samples("mlp", 12), samples("mlp", 8)])
    problem = feddr.Problem.classification(from_torch(MODULES["mlp"](), ROWS), data)
    result = feddr.simulate_async(problem, feddr.AsyncFedDR(eta=1.0), local=feddr.local.SGD(lr=0.1), updates=6)
    assert result.history.last.F < result.history.rows[0].F


def test_any_shape_of_outputs_for_a_loss_of_ones_own() -> None:
    net = nn.Linear(6, 2)
    x = RNG.normal(size=(3, 5, 6)).astype(np.float32)
    with pytest.raises(ValueError, match=r"a number or a row of scores for each of 3 rows, got \(3, 5, 2\)"):
        from_torch(net, x)
    model = from_torch(net, x, scores=False)
    assert model.apply(model.init(0), x).shape == (3, 5, 2)


class Reversed(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        del ctx
        return x.clone()

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        del ctx
        return -slope


class Clipped(Reversed):
    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        del ctx
        return slope.clamp(-100, 100)


class Doubled(Reversed):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        del ctx
        return 2 * x

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        del ctx
        return 2 * slope


def silent(own: Any, x: Any) -> Any:
    with torch.no_grad():
        other = own.other(x)
    return own.layer(x) + other


def made(function: Callable[[Any, Any], Any]) -> Any:
    return Made(function, layer=nn.Linear(6, 4), other=nn.Linear(6, 4))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)),
        "must not depend on the other samples of its batch, BatchNorm1d 1 is in training mode; use GroupNorm or",
    ),
    "batch norm without statistics": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).eval(),
        "A layer needs its statistics beforehand, BatchNorm1d 1 has seen no data; show it some samples",
    ),
    "centred batch": (
        lambda: made(lambda own, x: own.layer(x) - own.layer(x).mean(0)),
        "must not depend on the other samples of its batch, the outputs of Made for a row do; normalise each sample",
    ),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.3)),
        "without random numbers, Dropout 1 drops out a share of 0.3; call module.eval() first, or set the share to 0",
    ),
    "dropout between layers": (
        lambda: nn.Sequential(nn.LSTM(6, 4, 2, dropout=0.5)),
        "without random numbers, LSTM 0 drops out a share of 0.5; call module.eval()",
    ),
    "dropout as a function": (
        lambda: made(lambda own, x: nn.functional.dropout(own.layer(x), 0.5)),
        "A model computes without random numbers, Made draws some in its forward; call module.eval() first",
    ),
    "reversed gradient": (
        lambda: made(lambda own, x: Reversed.apply(own.layer(x))),
        "the gradient in layer.weight of Made differs because of the autograd function Reversed; write it with",
    ),
    "clipped gradient": (
        lambda: made(lambda own, x: Clipped.apply(own.layer(x))),
        "the gradient in layer.weight of Made differs because of the autograd function Clipped; write it with",
    ),
    "no gradient": (
        lambda: made(silent),
        "the gradient in other.weight of Made differs because of an operation that the two do otherwise",
    ),
    "branch": (
        lambda: made(lambda own, x: own.layer(x) if x.sum() > 0 else own.other(x)),
        "from_torch needs a module that torchax can translate, Made fails with ConcretizationTypeError: ",
    ),
    "several outputs": (
        lambda: made(lambda own, x: (own.layer(x), x)),
        "A module must return one tensor with an entry for each of 3 rows, got tuple",
    ),
    "NaN": (
        lambda: made(lambda own, x: own.layer(x).exp().neg().log()),
        "A model must return finite numbers, Made does not for rows like example",
    ),
    "other shapes": (
        lambda: nn.Linear(7, 3),
        "The module must take rows like example, Linear fails with 3 rows of shape",
    ),
    "no parameters": (nn.Flatten, "A model needs parameters that are trained, the module has none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_function_of_one_sample_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        from_torch(make(), ROWS)
    assert "\n" not in str(refused.value)


def test_an_autograd_function_with_the_right_gradient_is_welcome() -> None:
    net = made(lambda own, x: Doubled.apply(own.layer(x)))
    model = from_torch(net, ROWS)
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    np.testing.assert_allclose(model.apply(model.init(0), x), net(torch.tensor(x)).detach().numpy(), rtol=1e-5)


def test_a_torchax_that_is_missing_or_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchax", None)
    with pytest.raises(ImportError, match=r"pip install 'feddr\[torch\]'; feddr.torch.TorchProblem with"):
        from_torch(nn.Linear(6, 4), ROWS)

    def broken(name: str) -> types.ModuleType:
        raise AttributeError(f"module 'torch' has no attribute that {name} wants\nand more")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ImportError, match=r"fits PyTorch, got torchax \S+ with torch 2\.\S+ \(AttributeError: .*Torch"):
        from_torch(nn.Linear(6, 4), ROWS)


def test_telemetry_is_off_and_pytorch_as_it_was() -> None:
    assert os.environ["ENABLE_RUNTIME_UPTIME_TELEMETRY"] == "0"
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.ones(2).device.type == "cpu"


class Moves(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Counts how many tensors are sent to a device."""

    count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self.count += function is torch.Tensor.to and args[1:] == (torch.device("cpu"),)
        return function(*args, **(kwargs or {}))


def test_a_torch_problem_computes_on_the_device_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other device here, so what is looked at is that every array goes to the one that the module is on."""
    data = make_classes(sizes=(13, 8), dimension=6, classes=3, seed=2)
    problem = TorchProblem(nn.Linear(6, 3), data)
    made, tensor = [], torch_check.tensor

    def counted(*arguments: Any) -> Any:
        made.append(tensor(*arguments))
        return made[-1]

    monkeypatch.setattr(torch_check, "tensor", counted)
    with Moves() as moves:
        problem.gradient(problem.init)
    assert moves.count == len(made) > 3


def test_the_page_on_pytorch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {}
    page = Path(__file__).parents[2] / "docs" / "PYTORCH.md"
    for line, code in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), values)
    assert values["scores"].shape == (120, 4)
    assert values["problem"].F(values["result"].params) < values["problem"].F(values["problem"].init)


def test_one_number_a_row_is_the_score_of_class_1() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    data = feddr.FederatedData.from_clients([{"x": x, "y": y}])
    net = nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))
    problem = feddr.Problem.classification(feddr.models.from_torch(net, x[:1]), data)
    with torch.no_grad():
        expected = nn.BCEWithLogitsLoss()(net(torch.tensor(x)), torch.tensor(y, dtype=torch.float32))
    assert problem.F(problem.init) == pytest.approx(float(expected), rel=1e-5)
    result = feddr.simulate(problem, feddr.FedDR(), local=feddr.local.SGD(lr=0.5, epochs=5), rounds=5)
    assert result.predict_proba(x).shape == (20, 2)
    assert result.score(x, y) > 0.9
    with pytest.raises(
        ValueError, match=r"got rows of one score; give the model 2 outputs, or .*torch\.nn\.Flatten\(0\)"
    ):
        feddr.Problem.classification(feddr.models.from_torch(nn.Linear(6, 1), x[:1]), data)


def test_a_class_in_place_of_a_module_is_refused() -> None:
    with pytest.raises(ValueError, match="module must be an instance, got the class Linear"):
        feddr.models.from_torch(nn.Linear, np.zeros((1, 6)))
