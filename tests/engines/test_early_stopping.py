"""Early stopping: every engine ends at the same round, also after an interruption."""

from pathlib import Path
from typing import Any

import pytest

import feddr
from feddr.history import History, Row
from tests.engines.test_metrics import SGD, problem

ENGINES = [feddr.simulate, feddr.simulate_async, feddr.reference]


def run(engine: Any, **more: Any) -> feddr.Result:
    common = {"local": SGD, "rounds": 12, "evaluate_every": 2, "precision": "float64", **more}
    if engine is feddr.simulate_async:
        common["updates"] = common.pop("rounds")
        return feddr.simulate_async(problem(), feddr.AsyncFedDR(eta=1.0, alpha=1.2), **common)
    found: feddr.Result = engine(problem(), feddr.FedDR(eta=1.0, alpha=1.2), **common)
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_ends_the_run_at_the_first_evaluation_that_reaches_it(engine: Any) -> None:
    whole = run(engine)
    target = whole.history.rows[2].F
    stopped = run(engine, stop_when=feddr.StopWhen("F", target=target))
    first = next(row.round for row in whole.history.rows if target >= row.F)
    assert [row.F for row in stopped.history.rows] == [row.F for row in whole.history.rows if row.round <= first]
    assert stopped.settings["stopped"].startswith(f"in round {first}, F is ")
    assert stopped.settings["stop_when"] == f"F<={target}"
    assert "stopped" not in whole.settings


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_end_the_run_between_evaluations_with_a_last_row(engine: Any) -> None:
    whole = run(engine, evaluate_every=1)
    enough = whole.history.rows[3].bytes_up + whole.history.rows[3].bytes_down
    seen: list[int | None] = []
    stopped = run(
        engine,
        stop_when=f"bytes={enough}",
        evaluate_every=10,
        callback=lambda progress: seen.append(progress.row and progress.row.round),
    )
    assert stopped.history.last.round == 3
    assert seen == [0, None, None, 3]
    assert stopped.history.last.F == whole.history.rows[3].F


def test_time_ends_a_run_and_is_counted_from_its_start() -> None:
    assert run(feddr.simulate, stop_when="seconds=1e-9").history.last.round == 0


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_a_resumed_run_stops_where_it_would_have(engine: Any, tmp_path: Path) -> None:
    rule = feddr.StopWhen("test_accuracy", patience=2)
    whole = run(engine, stop_when=rule, rounds=30)
    last = whole.history.last.round
    assert 4 <= last < 30
    kept = feddr.Checkpoint(tmp_path / "kept", every=1)
    run(engine, stop_when=rule, rounds=30, checkpoint=kept, callback=lambda progress: progress.round == 3)
    for _ in range(2):  # also when it has stopped before
        again = run(engine, stop_when=rule, rounds=30, checkpoint=feddr.Checkpoint(tmp_path / "kept", 1, True))
        assert again.history.last.round == last
        assert again.settings["stopped"] == whole.settings["stopped"]


def test_metrics_of_a_run_can_be_targets() -> None:
    def nothing(outputs: Any, batch: Any) -> float:
        del outputs, batch
        return 0.0

    more: dict[str, Any] = {"metrics": [nothing], "rounds": 3}
    assert run(feddr.simulate, stop_when="nothing>=0", **more).history.last.round == 0
    assert run(feddr.simulate, stop_when=feddr.StopWhen("nothing", target=0.0), **more).history.last.round == 0
    with pytest.raises(ValueError, match=r"A row has .*got 'mine'; ask the run for it with metrics="):
        run(feddr.simulate, stop_when="mine>=0.5")


def test_patience_counts_evaluations_without_improvement() -> None:
    history = History([Row(round=k, F=F) for k, F in enumerate([3.0, 2.0, 1.99, 2.5, 1.98])])
    assert feddr.StopWhen("F", patience=1).reached(history) == ""
    assert "has not improved on 2 for 3 evaluations" in feddr.StopWhen("F", patience=3, min_delta=0.1).reached(history)
    assert feddr.StopWhen("F", patience=4, min_delta=0.1).reached(history) == ""


@pytest.mark.parametrize("text", ["F<=0.1", "test_accuracy>=0.9, seconds=600.0", "metric=F, patience=5, bytes=1000.0"])
def test_texts_say_what_rules_say(text: str) -> None:
    rule = feddr.StopWhen.parse(text)
    assert str(rule) == text
    assert feddr.StopWhen.parse(str(rule)) == rule == feddr.StopWhen.of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("F>=0.1", "F is better when it is smaller, write <="),
        ("test_accuracy=0.9", "got 'test_accuracy=0.9': it is no condition"),
        ("seconds=soon", "could not convert string to float: 'soon'"),
        ("patience=3", "is that of a metric, got metric=None"),
        ("metric=F", "target=None, patience=None"),
        ("", "needs something to stop for"),
        ("seconds=-1", "seconds must be above 0, got -1"),
        ("metric=F, patience=0", "patience must be at least 1, got 0"),
    ],
)
def test_texts_that_are_no_rules_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        feddr.StopWhen.parse(text)


def test_what_is_no_rule_is_refused() -> None:
    wrong: Any = 0.9
    with pytest.raises(ValueError, match=r"stop_when must be a feddr\.StopWhen or a text, got 0\.9"):
        run(feddr.simulate, stop_when=wrong)
    with pytest.raises(ValueError, match="must know which end of mine is better"):
        feddr.StopWhen("mine", target=1.0).reached(History([Row(round=0, metrics={"mine": 0.5})]))
    with pytest.raises(ValueError, match="needs test_accuracy, which is not measured here"):
        feddr.StopWhen("test_accuracy", target=1.0).reached(History([Row(round=0)]))
