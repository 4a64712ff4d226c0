"""The validation part: metrics, early stopping and searches that never look at the test part."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn

import feddr
from feddr.config import parse
from feddr.metrics.metric import needed
from feddr.tune.jobs import execute

SGD = feddr.local.SGD(lr=0.1, epochs=1, batch_size=4)
ENGINES = [feddr.simulate, feddr.simulate_async, feddr.reference]


def data(validation_share: float = 0.3) -> feddr.FederatedData:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    x = rng.normal(size=(90, 4)) + y[:, None]
    return feddr.FederatedData.from_arrays(x, y, np.arange(90) % 3, validation_share=validation_share)


def run(engine: Any = feddr.simulate, share: float = 0.3, **more: Any) -> feddr.Result:
    problem = feddr.Problem.classification(feddr.models.softmax(4, 3), data(share))
    common: dict[str, Any] = {"local": SGD, "evaluate_every": 1, "precision": "float64", **more}
    if engine is feddr.simulate_async:
        return feddr.simulate_async(problem, feddr.AsyncFedDR(eta=1.0, alpha=1.2), updates=4, **common)
    found: feddr.Result = engine(problem, feddr.FedDR(eta=1.0, alpha=1.2), rounds=4, **common)
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_of_the_validation_part_are_those_of_its_samples(engine: Any) -> None:
    result = run(engine, metrics=["validation_f1", "validation_accuracy", "f1"])
    part = result.problem.data.validation
    assert part is not None
    y, found = part.samples["y"], result.predict(part.samples["x"])
    row = result.history.last
    assert row.metrics["validation_f1"] == pytest.approx(sklearn.f1_score(y, found, average="macro"))
    assert row.metrics["validation_accuracy"] == pytest.approx(float(np.mean(y == found)))
    assert row.metrics["test_f1"] != row.metrics["validation_f1"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_stops_by_its_validation_part_without_being_asked_for_the_metric(engine: Any) -> None:
    whole = run(engine, metrics=["validation_loss"])
    losses = [row.metrics["validation_loss"] for row in whole.history.rows]
    assert losses[1] < losses[0]
    stopped = run(engine, stop_when=feddr.StopWhen("validation_loss", target=losses[1]))
    first = next(k for k, loss in enumerate(losses) if loss <= losses[1])
    assert stopped.history.last.round == first < 4
    assert stopped.history.last.metrics["validation_loss"] == losses[first]


def test_what_is_asked_for_twice_is_measured_once() -> None:
    result = run(metrics=["validation_loss"], stop_when="metric=validation_loss, patience=9")
    assert list(result.history.last.metrics) == ["validation_loss"]


def test_statistics_of_clients_on_the_validation_part() -> None:
    result = run(stop_when="worst_client_validation_accuracy>=1.5")
    part, row = result.problem.data.validation, result.history.last
    assert part is not None
    own = [np.mean(result.predict(part.client(i)["x"]) == part.client(i)["y"]) for i in range(3)]
    assert row.metrics["worst_client_validation_accuracy"] == pytest.approx(min(own))
    assert result.history.clients.last["validation_accuracy"].tolist() == pytest.approx(own)


def test_it_is_on_the_device_only_where_somebody_asks() -> None:
    from feddr.engines.shared.evaluation import Evaluator

    problem = feddr.Problem.classification(feddr.models.softmax(4, 3), data())
    evaluator = Evaluator(problem, np.float32)
    evaluator.at(problem.init)
    assert evaluator._validation is None
    assert len(evaluator.each(problem.init, "validation", "loss")) == data().part("validation").num_samples  # type: ignore[union-attr]


def test_without_such_a_part_it_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        ValueError, match=r"validation_f1 needs validation samples, the data has none; give the data a va"
    ):
        run(share=0.0, metrics=["validation_f1"])
    with pytest.raises(ValueError, match="validation_loss needs validation samples"):
        run(share=0.0, stop_when="validation_loss<=0.5")


def test_labels_of_the_validation_part_are_checked() -> None:
    part = data().train
    wrong = feddr.FederatedData.from_clients([part.client(i) for i in range(3)])
    bad = feddr.FederatedData(
        wrong.train, validation=feddr.FederatedData.from_clients([{"x": np.zeros((1, 4)), "y": [7]}] * 3).train
    )
    with pytest.raises(ValueError, match="7"):
        feddr.Problem.classification(feddr.models.softmax(4, 3), bad)


def test_another_validation_part_is_another_problem_for_checkpoints() -> None:
    from feddr.checkpoint.identity import fingerprint

    model = feddr.models.softmax(4, 3)
    own = data()
    bare = feddr.FederatedData(own.train, own.test, features=own.features, preparation=own.preparation)
    assert fingerprint(feddr.Problem.classification(model, own)) != fingerprint(
        feddr.Problem.classification(model, bare)
    )


def test_a_search_by_the_validation_part_measures_it(tmp_path: Any) -> None:
    rows = ["site,age,ill"] + [f"{'ab'[i % 2]},{i % 7},{int(i % 7 > 3)}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    tables = {
        "name": "small",
        "rounds": 2,
        "data": {
            "name": "csv",
            "path": str(tmp_path / "a.csv"),
            "client": "site",
            "label": "ill",
            "numeric": ["age"],
            "validation_share": 0.3,
        },
        "model": {"name": "linear", "num_features": 1},
        "local": {"name": "SGD", "lr": 0.1},
        "algorithm": [{"name": "FedDR", "eta": 1.0}],
    }
    search = feddr.tune.plan(tables, grid={"local.lr": [0.1, 0.5]}, seeds=[0], metric="validation_accuracy")
    (first, *_) = search.jobs()
    assert parse(first.config).metrics == ("validation_accuracy",)
    found = execute(first)
    assert found.status == "finished"
    assert found.value is not None
    assert 0 <= found.value <= 1


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("F", (None, False)),
        ("test_accuracy", (None, False)),
        ("test_loss", ("test_loss", False)),
        ("f1", ("f1", False)),
        ("log_loss", ("log_loss", False)),
        ("validation_log_loss", ("validation_log_loss", False)),
        ("worst_client_train_accuracy", (None, True)),
        ("p10_client_validation_accuracy", ("validation_accuracy", True)),
        ("worst_client_test_f1", ("test_f1", True)),
        ("mine", (None, False)),
        ("time", (None, False)),
    ],
)
def test_what_a_run_must_be_asked_for(column: str, wanted: tuple[str | None, bool]) -> None:
    assert needed(column) == wanted
