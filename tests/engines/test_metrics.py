"""Metrics that a run is asked for: right over the whole part, the same in every engine, kept in checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn

import feddr
from feddr.engines.shared import evaluation, pieces
from feddr.metrics import Metric
from feddr.runs.folder import read_history

SIZES, FEATURES, CLASSES = (5, 9, 12, 7), 4, 3
SGD = feddr.local.SGD(lr=0.2, epochs=1, batch_size=4)
NAMES = ["f1", "auc", "log_loss", "calibration_error", "test_loss", "train_f1"]


def federation(test: bool = True) -> feddr.FederatedData:
    """Clients that prefer labels, the last of them without test samples."""
    rng = np.random.default_rng(0)

    def samples(size: int, favourite: int) -> dict[str, Any]:
        y = np.where(rng.random(size) < 0.5, favourite % CLASSES, rng.integers(0, CLASSES, size))
        return {"x": rng.normal(size=(size, FEATURES)) + y[:, None], "y": y}

    train = [samples(size, i) for i, size in enumerate(SIZES)]
    return feddr.FederatedData.from_clients(
        train, [samples(n, i) for i, n in enumerate((6, 8, 5, 0))] if test else None
    )


def problem(test: bool = True) -> feddr.Problem:
    return feddr.Problem.classification(feddr.models.softmax(FEATURES, CLASSES), federation(test))


def spread(outputs: Any, batch: Any) -> Any:
    assert set(batch) == {"x", "y"}
    return outputs.max() - outputs.min()


def run(engine: Any = feddr.simulate, **more: Any) -> feddr.Result:
    common = {"local": SGD, "rounds": 4, "evaluate_every": 2, "precision": "float64", **more}
    if engine is feddr.simulate_async:
        common["updates"] = common.pop("rounds")
        return feddr.simulate_async(problem(), feddr.AsyncFedDR(eta=1.0, alpha=1.2), **common)
    found: feddr.Result = engine(problem(), feddr.FedDR(eta=1.0, alpha=1.2), **common)
    return found


def scores(result: feddr.Result, part: Any) -> Any:
    return part.samples["x"] @ result.params["weight"] + result.params["bias"]


def test_metrics_are_those_of_the_whole_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "CHUNK", 4)  # so that there are several, and the last is not full
    result = run(metrics=[*NAMES, spread])
    found, data = result.history.last.metrics, result.problem.data
    assert data.test is not None
    y, s = data.test.samples["y"], scores(result, data.test)
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    assert found["test_f1"] == pytest.approx(sklearn.f1_score(y, s.argmax(axis=1), average="macro"))
    assert found["test_auc"] == pytest.approx(sklearn.roc_auc_score(y, p, multi_class="ovr"))
    assert found["test_log_loss"] == pytest.approx(sklearn.log_loss(y, p))
    assert found["test_loss"] == pytest.approx(found["test_log_loss"])  # cross-entropy is the loss here
    assert found["test_spread"] == pytest.approx(s.max() - s.min())
    train = scores(result, data.train).argmax(axis=1)
    assert found["train_f1"] == pytest.approx(sklearn.f1_score(data.train.samples["y"], train, average="macro"))


@pytest.mark.slow
def test_every_engine_measures_the_same() -> None:
    more: dict[str, Any] = {"metrics": [*NAMES, spread], "per_client": True, "personal": True}
    more |= {"rounds": 1, "evaluate_every": 1}  # the reference takes its time
    ours, theirs = run(**more), run(feddr.reference, **more)
    assert ours.history.columns == theirs.history.columns
    for a, b in zip(ours.history.rows, theirs.history.rows, strict=True):
        x, y = a.to_dict() | {"wall_time": 0.0}, b.to_dict() | {"wall_time": 0.0}
        assert y == pytest.approx(x, abs=1e-9, nan_ok=True)
    assert theirs.history.last.wall_time > 0
    for name, column in ours.history.clients.last.items():
        assert theirs.history.clients.last[name] == pytest.approx(column, abs=1e-9, nan_ok=True)
    late = run(feddr.simulate_async, **more)
    assert set(late.history.metrics) == set(ours.history.metrics)


def test_each_client_has_the_metrics_of_its_own_samples() -> None:
    result = run(per_client=True, metrics=["f1"])
    clients, row, data = result.history.clients, result.history.last, result.problem.data
    assert list(clients.tables) == [0, 2, 4]
    table = clients.last
    assert data.test is not None
    right = [
        float(np.mean(scores(result, data.test)[a:b].argmax(axis=1) == data.test.samples["y"][a:b]))
        if a < b
        else np.nan
        for a, b in zip(data.test.offsets[:-1], data.test.offsets[1:], strict=True)
    ]
    assert table["test_accuracy"] == pytest.approx(right, nan_ok=True)
    assert np.isnan(table["test_accuracy"][3])  # it has no test samples
    assert np.dot(table["train_loss"], SIZES) / sum(SIZES) == pytest.approx(row.train_loss)
    assert row.metrics["worst_client_test_accuracy"] == min(right[:3])
    assert row.metrics["best_client_test_loss"] == min(table["test_loss"][:3])
    assert row.metrics["worst_client_test_f1"] == min(table["test_f1"][:3])


def test_without_a_test_part_metrics_are_those_of_training() -> None:
    common: dict[str, Any] = {"local": SGD, "rounds": 1, "per_client": True}
    result = feddr.simulate(problem(test=False), feddr.FedAvg(), metrics=["f1"], **common)
    assert result.history.metrics[0] == "train_f1"
    assert result.history.last.value("f1") == result.history.last.metrics["train_f1"]
    assert "worst_client_train_accuracy" in result.history.metrics
    with pytest.raises(ValueError, match="test_auc needs test samples, the data has none; ask for train_auc"):
        feddr.simulate(problem(test=False), feddr.FedAvg(), metrics=["test_auc"], **common)


def test_a_loss_alone_needs_outputs() -> None:
    data = federation()

    def loss(params: Any, batch: Any) -> Any:
        return ((batch["x"] @ params - batch["y"]) ** 2).astype(float)

    common: dict[str, Any] = {"local": SGD, "rounds": 1, "metrics": ["r2"], "precision": "float64"}
    with pytest.raises(ValueError, match=r"needs to know them, got a problem with a loss alone; give it outputs="):
        feddr.simulate(feddr.Problem(loss, data, np.zeros(FEATURES)), feddr.FedAvg(), **common)
    given = feddr.Problem(loss, data, np.zeros(FEATURES), outputs=lambda params, batch: batch["x"] @ params)
    result = feddr.simulate(given, feddr.FedAvg(), **common)
    assert data.test is not None
    expected = sklearn.r2_score(data.test.samples["y"], data.test.samples["x"] @ result.params)
    assert result.history.last.metrics["test_r2"] == pytest.approx(expected)


def test_outputs_beyond_all_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "GATHERED", 100)
    with pytest.raises(ValueError, match=r"Metrics gather the outputs of all samples.*got .* GB for 19 samples with 3"):
        run(metrics=["f1"])
    assert run(rounds=0).history.last.metrics == {}


def test_nothing_is_evaluated_beyond_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(evaluation.Evaluator, "each", never)
    result = run()
    assert result.history.metrics == ()
    assert len(result.history.clients) == 0


@pytest.mark.parametrize("engine", [feddr.simulate, feddr.simulate_async])
def test_a_resumed_run_has_the_same_metrics(engine: Any, tmp_path: Path) -> None:
    more: dict[str, Any] = {"metrics": ["log_loss", "auc"], "per_client": True}
    whole = run(engine, **more)
    run(engine, **more, checkpoint=feddr.Checkpoint(tmp_path / "kept", every=1), callback=lambda p: p.round == 3)
    again = run(engine, **more, checkpoint=feddr.Checkpoint(tmp_path / "kept", every=1, resume=True))
    assert again.history.columns == whole.history.columns
    assert [row.metrics for row in again.history.rows] == [row.metrics for row in whole.history.rows]
    assert again.history.clients.to_pandas().equals(whole.history.clients.to_pandas())
    with pytest.raises(ValueError, match="metrics"):
        run(engine, checkpoint=feddr.Checkpoint(tmp_path / "kept", resume=True))


def test_a_saved_run_is_read_back(tmp_path: Path) -> None:
    result = run(metrics=["f1", Metric("gap", spread, "min")], per_client=True)
    result.save(tmp_path)
    back = read_history(tmp_path)
    assert back.columns == result.history.columns
    assert [row.metrics for row in back.rows] == [row.metrics for row in result.history.rows]
    assert back.clients.to_pandas().equals(result.history.clients.to_pandas())
    assert (tmp_path / "clients.png").stat().st_size > 1000
    assert result.settings["metrics"] == ["f1", "gap"]
