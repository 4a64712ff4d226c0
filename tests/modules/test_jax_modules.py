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
