"""Modules of flax and equinox as models: their own networks, and the same results as ours."""

from typing import Any

import jax
import numpy as np
import pytest

import feddr
from feddr import tree
from tests.conftest import make_classes

DATA = make_classes(sizes=(13, 30, 8, 21), dimension=5, classes=3, seed=2)
LOCAL = feddr.local.SGD(lr=0.1, epochs=2, batch_size=4)
ROWS = DATA.train.samples["x"][:1]


def check(model: feddr.models.Model, ours: tree.Tree) -> None:
    """Hold a softmax regression of another library to ``feddr.models.softmax`` through a run, started alike."""
    assert model.num_outputs == 3
    plain = feddr.Problem.classification(feddr.models.softmax(5, 3), DATA, g=feddr.prox.L1(0.01))
    problem = feddr.Problem(
        feddr.Problem.classification(model, DATA).loss, DATA, ours, feddr.prox.L1(0.01), curvature=plain.curvature
    )
    settings: dict[str, Any] = {"local": LOCAL, "rounds": 4, "precision": "float64"}
    found, expected = (feddr.simulate(p, feddr.FedDR(eta=2.0), **settings) for p in (problem, plain))
    np.testing.assert_allclose(found.history.column("F"), expected.history.column("F"), rtol=1e-12)
    assert len(tree.named(found.params)) == 2


def test_flax() -> None:
    linen: Any = pytest.importorskip("flax.linen", reason="flax is not installed: pip install flax")
    model = feddr.models.from_flax(linen.Dense(3), ROWS)
    check(model, tree.map(np.zeros_like, model.init(0)))
    assert sorted(tree.named(model.init(1))) == ["bias", "kernel"]
    assert np.any(model.init(1)["kernel"] != model.init(2)["kernel"])

    class Normed(linen.Module):  # type: ignore[misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: jax.Array) -> jax.Array:
            return linen.Dense(3)(linen.BatchNorm(use_running_average=True)(x))

    with pytest.raises(ValueError, match=r"parameters alone, the module also has batch_stats; use LayerNorm"):
        feddr.models.from_flax(Normed(), ROWS)


