"""Saved models: what a folder alone gives back, and what of it is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import feddr
from feddr.inference import forward
from feddr.inference.files import ModelWarning
from feddr.models import Model
from feddr.storage.tensors import DamagedError
from tests.inference.small_models import CLASSES, NUMBERS, RAW, ill, own, run, saved

X = CLASSES.train.samples["x"]
READY = {"softmax": feddr.models.softmax(5, 3), "mlp": feddr.models.mlp([5, 4, 3], "tanh"), "own": own()}


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READY)
def test_a_saved_model_is_the_same(name: str, precision: str, tmp_path: Path) -> None:
    result = run(feddr.Problem.classification(READY[name], CLASSES), precision)
    found = saved(tmp_path, result)
    assert str(jax.tree.structure(found.params)) == str(jax.tree.structure(result.params))
    for ours, theirs in zip(jax.tree.leaves(found.params), jax.tree.leaves(result.params), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype == precision
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(found.outputs(X), result.predictor.outputs(X), rtol=1e-6)
    np.testing.assert_array_equal(found.predict(X[:3]), result.predict(X[:3]))
    assert (tmp_path / "model.stablehlo").exists() == (name == "own")


SMALL = {
    "linear": feddr.models.linear(3),
    "softmax": feddr.models.softmax(3, 2),
    "mlp": feddr.models.mlp([3, 4, 2]),
    "cnn": feddr.models.cnn(3, (8, 8, 1), (2, 3), kernel=3, hidden=5),
    "resnet": feddr.models.resnet(3, (8, 8, 1), (4, 8), blocks=1, groups=2),
    "lstm": feddr.models.lstm(5, 3, (4,)),
    "transformer": feddr.models.transformer(5, 6, width=4, heads=2, layers=1),
}


def test_every_ready_model_is_built_again_from_what_a_file_can_hold() -> None:
    assert set(SMALL) == set(forward.READY)
    for name, model in SMALL.items():
        again = forward.from_spec(json.loads(json.dumps(model.spec)))
        jax.tree.map(np.testing.assert_array_equal, again.init(1), model.init(1))
        assert (again.num_outputs, again.is_linear) == (model.num_outputs, model.is_linear), name


def test_labels_and_preparation_are_saved(tmp_path: Path) -> None:
    result = ill()
    found = saved(tmp_path, result)
    assert found.classes == ("no", "yes")
    assert found.preparation == result.problem.data.preparation
    np.testing.assert_array_equal(found.predict(RAW), result.predict(RAW))
    np.testing.assert_array_equal(found.coefficients(raw=True), result.predictor.coefficients(raw=True))


def test_another_process_needs_the_folder_alone(tmp_path: Path) -> None:
    """In particular neither the code of the model nor the library that it was written with."""
    result = run(feddr.Problem.classification(own(), CLASSES))
    result.save(tmp_path / "run")
    np.save(tmp_path / "x.npy", X[:4])
    program = """
