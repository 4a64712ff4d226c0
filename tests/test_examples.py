"""The examples run, draw their pictures, and what they claim is so: each in its quick form, without files of data."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import feddr
from feddr.algorithms import Uploads
from feddr.prox import Regulariser, leave

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "common")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import an example as Python does when it is run as a script, and forget it afterwards."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in ("common", *NAMES):
        sys.modules.pop(name, None)


def tour(found: Any, out: Path) -> None:
    assert found.resumed == 0
    assert {"history.csv", "model.safetensors", "settings.json", "curves.png"} <= {p.name for p in out.glob("tour/*")}
    assert found.last.loc["FedDR with l1", "sparsity"] > found.last.loc["FedDR", "sparsity"]


def heart_disease(found: Any, _out: Path) -> None:
    assert found.distance < 1e-6, "the federated model must be that of one table"
    assert found.least >= 0
    for values in found.auc.values():
        assert np.all(np.isnan(values) | ((values >= 0) & (values <= 1)))  # NaN where all test patients are ill


def simplex(found: Any, _out: Path) -> None:
    assert found.distance < 1e-9
    assert found.violation < 1e-12


def fewer_units(found: Any, out: Path) -> None:
    assert 0 < found.units < 64, "a network from which nothing was cut shows nothing"
    assert found.difference < 1e-5
    before, after = found.bytes
    assert after == (out / "smaller.safetensors").stat().st_size
    cut = 4 * (64 - found.units) * (64 + 1 + 10)  # incoming weights, bias, outgoing weights; float32
    assert before - after == pytest.approx(cut, abs=64)  # shapes in the header have fewer digits, too


def asynchronous(found: Any, _out: Path) -> None:
    waiting, taking = found.ends
    assert waiting <= taking < waiting + 10  # ten updates between looks at the clock, of which a second has several
    assert found.last.loc["idle share"].iloc[0] > 0.5
    assert found.last.loc["idle share"].iloc[1] == 0
    assert found.tau > 9, "a slow client misses more updates than there are other clients"


def own_regulariser(found: Any, _out: Path) -> None:
    assert found.prox_error <= 1
    assert found.mapping < 1e-2


def own_algorithm(found: Any, _out: Path) -> None:
    assert found.difference < 1e-5  # float32


CHECKS = {
    check.__name__: check
    for check in (tour, heart_disease, simplex, fewer_units, asynchronous, own_regulariser, own_algorithm)
}


QUICK = ("tour", "heart_disease", "asynchronous", "own_algorithm")
"""``make test-slow`` has the others."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_example(
    name: str, load: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = load(name).main(["--quick", "--out", str(tmp_path)])
    picture = tmp_path / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"Picture: {picture}" in capsys.readouterr().out
    CHECKS[name](found, tmp_path)


def test_nonnegative_l1_has_the_prox_of_its_value(load: Callable[[str], ModuleType]) -> None:
    g = load("heart_disease").NonNegativeL1(0.3, mask=leave("bias"))
    assert isinstance(g, Regulariser)
    grid = np.linspace(-1, 3, 4001)
    values = np.array(jax.vmap(lambda u: g.value({"weight": u, "bias": -5.0}))(grid.astype(np.float32)))
    for x in (-1.0, -0.2, 0.1, 0.6, 2.0):
        best = grid[np.argmin(values + (grid - x) ** 2 / (2 * 1.5))]
        got = g.prox({"weight": np.float32(x), "bias": np.float32(-5.0)}, 1.5)
        assert abs(float(got["weight"]) - best) < 2e-3
        assert float(got["bias"]) == -5.0


def test_mcp_is_a_regulariser_that_tends_to_l1(load: Callable[[str], ModuleType]) -> None:
    mcp = load("own_regulariser").MCP
    x = {"a": np.linspace(-2, 2, 9, dtype=np.float32), "b": np.float32(0.7)}
    assert isinstance(mcp(0.5), Regulariser)
    flat, l1 = mcp(0.5, gamma=1e6), feddr.prox.L1(0.5)
    assert float(flat.value(x)) == pytest.approx(float(l1.value(x)), rel=1e-4)
    np.testing.assert_allclose(flat.prox(x, 1.0)["a"], l1.prox(x, 1.0)["a"], rtol=1e-4, atol=1e-5)


def test_fedavgm_without_momentum_is_fedavg(load: Callable[[str], ModuleType]) -> None:
    rules, x = load("own_algorithm").FedAvgM(beta=0.0), {"w": np.array([1.0, -2.0])}
    uploads = Uploads({"w": np.array([0.5, 3.0])}, weight=0.4, joined=0.4, joined_share=0.4)
    got = rules.aggregate(rules.server(x), uploads, lambda x, _: x)
    want = feddr.FedAvg().aggregate(feddr.FedAvg().server(x), uploads, lambda x, _: x)
    np.testing.assert_allclose(got.xbar["w"], want.xbar["w"], rtol=1e-15)


def test_fedavgm_moves_on_with_its_velocity(load: Callable[[str], ModuleType]) -> None:
    rules, x = load("own_algorithm").FedAvgM(beta=0.5, lr=0.1), {"w": np.array(1.0)}
    s = rules.server(x)
    for _ in range(2):  # clients that do not move: what is left is momentum, and there is none at first
        s = rules.aggregate(s, Uploads(s.xbar, weight=1.0, joined=0.0, joined_share=0.0), lambda x, _: x)
    assert s.xbar["w"] == 1.0
    s = rules.aggregate(s, Uploads({"w": np.array(0.0)}, weight=1.0, joined=0.0, joined_share=0.0), lambda x, _: x)
    assert s.xbar["w"] == pytest.approx(0.9)  # v = 1
    s = rules.aggregate(s, Uploads(s.xbar, weight=1.0, joined=0.0, joined_share=0.0), lambda x, _: x)
    assert s.xbar["w"] == pytest.approx(0.85)  # v = 0.5


def test_the_gallery_shows_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert sorted(Path(path).stem for path in shown) == NAMES == sorted(CHECKS)
    for path in shown:
        assert 0 < (EXAMPLES / path).stat().st_size < 150_000
    for name in NAMES:
        assert f"python examples/{name}.py" in text
