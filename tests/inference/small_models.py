"""A small run for each kind of model."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

import feddr
from feddr import FederatedData
from feddr.data import ClientSamples
from feddr.models import Model
from feddr.preparation import CategoricalColumn, NumericColumn, Preparation
from tests.conftest import make_classes, make_regression

CLASSES = make_classes(sizes=(13, 30, 8, 21), dimension=5, classes=3, seed=2)
NUMBERS = make_regression(sizes=(7, 40, 12), dimension=4, seed=1)

PREPARATION = Preparation(
    (NumericColumn("age", median=50.0), CategoricalColumn("sex", ("f", "m"), "f")),
    mean=(50.0, 0.5),
    scale=(10.0, 0.25),
    label="ill",
    classes=("no", "yes"),
)
RAW = pd.DataFrame({"age": [30.0, 70.0, None, 55.0], "sex": ["f", "m", "m", "f"], "ill": ["no", "yes", "yes", "no"]})


def own() -> Model:
    """Return a model that feddr cannot rebuild: nested lists and tuples, and a scalar that is one."""

    def init(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return {"layers": [rng.normal(size=(5, 3)), (np.array(0.5), None)], "shift": np.array(1.5)}

    def apply(params: Any, x: Any) -> Any:
        weight, (slope, _) = params["layers"]
        return jnp.tanh(slope * x @ weight) + params["shift"]

    return Model(init, apply, num_outputs=3)


def run(problem: feddr.Problem, precision: str = "float32", rounds: int = 2) -> feddr.Result:
    local = feddr.local.SGD(lr=0.1, epochs=1, batch_size=8)
    return feddr.simulate(problem, feddr.FedDR(eta=1.0), local=local, rounds=rounds, precision=precision)


def ill() -> feddr.Result:
    """Return a run on prepared rows of two hospitals."""
    x, y = PREPARATION.transform(RAW), PREPARATION.labels(RAW["ill"])
    part = ClientSamples({"x": x, "y": y}, np.array([0, 2, 4]))
    data = FederatedData(part, features=PREPARATION.features, classes=PREPARATION.classes, preparation=PREPARATION)
    return run(feddr.Problem.classification(feddr.models.linear(2), data), rounds=5)


def saved(tmp_path: Path, result: feddr.Result) -> feddr.Predictor:
    return feddr.load(result.save(tmp_path))