import sys, numpy as np, feddr
print(feddr.load(sys.argv[1]).predict(np.load(sys.argv[2])).tolist())
assert not {"flax", "equinox", "tests"} & set(sys.modules)
"""
    words: list[str | Path] = [sys.executable, "-c", program, tmp_path / "run", tmp_path / "x.npy"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(told.stdout) == result.predict(X[:4]).tolist()


def test_several_methods_are_told_apart(tmp_path: Path) -> None:
    first = run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES))
    second = run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES), rounds=4)
    first.save(tmp_path / "FedDR")
    assert feddr.load(tmp_path).predict(X).tolist() == first.predict(X).tolist()
    second.save(tmp_path / "longer")
    np.testing.assert_array_equal(feddr.load(tmp_path, method="longer").params["bias"], second.params["bias"])
    with pytest.raises(ValueError, match="has several models, FedDR, longer; name one of them as method"):
        feddr.load(tmp_path)
    with pytest.raises(ValueError, match=r"has no method '\.\./FedDR'; it has FedDR, longer"):
        feddr.load(tmp_path, method="../FedDR")
    with pytest.raises(ValueError, match="has one model, got method='FedDR'"):
        feddr.load(tmp_path / "FedDR", method="FedDR")


def test_folders_without_a_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is not a folder; give the folder of a run"):
        feddr.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"has no model with a model\.json; give the folder of a run that has ended"):
        feddr.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"run it again if it is of feddr 0\.2\.0 or older"):
        feddr.load(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "model.stablehlo"])
def test_damage_is_noticed(name: str, tmp_path: Path) -> None:
    run(feddr.Problem.classification(own(), CLASSES)).save(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    (tmp_path / name).write_bytes(data[:-1])
    with pytest.raises(DamagedError, match=r"is not the one that model\.json was written with"):
        feddr.load(tmp_path)
    (tmp_path / name).write_bytes(data + b"\0")
    with pytest.raises((DamagedError, ValueError), match="more than the"):
        feddr.load(tmp_path)
    data[-1] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DamagedError, match="is not the one"):
        feddr.load(tmp_path)


def change(folder: Path, **entries: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": 99}, "newer feddr"),
        ({"structure": {"tuple": 3}}, "not one that feddr writes"),
        ({"structure": {"array": "bias"}}, "The structure has the arrays"),
        ({"structure": [1]}, "not one that feddr writes"),
        ({"parameters": ["bias"]}, "other parameters"),
        ({"files": {}}, "not what feddr writes"),
        ({"spec": {"name": "os.system"}}, "A ready model is one of linear, softmax, mlp"),
        ({"spec": {"name": "mlp", "widths": [1]}}, "does not take"),
        ({"task": "crime"}, "not what feddr writes"),
        ({"files": {"model.safetensors": {"bytes": 2**60, "sha256": ""}}}, "more than this machine"),
    ],
)
def test_a_description_that_feddr_did_not_write_is_refused(
    entries: dict[str, Any], message: str, tmp_path: Path
) -> None:
    run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES)).save(tmp_path)
    change(tmp_path, **entries)
    with pytest.raises((ValueError, DamagedError), match=message):
        feddr.load(tmp_path)


def test_no_json_is_refused(tmp_path: Path) -> None:
    run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES)).save(tmp_path)
    for text in ("", "[", "[1]", "[" * 100_000):
        (tmp_path / "model.json").write_text(text)
        with pytest.raises((ValueError, DamagedError)):
            feddr.load(tmp_path)


def test_a_stored_function_that_calls_out_is_refused(tmp_path: Path) -> None:
    """LAPACK stands for what a file may call; a Python callback cannot be stored at all."""

    def apply(leaves: Any, x: Any) -> Any:
        return x @ jnp.linalg.cholesky(leaves[0])

    leaf = np.eye(5, dtype=np.float32)
    with pytest.raises(ValueError, match="lapack_spotrf_ffi, which is code outside of it"):
        forward.dumps(apply, [leaf], forward.Rows((5,), False))
    rows: Any = jax.ShapeDtypeStruct((jax.export.symbolic_shape("rows")[0], 5), np.float32)  # type: ignore[no-untyped-call]
    data = jax.export.export(jax.jit(apply), platforms=["cpu"])([leaf], rows).serialize()
    with pytest.raises(DamagedError, match="does more than compute, it calls lapack_spotrf_ffi"):
        forward.loads(bytes(data), {"b": leaf}, forward.Rows((5,), False), 5, tmp_path)


def test_a_function_that_cannot_be_stored_leaves_the_weights(tmp_path: Path) -> None:
    def apply(params: Any, x: Any) -> Any:
        return x[: int(x.shape[0])] @ params["w"]  # asks for the number of rows, which is not known when it is stored

    problem = feddr.Problem.regression(Model(lambda _: {"w": np.zeros(4)}, apply, 0), NUMBERS)
    result = run(problem)
    with pytest.warns(ModelWarning, match="is saved without its forward function. The model cannot be written"):
        result.save(tmp_path)
    found = feddr.load(tmp_path)
    np.testing.assert_array_equal(found.params["w"], result.params["w"])
    with pytest.raises(ValueError, match="cannot be written as StableHLO"):
        found.predict(NUMBERS.train.samples["x"])


def test_a_model_saved_over_another_leaves_nothing_of_it(tmp_path: Path) -> None:
    run(feddr.Problem.classification(own(), CLASSES)).save(tmp_path)
    run(feddr.Problem.classification(feddr.models.softmax(5, 3), CLASSES)).save(tmp_path)
    assert not (tmp_path / "model.stablehlo").exists()
    assert feddr.load(tmp_path).is_linear