def test_flax_nnx() -> None:
    nnx: Any = pytest.importorskip("flax.nnx", reason="flax is not installed: pip install flax")
    model = feddr.models.from_flax(lambda rngs: nnx.Linear(5, 3, rngs=rngs), ROWS)
    check(model, tree.map(np.zeros_like, model.init(0)))
    assert sorted(tree.named(model.init(1))) == ["bias", "kernel"]
    assert np.any(model.init(1)["kernel"] != model.init(2)["kernel"])
    layer = nnx.Linear(5, 3, rngs=nnx.Rngs(7))
    given = feddr.models.from_flax(layer, ROWS)
    np.testing.assert_array_equal(given.init(1)["kernel"], layer.kernel[...])
    np.testing.assert_allclose(given.apply(given.init(0), ROWS), layer(ROWS), rtol=1e-6)
    deep = nnx.Sequential(nnx.Linear(5, 4, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(4, 3, rngs=nnx.Rngs(1)))
    deeper = feddr.models.from_flax(deep, ROWS)
    np.testing.assert_allclose(deeper.apply(deeper.init(0), ROWS), deep(ROWS), rtol=1e-6)
    for other, name in ((nnx.BatchNorm(5, rngs=nnx.Rngs(0)), "BatchStat"), (nnx.Dropout(0.5, rngs=nnx.Rngs(0)), "Rng")):
        with pytest.raises(ValueError, match=rf"parameters alone, the module also has {name}\w*.*; use LayerNorm"):
            feddr.models.from_flax(nnx.Sequential(layer, other), ROWS)


def test_equinox() -> None:
    equinox: Any = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")
    model = feddr.models.from_equinox(lambda key: equinox.nn.Linear(5, 3, key=key), ROWS)
    check(model, tree.map(np.zeros_like, model.init(0)))
    assert sorted(tree.named(model.init(1))) == ["bias", "weight"]
    deep = feddr.models.from_equinox(lambda key: equinox.nn.MLP(5, 3, 8, 1, key=key), ROWS)
    result = feddr.simulate(
        feddr.Problem.classification(deep, DATA, seed=1), feddr.FedDR(eta=5.0), local=LOCAL, rounds=20
    )
    assert result.history.column("train_accuracy")[-1] > result.history.column("train_accuracy")[0] + 0.1
    with pytest.raises(ValueError, match=r"a number or a row of scores for each of 1 rows, got \(1, 5, 3\)"):
        feddr.models.from_equinox(lambda _: equinox.nn.Lambda(lambda x: x[:, None] * np.ones(3)), ROWS)


TOKENS = np.array([[0, 3, 1], [2, 2, 4]], np.int64)
SENTENCES = feddr.FederatedData.from_clients([{"x": TOKENS, "y": [0, 1]}, {"x": TOKENS[::-1], "y": [1, 0]}])
REGULARISERS = [
    feddr.prox.GroupL2(0.1, "rows"),
    feddr.prox.GroupL2(0.1, "columns"),
    feddr.prox.Nuclear(0.1),
    feddr.prox.L1(0.1, mask=feddr.prox.leave("bias")),
]


def check_tokens(model: feddr.models.Model, names: list[str]) -> None:
    """Hold a model of token sequences to what its table of embeddings says, through a round of training."""
    assert sorted(tree.named(model.init(0))) == names
    problem = feddr.Problem.classification(model, SENTENCES)
    result = feddr.simulate(problem, feddr.FedAvg(), local=LOCAL, rounds=1)
    assert problem.F(result.params) < problem.F(problem.init)


def test_token_sequences_of_flax() -> None:
    linen: Any = pytest.importorskip("flax.linen", reason="flax is not installed: pip install flax")

    class Bag(linen.Module):  # type: ignore[misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: jax.Array) -> jax.Array:
            return linen.Embed(5, 2)(x).mean(axis=1)

    check_tokens(feddr.models.from_flax(Bag(), TOKENS), ["Embed_0.embedding"])


def test_token_sequences_of_equinox() -> None:
    equinox: Any = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")

    class Bag(equinox.Module):  # type: ignore[misc]
        table: Any

        def __call__(self, row: jax.Array) -> jax.Array:
            return jax.vmap(self.table)(row).mean(axis=0)

    def build(key: Any) -> Any:
        return Bag(equinox.nn.Embedding(5, 2, key=key))

    check_tokens(feddr.models.from_equinox(build, TOKENS), ["table.weight"])


@pytest.mark.parametrize("g", REGULARISERS, ids=str)
def test_regularisers_see_the_parameters_of_an_equinox_module(g: feddr.prox.Regulariser) -> None:
    """A module can be called, as masks may be, and is a tree, as they may be, too."""
    equinox: Any = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")
    x = feddr.models.from_equinox(lambda key: equinox.nn.Linear(5, 3, key=key), ROWS).init(0)
    plain = {"weight": x.weight, "bias": x.bias}
    assert float(g.value(x)) == float(g.value(plain)) > 0
    for name, leaf in tree.named(g.prox(x, 0.3)).items():
        np.testing.assert_array_equal(leaf, g.prox(plain, 0.3)[name])


def test_a_mask_may_be_a_module() -> None:
    equinox: Any = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")
    x = feddr.models.from_equinox(lambda key: equinox.nn.Linear(5, 3, key=key), ROWS).init(0)
    mask = tree.map(lambda leaf: leaf.ndim == 2, x)
    for g in (feddr.prox.L1(0.1, mask=mask), feddr.prox.Nuclear(0.1, mask=mask)):
        found = g.prox(x, 0.3)
        np.testing.assert_array_equal(found.bias, x.bias)
        assert np.any(found.weight != x.weight)
    with pytest.raises(ValueError, match="mask must be one scalar or a tree like the parameters"):
        feddr.prox.L1(0.1, mask=equinox.nn.Linear(2, 2, key=jax.random.key(0))).value({"w": np.ones(2)})


@pytest.mark.parametrize("dtype", [np.int16, np.int64, bool])
def test_whole_numbers_are_features_too(dtype: Any) -> None:
    equinox: Any = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")

    def build(key: Any) -> Any:
        return equinox.nn.Sequential([equinox.nn.Conv2d(1, 2, 3, key=key), equinox.nn.Lambda(lambda x: x.sum((1, 2)))])

    images = np.random.default_rng(0).integers(0, 2, (4, 1, 5, 5))
    whole = feddr.FederatedData.from_clients([{"x": images.astype(dtype), "y": [0, 1, 0, 1]}])
    real = feddr.FederatedData.from_clients([{"x": images.astype(np.float64), "y": [0, 1, 0, 1]}])
    model, same = (feddr.models.from_equinox(build, data.train.samples["x"][:1]) for data in (whole, real))
    x = tree.cast(model.init(0), np.float64)
    assert feddr.Problem.classification(model, whole).F(x) == feddr.Problem.classification(same, real).F(x)
