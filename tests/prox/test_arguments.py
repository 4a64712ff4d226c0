"""Wrong arguments are refused with the requirement and the offending value."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from feddr import prox
from feddr.prox import leave

NAN, INF = float("nan"), float("inf")
X = {"w": np.ones((2, 3)), "b": np.ones(3)}


@pytest.mark.parametrize("make", [prox.L1, prox.L2, prox.SquaredL2, prox.LInf, prox.GroupL2, prox.Nuclear])
@pytest.mark.parametrize("strength", [-0.25, NAN, INF, -INF])
def test_strength(make: Callable[[float], object], strength: float) -> None:
    name = getattr(make, "__name__", "")
    with pytest.raises(ValueError, match=rf"^{name} needs a finite strength of 0 or more, got {strength};"):
        make(strength)


@pytest.mark.parametrize("make", [prox.Simplex, prox.L1Ball, prox.L2Ball])
@pytest.mark.parametrize("radius", [0.0, -0.25, NAN, INF])
def test_radius(make: Callable[[float], object], radius: float) -> None:
    with pytest.raises(ValueError, match=rf"needs a finite radius above 0, got {radius};"):
        make(radius)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: prox.L1({"w": np.array([0.1, -0.5])}), r"strength of 0 or more, got -0\.5"),
        (lambda: prox.L1({"w": np.array([0.1, INF])}), r"strength of 0 or more, got inf"),
        (lambda: prox.L2(cast(Any, np.array([1.0, 2.0]))), r"finite strength of 0 or more, got \[1\. 2\.\]"),
        (lambda: prox.ElasticNet(-1.5, 0.1), r"ElasticNet needs a finite l1 of 0 or more, got -1\.5"),
        (lambda: prox.ElasticNet(0.1, -2.5), r"ElasticNet needs a finite l2 of 0 or more, got -2\.5"),
        (lambda: prox.Scaled(prox.L1(0.1), 0.0), r"Scaled needs a finite factor above 0, got 0\.0"),
        (lambda: prox.Scaled(prox.L1(0.1), -3.0), r"Scaled needs a finite factor above 0, got -3\.0"),
        (lambda: prox.Box(2.0, 1.5), r"lower <= upper.*lower=2\.0 and upper=1\.5"),
        (lambda: prox.Box(NAN, 1.0), r"lower=nan and upper=1\.0"),
        (lambda: prox.Box(INF, INF), r"lower=inf and upper=inf"),
        (lambda: prox.Box({"w": np.array([0.0, 7.0])}, 5.0), r"lower=7\.0 and upper=5\.0"),
        (lambda: prox.Box({"w": np.zeros(2)}, {"w": np.array([1.0, -4.0])}), r"lower=0\.0 and upper=-4\.0"),
        (lambda: prox.GroupL2(1.0, []), r"one or more groups, none of them empty, got \(\)"),
        (lambda: prox.GroupL2(1.0, [[0], []]), r"none of them empty, got \(\(0,\), \(\)\)"),
        (lambda: prox.GroupL2(1.0, [[0, 3], [3, 4]]), r"do not overlap, got index 3 more than once"),
        (lambda: prox.GroupL2(1.0, [[5, 5]]), r"do not overlap, got index 5 more than once"),
        (lambda: prox.GroupL2(1.0, [[0], [-2]]), r"indices of 0 or more, got -2"),
        (lambda: prox.GroupL2(1.0, cast(Any, "cells")), r"'rows', 'columns' or lists of indices, got 'cells'"),
        (lambda: prox.Parts({}), r"Parts needs one or more regularisers by name, got \{\}"),
        (lambda: leave(), r"one or more words, none of them empty, got leave\(\)"),
        (lambda: leave("bias", ""), r"none of them empty, got leave\('bias', ''\)"),
    ],
)
def test_construction(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (prox.L1(0.1, mask=leave("w", "b")), r"parameters to act on, got mask=leave\('w', 'b'\) for \['b', 'w'\]"),
        (prox.L2(0.1, mask={"w": True}), r"mask must be one scalar or a tree like the parameters.*got .*'w'"),
        (prox.L2(0.1, mask={"w": 1.0, "b": 0.0}), r"mask must be of booleans, got float64 for 'b'"),
        (prox.L2(0.1, mask={"w": np.ones(2, bool), "b": True}), r"mask must fit.*\(2,\) for 'w' of shape \(2, 3\)"),
        (prox.L1({"w": np.ones(3)}), r"strength must be one scalar or a tree like the parameters"),
        (prox.L1({"w": 0.1, "b": np.ones((2, 3))}), r"strength must fit.*\(2, 3\) for 'b' of shape \(3,\)"),
        (prox.Box(0.0, {"w": 1.0, "b": np.ones(2)}), r"upper must fit.*\(2,\) for 'b' of shape \(3,\)"),
        (prox.Translated(prox.L1(0.1), {"b": 1.0}), r"shift must be one scalar or a tree like the parameters"),
        (prox.GroupL2(0.1, [[0, 9]]), r"indices below 9, the number of parameters, got 9"),
        (prox.GroupL2(0.1, mask=leave("w")), r"needs a matrix among the parameters.*\[\(3,\), \(2, 3\)\]"),
        (prox.Nuclear(0.1, mask=leave("w")), r"Nuclear\(strength=0\.1, mask=leave\('w'\)\) needs a matrix"),
        (
            prox.Nuclear(0.1, mask={"w": np.array([True, False, True]), "b": True}),
            r"Nuclear acts on whole matrices, got a mask for a part of 'w'",
        ),
        (prox.Parts({"w": prox.L1(0.1), "v": prox.L2(0.1)}), r"names that own parameters, got 'v' for .*\['b', 'w'\]"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("call", [lambda g: g.prox(X, 0.5), lambda g: g.value(X)], ids=["prox", "value"])
def test_use(g: Any, message: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call(g)
