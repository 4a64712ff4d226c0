"""Parameters and masks that are trees and can be called, as the modules of equinox are."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from feddr import prox, tree


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weight: Any
    bias: Any

    def __call__(self, x: Any) -> Any:
        return x @ self.weight + self.bias


X = Layer(np.array([[3.0, 4.0], [0.6, 0.8]], np.float32), np.array([1.0, -2.0], np.float32))
PLAIN = {"weight": X.weight, "bias": X.bias}


@pytest.mark.parametrize(
    ("g", "same"),
    [
        (prox.GroupL2(0.5, "rows"), None),
        (prox.GroupL2(0.5, "columns", weighted=True), None),
        (prox.Nuclear(0.5), None),
        (prox.L1(0.5, mask=prox.leave("bias")), None),
        (prox.L1(0.5, mask=Layer(True, np.array([False, True]))), {"weight": True, "bias": np.array([False, True])}),
        (prox.Nuclear(0.5, mask=Layer(True, False)), {"weight": True, "bias": False}),
        (prox.GroupL2(0.5, mask=Layer(True, False)), {"weight": True, "bias": False}),
    ],
    ids=str,
)
def test_a_tree_that_can_be_called_is_a_tree(g: Any, same: Any) -> None:
    plain = g if same is None else type(g)(g.strength, mask=same)
    assert float(g.value(X)) == float(plain.value(PLAIN)) > 0
    for name, leaf in tree.named(g.prox(X, 0.3)).items():
        np.testing.assert_array_equal(leaf, plain.prox(PLAIN, 0.3)[name])


def test_a_mask_for_other_parameters_is_not_called() -> None:
    with pytest.raises(ValueError, match="mask must be one scalar or a tree like the parameters"):
        prox.L1(0.1, mask=Layer(True, True)).value(PLAIN)
