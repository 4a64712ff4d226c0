"""Several methods and seeds in one call."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import feddr
from feddr.runs.folder import read_history
from tests.engines.test_metrics import SGD, problem

METHODS: dict[str, Any] = {"ours": feddr.FedDR(eta=1.0, alpha=1.2), "theirs": feddr.FedAvg()}
COMMON: dict[str, Any] = {"rounds": 3, "sampling": feddr.sampling.Uniform(2), "evaluate_every": 1}


@pytest.fixture(scope="module")
def found() -> feddr.Comparison:
    return feddr.compare(problem(), METHODS, local=SGD, seeds=[0, 5], metrics=["f1"], **COMMON)


def test_it_is_what_single_runs_are(found: feddr.Comparison) -> None:
    alone = feddr.simulate(problem(), feddr.FedAvg(), local=SGD, seed=5, metrics=["f1"], **COMMON)
    assert [row.F for row in found.histories["theirs"][5].rows] == [row.F for row in alone.history.rows]
    last = [found.histories["theirs"][seed].last.F for seed in (0, 5)]
    assert last[0] != last[1]
    assert found.table.loc["theirs", "F"] == pytest.approx(np.mean(last))
    assert found.spread.loc["theirs", "F"] == pytest.approx(np.std(last, ddof=1))
    assert found.means()["theirs"].metrics["test_f1"] == found.table.loc["theirs", "test_f1"]
    assert len(found.to_pandas()) == 2 * 2 * 4


def test_bands_reach_from_the_least_to_the_largest_value(found: feddr.Comparison) -> None:
    axes = found.figure(metrics=["F"]).axes[0]
    values = np.array([[row.F for row in one.rows] for one in found.histories["ours"].values()])
    assert axes.lines[0].get_ydata() == pytest.approx(values.mean(axis=0))
    edges = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert edges.max() == pytest.approx(values.max())
    assert edges.min() == pytest.approx(values.min())


def test_it_is_saved_and_can_be_read_back(found: feddr.Comparison, tmp_path: Path) -> None:
    folder = found.save(tmp_path / "both")
    summary = pd.read_csv(folder / "summary.csv", index_col="algorithm")
    assert summary["F"].tolist() == pytest.approx(found.table["F"].tolist())
    assert summary["F_spread"].tolist() == pytest.approx(found.spread["F"].tolist())
    assert len(pd.read_csv(folder / "comparison.csv")) == 16
    assert read_history(folder / "ours" / "seed-5").last.F == found.histories["ours"][5].last.F
    assert (folder / "comparison.png").stat().st_size > 1000


def test_a_method_that_diverges_leaves_the_others_alone() -> None:
    wild = {"ours": SGD, "theirs": feddr.local.SGD(lr=3e38, epochs=5)}
    found = feddr.compare(problem(), METHODS, local=wild, rounds=2)
    assert list(found.failures) == [("theirs", 0)]
    assert found.table["F"].isna().tolist() == [False, True]
    assert list(found.means()) == ["ours"]


def test_asynchronous_methods_and_checkpoints_take_part(tmp_path: Path) -> None:
    both: dict[str, Any] = {"async": feddr.AsyncFedDR(eta=1.0, alpha=1.2), "sync": feddr.FedDR(eta=1.0, alpha=1.2)}
    found = feddr.compare(problem(), both, local=SGD, rounds=2, updates=4, checkpoint=tmp_path / "kept")
    assert [runs[0].last.round for runs in found.histories.values()] == [4, 2]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["async", "sync"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"seeds": []}, r"seeds must be whole numbers that differ, at least one, got \[\]"),
        ({"seeds": [1, 1]}, r"got \[1, 1\]"),
        ({"algorithms": {}}, r"algorithms must be some by label, got \{\}"),
        ({"algorithms": [feddr.FedAvg()]}, "algorithms must be some by label"),
        ({"local": {"ours": SGD}}, "local needs a solver for each algorithm, it has none for theirs"),
    ],
)
def test_what_cannot_be_compared_is_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        feddr.compare(**{"problem": problem(), "algorithms": METHODS, "local": SGD, "rounds": 1, **changed})
