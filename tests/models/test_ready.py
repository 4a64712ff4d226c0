"""Ready models: their sizes, their invariances, the same outputs as plain loops, and what they refuse."""

import re
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import feddr
from feddr import config, models, tree

CNN = models.cnn(num_classes=3, shape=(8, 8, 1), channels=(2, 4), kernel=3, hidden=6)
RESNET = models.resnet(num_classes=3, shape=(8, 8, 2), widths=(4, 8), groups=2)
LSTM = models.lstm(num_tokens=5, embedding=3, hidden=(4, 6))
CAUSAL = models.transformer(num_tokens=5, length=4, width=8, heads=2, layers=2)
WHOLE = models.transformer(num_tokens=5, length=4, num_classes=3, width=8, heads=2, layers=1, causal=False)
READY = {"cnn": CNN, "resnet": RESNET, "lstm": LSTM, "causal": CAUSAL, "whole": WHOLE}


def features(model: models.Model, rows: int = 6, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    if model.check is not None:
        return rng.integers(0, 5, (rows, 4)).astype(np.int32)
    shape = (8, 8, 1) if model is CNN else (8, 8, 2)
    return rng.normal(size=(rows, *shape)).astype(np.float32)


@pytest.mark.parametrize("name", READY)
def test_rows_do_not_depend_on_each_other(name: str) -> None:
    model = READY[name]
    params, x = tree.cast(model.init(0), np.float32), features(model)
    apply = jax.jit(model.apply)
    together = apply(params, x)
    assert together.shape == (len(x), model.num_outputs)
    np.testing.assert_allclose(together[2:3], apply(params, x[2:3]), atol=2e-6)
    assert np.ptp(np.asarray(together), axis=0).max() > 0


@pytest.mark.parametrize("name", READY)
def test_another_seed_is_another_start(name: str) -> None:
    same, other = READY[name].init(0), READY[name].init(1)
    for path, leaf in tree.named(READY[name].init(0)).items():
        np.testing.assert_array_equal(leaf, tree.named(same)[path])
        assert np.ptp(leaf) == 0 or "bias" in path or np.any(leaf != tree.named(other)[path])
    assert tree.norm(tree.sub(same, other)) > 1


@pytest.mark.parametrize("name", [*READY, "mlp", "linear", "softmax"])
def test_a_model_is_built_again_from_its_spec(name: str) -> None:
    others = {"mlp": models.mlp([5, 4, 3], "tanh"), "linear": models.linear(5), "softmax": models.softmax(5, 3)}
    model = (READY | others)[name]
    assert model.spec is not None
    arguments = dict(model.spec)
    again = getattr(models, arguments.pop("name"))(**arguments)
    assert again.spec == model.spec
    assert again.num_outputs == model.num_outputs
    jax.tree.map(np.testing.assert_array_equal, again.init(3), model.init(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", READY)
def test_training_lowers_the_loss(name: str) -> None:
    model = READY[name]
    x = features(model, 40)
    y = (x.reshape(40, -1).sum(axis=1) > np.median(x.reshape(40, -1).sum(axis=1))).astype(np.int64)
    data = feddr.FederatedData.from_clients([{"x": x[:20], "y": y[:20]}, {"x": x[20:], "y": y[20:]}])
    problem = feddr.Problem.classification(model, data)
    result = feddr.simulate(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1, epochs=2), rounds=4)
    assert result.history.last.F < 0.9 * result.history.rows[0].F


def test_sizes_are_those_of_the_papers() -> None:
    """McMahan et al. 2017 count 1,663,370 parameters for digits, He et al. 2016 0.27 million for ResNet-20."""
    assert tree.size(models.cnn(num_classes=10).init(0)) == 1_663_370
    assert 0.27e6 < tree.size(models.resnet(blocks=3).init(0)) < 0.28e6


def test_images_may_be_flat_have_no_channel_or_be_whole_numbers() -> None:
    params, x = CNN.init(0), features(CNN)
    expected = CNN.apply(params, x)
    np.testing.assert_array_equal(CNN.apply(params, x.reshape(len(x), 64)), expected)
    np.testing.assert_array_equal(CNN.apply(params, x[..., 0]), expected)
    pixels = np.random.default_rng(0).integers(0, 255, (2, 64)).astype(np.uint8)
    np.testing.assert_allclose(
        CNN.apply(params, pixels), CNN.apply(params, pixels.astype(np.float32)), rtol=1e-6, atol=1e-6
    )


def test_a_convolution_is_a_sum_over_shifted_images() -> None:
    """The whole cnn in NumPy loops, in float64."""
    with jax.enable_x64(True):
        params, x = CNN.init(2), features(CNN, 2).astype(np.float64)
        found = np.asarray(CNN.apply(params, x))
    for name in ("conv0", "conv1"):
        weight, (n, size, *_) = params[name]["weight"], x.shape
        padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        shifted = [padded[:, i : i + size, j : j + size] @ weight[i, j] for i in range(3) for j in range(3)]
        total = np.maximum(sum(shifted) + params[name]["bias"], 0)
        x = np.maximum.reduce([total[:, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    hidden = np.maximum(x.reshape(n, -1) @ params["hidden"]["weight"] + params["hidden"]["bias"], 0)
    np.testing.assert_allclose(found, hidden @ params["scores"]["weight"] + params["scores"]["bias"], rtol=1e-12)


def test_an_lstm_is_a_loop_over_time() -> None:
    with jax.enable_x64(True):
        params, x = LSTM.init(2), features(LSTM)
        found = np.asarray(LSTM.apply(params, x))
    below = params["embedding"][x]
    for name in ("layer0", "layer1"):
        own, steps = params[name], []
        width = len(own["recurrent"])
        output = cell = np.zeros((len(x), width))
        for t in range(x.shape[1]):
            gates = below[:, t] @ own["weight"] + output @ own["recurrent"] + own["bias"]
            i, f, c, o = (gates[:, k * width : (k + 1) * width] for k in range(4))
            cell = cell / (1 + np.exp(-f)) + np.tanh(c) / (1 + np.exp(-i))
            output = np.tanh(cell) / (1 + np.exp(-o))
            steps.append(output)
        below = np.stack(steps, axis=1)
    np.testing.assert_allclose(found, output @ params["scores"]["weight"] + params["scores"]["bias"], rtol=1e-10)
    own = LSTM.init(0)["layer1"]
    assert own["bias"].tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
    for block in np.split(own["recurrent"], 4, axis=1):
        np.testing.assert_allclose(block @ block.T, np.eye(6), atol=1e-12)


def test_a_transformer_without_positions_that_sees_everything_ignores_the_order() -> None:
    params, x = WHOLE.init(0), features(WHOLE)
    mixed = x[:, [2, 0, 3, 1]]
    assert not np.allclose(WHOLE.apply(params, x), WHOLE.apply(params, mixed), atol=1e-5)
    params["positions"] = np.zeros_like(params["positions"])
    np.testing.assert_allclose(WHOLE.apply(params, x), WHOLE.apply(params, mixed), atol=1e-6)


def test_a_causal_place_does_not_see_what_follows() -> None:
    """The gradient of the output at place k in the input at a later place is zero."""
    from feddr.models.attention import _attention

    own = CAUSAL.init(0)["layer0"]
    x = np.random.default_rng(0).normal(size=(1, 4, 8)).astype(np.float32)
    for causal in (True, False):
        slopes = jax.jacobian(lambda x, causal=causal: _attention(own, x, 2, causal))(x)
        seen = np.abs(np.asarray(slopes)[0, :, :, 0]).sum(axis=(1, 3)) > 0  # (place, place that it sees)
        assert np.array_equal(seen, np.tri(4, dtype=bool) if causal else np.ones((4, 4), bool))


def test_group_normalisation_forgets_the_scale_of_a_convolution() -> None:
    params, x = RESNET.init(0), features(RESNET)
    larger = RESNET.init(0)
    larger["stage1block0"]["conv0"]["weight"] *= 7.0
    np.testing.assert_allclose(RESNET.apply(params, x), RESNET.apply(larger, x), atol=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.cnn(num_classes=0), "The sizes of a cnn must be positive whole numbers, got [0, "),
        (lambda: models.cnn(shape=(28,)), "An image has a height, a width and channels, got shape=[28]"),
        (lambda: models.cnn(shape=(2, 2, 1)), "got 2 convolutions for images of 2x2; take fewer channels"),
        (lambda: models.cnn(hidden=10**9), "A cnn with channels [32, 64] and a hidden layer of 1000000000 needs about"),
        (lambda: models.resnet(widths=(16, 20)), "groups must divide every width of a resnet, got groups=8 and"),
        (lambda: models.resnet(blocks=10**9), "A resnet with widths [16, 32, 64] and 1000000000 blocks"),
        (lambda: models.lstm(hidden=()), "An lstm needs at least one layer, got hidden=[]"),
        (lambda: models.lstm(num_tokens=True), "The sizes of an lstm must be positive whole numbers, got [True, "),
        (lambda: models.lstm(hidden=(10**8,)), "An lstm with layers of [100000000] needs about"),
        (lambda: models.transformer(width=10, heads=4), "heads must divide width, got heads=4 and width=10"),
        (lambda: models.transformer(layers=10**9), "A transformer with 1000000000 layers of width 64 needs about"),
    ],
)
def test_sizes_that_make_no_model_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (
            CNN,
            np.zeros((2, 63)),
            "takes images of height, width and channels (8, 8, 1), or these 64 numbers in a row, ",
        ),
        (CNN, np.zeros((2, 8, 8, 3)), "got samples of shape (8, 8, 3); give the model the shape of your images"),
        (LSTM, np.zeros((2, 4)), "sequences of tokens, whole numbers of shape (rows, length), got float32 of shape"),
        (LSTM, np.full((2, 4), 5), "Tokens must be whole numbers from 0 to 4, got 5; give the model a larger"),
        (CAUSAL, np.full((2, 4), -1), "Tokens must be whole numbers from 0 to 4, got -1"),
        (CAUSAL, np.zeros((2, 3), int), "whole numbers of shape (rows, 4), got int32 of shape (2, 3); number"),
    ],
)
def test_data_that_does_not_fit_is_refused(model: models.Model, x: NDArray[Any], message: str) -> None:
    data = feddr.FederatedData.from_clients([{"x": x, "y": [0, 1]}])
    with pytest.raises(ValueError, match=re.escape(message)):
        feddr.Problem.classification(model, data)


def test_configs_know_them() -> None:
    experiment = config.parse(
        {
            "name": "small",
            "rounds": 1,
            "data": {"name": "bundled", "which": "digits", "num_clients": 3},
            "model": {"name": "cnn", "shape": [8, 8, 1], "num_classes": 10, "channels": [2, 2], "hidden": 5},
            "local": {"name": "SGD", "lr": 0.01},
            "algorithm": [{"name": "FedAvg"}],
        }
    )
    problem, runs = config.build(experiment)
    assert problem.init["hidden"]["weight"].shape == (8, 5)
    assert config.perform(experiment, problem, runs[0]).history.last.round == 1
