"""A deployed run ends early as a simulated one does, by what the server knows or what is measured."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

import feddr
from feddr import flower
from feddr.flower.settings import Settings
from tests.flower.fake_grid import FakeGrid
from tests.flower.federations import app_for, classes, deploy, events, federation_of, populated

METHOD = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)


def run(folder: Path, **more: Any) -> feddr.History:
    problem = classes()
    settings: dict[str, Any] = {"rounds": 6, "precision": "float64"}
    evaluation = {name: more.pop(name) for name in ("evaluation", "metrics") if name in more}
    grid = populated(FakeGrid(), app_for(problem, METHOD, LOCAL), range(4), folder)
    return deploy(grid, federation_of(problem, **evaluation), METHOD, folder, **(settings | more))


def test_bytes_end_a_run_with_a_last_row(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    enough = whole.rows[3].bytes_up + whole.rows[3].bytes_down
    stopped = run(tmp_path, stop_when=f"bytes={enough}", evaluate_every=5)
    assert [row.round for row in stopped.rows] == [0, 3]
    assert flower.read_run(tmp_path / "server/feddr").version == 3
    settings = json.loads((tmp_path / "server/feddr/settings.json").read_text())
    assert settings["stopped"].startswith("in round 3, ")
    assert [event["version"] for event in events(tmp_path, "stopping")] == [3]


def test_a_metric_of_the_servers_own_data_ends_a_run_and_a_resumed_one_stays_ended(tmp_path: Path) -> None:
    more: dict[str, Any] = {"evaluation": classes(), "metrics": ["test_loss", "f1"]}
    whole = run(tmp_path / "whole", **more)
    target = whole.rows[2].metrics["test_loss"]
    first = next(row.round for row in whole.rows if row.metrics["test_loss"] <= target)
    stopped = run(tmp_path, stop_when=f"test_loss<={target}", **more)
    assert stopped.last.round == first
    assert stopped.last.metrics == whole.rows[first].metrics
    assert run(tmp_path, stop_when=f"test_loss<={target}", **(more | {"rounds": 9})).last.round == first


def test_what_nodes_tell_ends_a_run_once_they_have_told_it(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", evaluation="nodes")
    target = whole.rows[1].F
    stopped = run(tmp_path, evaluation="nodes", stop_when=f"F<={target}")
    assert 1 <= stopped.last.round < 6
    assert any(target >= row.F for row in stopped.rows)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"stop_when": "test_accuracy>=0.9"}, 'not measured in this deployment; use evaluation="nodes"'),
        ({"stop_when": "f1>=0.9", "evaluation": "nodes"}, "nodes report F, f, train_loss, train_accuracy"),
        ({"stop_when": "auc>=0.9", "evaluation": "own"}, "add it to the metrics of the Federation"),
        ({"stop_when": "soon"}, "it is no condition"),
        ({"stop_when": "auc>=0.9", "evaluation": "nodes", "metrics": ["f1"]}, "and loss, accuracy, f1, log_loss, r2"),
    ],
)
def test_what_nobody_measures_is_refused_before_the_run(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    if more.get("evaluation") == "own":
        more = more | {"evaluation": classes()}
    with pytest.raises(ValueError, match=reason):
        run(tmp_path, **more)


def test_the_run_config_may_set_it() -> None:
    assert Settings().overridden({"feddr.stop-when": "seconds=60"}).stopping == feddr.StopWhen(seconds=60)
    assert Settings(stop_when="seconds=60").overridden({"feddr.stop-when": ""}).stopping is None


def test_a_description_or_a_problem_of_its_own_makes_the_folder_one_that_predicts(tmp_path: Path) -> None:
    run(tmp_path / "bare")
    with pytest.raises(ValueError, match="or give a deployment's Federation a description"):
        feddr.load(tmp_path / "bare/server/feddr")
    run(tmp_path / "own", evaluation=classes())
    problem = classes()
    described = flower.ModelDescription(
        feddr.models.mlp([5, 4, 3]), "classification", features=tuple("abcde"), classes=("low", "middle", "high")
    )
    grid = populated(FakeGrid(), app_for(problem, METHOD, LOCAL), range(4), tmp_path)
    federation = federation_of(problem, description=described)
    deploy(grid, federation, METHOD, tmp_path, rounds=6, precision="float64")
    rows = problem.data.train.samples["x"]
    own, named = (feddr.load(tmp_path / place / "server/feddr") for place in ("own", "."))
    assert named.classes == ("low", "middle", "high")
    assert [named.classes[k] for k in own.predict(rows)] == named.predict(rows).tolist()
    assert len(set(named.predict(rows).tolist())) > 1


def test_a_model_that_is_not_ready_made_is_stored_with_its_forward_function(tmp_path: Path) -> None:
    mine = feddr.models.Model(lambda seed: {"w": np.ones((5, 3)) + seed}, lambda params, x: 2.0 * x @ params["w"], 3)
    problem = feddr.Problem.classification(mine, classes().data)
    grid = populated(FakeGrid(), app_for(problem, METHOD, LOCAL), range(4), tmp_path)
    described = flower.ModelDescription(mine, "classification", shape=(5,))
    deploy(grid, federation_of(problem, description=described), METHOD, tmp_path, rounds=2, precision="float64")
    loaded, rows = feddr.load(tmp_path / "server/feddr"), np.eye(5)
    np.testing.assert_allclose(loaded.outputs(rows), mine.apply(loaded.params, rows), rtol=1e-12)


def test_server_app_takes_the_rule(tmp_path: Path) -> None:
    app = flower.server_app(
        federation_of(classes()), METHOD, stop_when=feddr.StopWhen("F", target=0.1), folder=tmp_path
    )
    with pytest.raises(ValueError, match="stop_when needs F, which is not measured"):
        app(FakeGrid(), Context(1, 0, {}, RecordDict(), {}))
