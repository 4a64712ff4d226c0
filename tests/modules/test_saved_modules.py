"""Models of flax and equinox that were saved: loading them needs neither library, and ONNX gives the same outputs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import feddr
from feddr import tree
from tests.inference.small_models import CLASSES, NUMBERS, own, run, saved

X = CLASSES.train.samples["x"]
PROGRAM = """
import sys, numpy as np, feddr
for name in ("flax", "equinox"):
    sys.modules[name] = None
predictor = feddr.load(sys.argv[1])
np.save(sys.argv[3], predictor.predict_proba(np.load(sys.argv[2])))
"""


def convolution() -> feddr.models.Model:
    linen: Any = pytest.importorskip("flax.linen", reason="flax is not installed: pip install flax")

    class Network(linen.Module):  # type: ignore[misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: jax.Array) -> jax.Array:
            x = linen.relu(linen.Conv(4, (3,))(x[..., None]))
            x = linen.avg_pool(x, (2,), (2,)).reshape((x.shape[0], -1))
            return linen.Dense(3)(linen.LayerNorm()(x))

    return feddr.models.from_flax(Network(), X[:1])


def perceptron() -> feddr.models.Model:
    equinox: Any = pytest.importorskip("equinox", reason="equinox is not installed: pip install equinox")
    return feddr.models.from_equinox(lambda key: equinox.nn.MLP(5, 3, 6, 2, key=key), X[:1])


@pytest.mark.parametrize("make", [convolution, perceptron])
def test_a_process_without_the_library_predicts_the_same(make: Any, tmp_path: Path) -> None:
    result = run(feddr.Problem.classification(make(), CLASSES))
    result.save(tmp_path / "run")
    np.save(tmp_path / "x.npy", X)
    words: list[str | Path] = [
        sys.executable,
        "-c",
        PROGRAM,
        tmp_path / "run",
        tmp_path / "x.npy",
        tmp_path / "found.npy",
    ]
    subprocess.run(words, check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), result.predict_proba(X), rtol=1e-5)
    found = feddr.load(tmp_path / "run")
    shapes = {name: leaf.shape for name, leaf in tree.named(result.params).items()}
    assert {name: leaf.shape for name, leaf in tree.named(found.params).items()} == shapes
    if make is convolution:
        assert str(jax.tree.structure(found.params)) == str(jax.tree.structure(result.params))


@pytest.mark.filterwarnings("default")  # what jax2onnx warns about is between it and JAX
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", ["linear", "softmax", "mlp"])
def test_onnx_has_the_same_outputs(name: str, precision: str, tmp_path: Path) -> None:
    runtime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("jax2onnx", reason="jax2onnx is not installed: pip install jax2onnx")
    x = NUMBERS.train.samples["x"] if name == "linear" else X
    if name == "linear":
        problem = feddr.Problem.regression(feddr.models.linear(4), NUMBERS)
    else:
        model = feddr.models.softmax(5, 3) if name == "softmax" else feddr.models.mlp([5, 6, 3], "softplus")
        problem = feddr.Problem.classification(model, CLASSES)
    result = run(problem, precision)
    result.predictor.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (given,) = session.get_inputs()
    for rows in (1, 7):
        (found,) = session.run(None, {given.name: x[:rows].astype(precision)})
        np.testing.assert_allclose(found, result.predictor.outputs(x[:rows]), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("default")
def test_onnx_of_a_stored_function_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("jax2onnx", reason="jax2onnx is not installed: pip install jax2onnx")
    loaded = saved(tmp_path, run(feddr.Problem.classification(own(), CLASSES)))
    with pytest.raises(
        ValueError, match=r"jax2onnx cannot write this model \(.*\); it is known to write models\.linear"
    ):
        loaded.to_onnx(tmp_path / "other.onnx")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax2onnx", None)
    result = run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES))
    with pytest.raises(ValueError, match=r"ONNX needs jax2onnx, which is not installed; pip install 'feddr\[onnx\]'"):
        result.predictor.to_onnx(tmp_path / "model.onnx")
