"""A run that was interrupted and resumed is the run that was not, bit for bit."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax
import pytest

import feddr
from feddr import delays, sampling
from feddr.algorithms import Algorithm
from feddr.checkpoint import CheckpointError, Checkpoints, encoding
from feddr.engines.shared.client_store import ClientStore
from feddr.storage.lock import BusyError
from tests.checkpoint.small_runs import ROUGH, SGD, classes, digest, go, squares, stop_at


class Case(NamedTuple):
    name: str
    algorithm: Algorithm
    settings: dict[str, Any]
    composite: bool = True


SOME = {"sampling": sampling.Uniform(3)}
CASES = [
    Case("FedDR", feddr.FedDR(eta=1.0, alpha=1.2), {**SOME, "precision": "float64", "personal": True}),
    Case("FedDR-late", feddr.FedDR(eta=1.0, init="joining"), {**SOME, "clock": feddr.Clock(ROUGH, deadline=1.5)}),
    Case(
        "FedDR-full",
        feddr.FedDR(eta=1.0, init="full"),
        {"clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0), max_events=9)},
    ),
    Case("FedPD", feddr.FedPD(eta=1.0), {}, composite=False),
    Case("Scaffold", feddr.Scaffold(), SOME, composite=False),
    Case("FedAvg", feddr.FedAvg(), SOME, composite=False),
    Case("FedDualAvg", feddr.FedDualAvg(), SOME),
    Case("FedMid", feddr.FedMid(), SOME),
    Case("FedNova", feddr.FedNova(), SOME, composite=False),
    Case("Scaffnew", feddr.Scaffnew(p=0.2), {"personal": True}, composite=False),
    Case("FedDecoupled", feddr.FedDecoupled(), {}),
    Case("MimeLite", feddr.MimeLite(), SOME, composite=False),
    Case("FedDyn", feddr.FedDyn(eta=1.0), {**SOME, "personal": True}, composite=False),
    Case("FedAvgM", feddr.FedAvgM(), SOME, composite=False),
    Case("FedAdam", feddr.FedAdam(), {**SOME, "precision": "float64"}, composite=False),
    Case("FedYogi", feddr.FedYogi(), {**SOME, "clock": feddr.Clock(ROUGH, deadline=1.5)}, composite=False),
    Case("FedAdagrad", feddr.FedAdagrad(), SOME, composite=False),
    Case("FedOpt", feddr.FedOpt(optax.nadam(0.01), name="nadam(0.01)"), SOME, composite=False),
    Case("AsyncFedDR", feddr.AsyncFedDR(eta=1.0, alpha=1.2), {"clock": feddr.Clock(ROUGH)}),
    Case(
        "AsyncFedDR-some",
        feddr.AsyncFedDR(eta=1.0, buffer=3, init="joining"),
        {"clock": feddr.Clock(ROUGH), "concurrency": 4},
    ),
    Case("AsyncFedDR-full", feddr.AsyncFedDR(eta=1.0, init="full"), {"clock": feddr.Clock(ROUGH), "eager": True}),
    Case("CA2FL", feddr.CA2FL(buffer=2), {"clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0))}, composite=False),
    Case("FedBuff", feddr.FedBuff(buffer=2), {"clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0))}, composite=False),
    Case(
        "FedAsync",
        feddr.FedAsync(),
        {"clock": feddr.Clock(delays.Fixed([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))},
        composite=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_resumed_run_is_the_uninterrupted_one(case: Case, tmp_path: Path) -> None:
    """Cut off twice, the second time with the clients' states on disk and on one thread."""
    problem, length = classes(case.composite), 14
    whole = go(problem, case.algorithm, length, **case.settings)
    rng = np.random.default_rng(len(case.name))
    first, second = sorted(rng.choice(np.arange(1, length), 2, replace=False).tolist())
    kept: dict[str, Any] = {**case.settings, "checkpoint": feddr.Checkpoint(tmp_path / "kept", resume=True)}
    go(problem, case.algorithm, length, **kept, callback=stop_at(first), threads=3)
    go(problem, case.algorithm, length, **kept, callback=stop_at(second), threads=1, client_memory=0)
    seen: list[int] = []
    result = go(problem, case.algorithm, length, **kept, callback=lambda progress: seen.append(progress.round))
    assert digest(result) == digest(whole)
    assert seen == list(range(second + 1, length + 1))  # no round is told twice
    times = result.history.column("wall_time")
    assert all(a < b for a, b in itertools.pairwise(times))


def test_certificates_of_resumed_runs_are_whole(tmp_path: Path) -> None:
    problem, algorithm = squares(), feddr.FedDR(eta=0.1, alpha=1.0)
    local = feddr.local.Accelerated(stopping=feddr.local.Relative(0.5))
    more: dict[str, Any] = {"local": local, "certify": True, "sampling": sampling.Uniform(2)}
    whole = go(problem, algorithm, 9, **more)
    go(problem, algorithm, 9, **more, checkpoint=tmp_path / "kept", callback=stop_at(4))
    result = go(problem, algorithm, 9, **more, checkpoint=feddr.Checkpoint(tmp_path / "kept", resume=True))
    assert digest(result) == digest(whole)
    assert str(feddr.certify.certificate(result)) == str(feddr.certify.certificate(whole))


def test_more_rounds_can_be_asked_for_but_not_fewer(tmp_path: Path) -> None:
    problem, algorithm = classes(), feddr.FedDR(eta=1.0)
    go(problem, algorithm, 4, checkpoint=tmp_path / "kept")
    for _ in range(2):  # the second time it is finished, and taken up at its end
        longer = go(problem, algorithm, 8, checkpoint=feddr.Checkpoint(tmp_path / "kept", resume=True))
        assert digest(longer) == digest(go(problem, algorithm, 8))
    with pytest.raises(CheckpointError, match="is that of round 8, got 4 rounds; ask for more"):
        go(problem, algorithm, 4, checkpoint=feddr.Checkpoint(tmp_path / "kept", resume=True))


def test_two_checkpoints_are_kept_and_a_folder_that_has_some_is_not_overwritten(tmp_path: Path) -> None:
    problem, algorithm = classes(), feddr.FedDR(eta=1.0)
    go(problem, algorithm, 7, checkpoint=feddr.Checkpoint(tmp_path / "kept", every=2))
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["000000000006", "000000000007"]
    with pytest.raises(
        CheckpointError, match=r"holds the checkpoints of a run; resume it with Checkpoint\(..., resume=True\)"
    ):
        go(problem, algorithm, 7, checkpoint=tmp_path / "kept")
    wrong: list[Any] = [0, -1, "5", "s", "1 m", True, 2.5]
    for every in wrong:
        with pytest.raises(ValueError, match='every must be a number of rounds, or seconds as in "60s"'):
            feddr.Checkpoint(tmp_path / "other", every=every)


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    problem, algorithm, kept = classes(), feddr.FedDR(eta=1.0), tmp_path / "kept"
    refused: list[str] = []

    def intrude(progress: Any) -> None:
        if progress.round == 2:
            with pytest.raises(BusyError, match="is in use by another run") as error:
                go(problem, algorithm, 3, checkpoint=feddr.Checkpoint(kept, resume=True))
            refused.append(str(error.value))

    result = go(problem, algorithm, 3, checkpoint=feddr.Checkpoint(kept, every=1), callback=intrude)
    assert len(refused) == 1
    assert digest(result) == digest(go(problem, algorithm, 3))
    go(problem, algorithm, 3, checkpoint=feddr.Checkpoint(kept, resume=True))  # it is free again


OTHERS: list[tuple[str, dict[str, Any], str]] = [
    ("seed", {"seed": 4}, "it has seed = 3, this run has 4"),
    ("local", {"local": feddr.local.SGD(lr=0.2)}, r"it has local = SGD\(lr=0.1, .*this run has SGD\(lr=0.2"),
    ("precision", {"precision": "float64"}, "it has precision = float32, this run has float64"),
    ("sampling", {"sampling": sampling.Uniform(2)}, r"it has sampling = Uniform\(m=3\), this run has Uniform\(m=2\)"),
    ("rows", {"evaluate_every": 3}, "it has evaluate_every = 4, this run has 3"),
    ("algorithm", {"algorithm": feddr.FedDR(eta=2.0, alpha=1.2)}, r"it has algorithm = FedDR\(eta=1.0"),
    ("data", {"problem": squares()}, "it has g = "),
    ("clock", {"clock": feddr.Clock(delays.Fixed(1.0))}, "it has delays = None"),
]


def test_another_run_is_refused_with_what_differs(tmp_path: Path) -> None:
    algorithm = feddr.FedDR(eta=1.0, alpha=1.2)  # "auto" would follow the changes
    ours: dict[str, Any] = {"problem": classes(), "algorithm": algorithm, "sampling": sampling.Uniform(3)}
    go(**ours, length=4, checkpoint=feddr.Checkpoint(tmp_path / "kept", every=1))
    for _, changes, message in OTHERS:
        with pytest.raises(CheckpointError, match=message) as error:
            go(**ours | changes, length=6, checkpoint=feddr.Checkpoint(tmp_path / "kept", resume=True))
        assert "The checkpoint of round 4 belongs to another run" in str(error.value)
        assert "The checkpoint of round 3 belongs to another run" in str(error.value)
    assert Checkpoints(tmp_path / "kept").numbers() == [4, 3]  # nothing was touched


def test_one_changed_sample_is_another_problem(tmp_path: Path) -> None:
    problem, algorithm = squares(), feddr.FedDR(eta=1.0)
    go(problem, algorithm, 2, checkpoint=tmp_path / "kept")
    part = problem.data.train
    x = part.samples["x"].copy()
    x[3, 1] = np.nextafter(x[3, 1], 1)
    data = feddr.FederatedData(type(part)({**part.samples, "x": x}, part.offsets))
    other = feddr.Problem.regression(feddr.models.linear(6), data, g=problem.g, weights="samples")
    with pytest.raises(CheckpointError, match="it has problem = "):
        go(other, algorithm, 4, checkpoint=feddr.Checkpoint(tmp_path / "kept", resume=True))


def test_clients_are_packed_in_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies on disk or in memory, in whatever order, comes back in it."""
    monkeypatch.setattr(encoding, "SEGMENT", 100)
    template = {"a": np.zeros((2, 3), np.float32), "b": 1.5, "c": None}
    store, back = ClientStore(budget=5 * 32), ClientStore(budget=7 * 32)
    for i in (7, 3, 11, 0, 9, 4, 2, 8):
        store[i] = {"a": np.full((2, 3), i, np.float32), "b": 0.5 * i, "c": None}
    found = list(encoding.segments(store))
    assert [len(segment["clients"]) for segment in found] == [4, 4]
    encoding.fill(back, template, found)
    assert list(back) == list(store)
    for i, c in store.items():
        np.testing.assert_array_equal(back[i]["a"], c["a"])
        assert (float(back[i]["b"]), back[i]["c"]) == (0.5 * i, None)
    assert type(back[7]["b"]) is float  # a plain number stays one: it has no precision of its own


def test_saving_in_seconds_takes_a_small_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that a save moves by ten seconds: the next one is due after two hundred."""
    now, saved = [0.0], list[int]()

    def slow_save(self: Checkpoints, number: int, *_: Any) -> None:  # noqa: ARG001
        saved.append(number)
        now[0] += 10.0

    def second(progress: Any) -> None:  # noqa: ARG001
        now[0] += 1.0

    monkeypatch.setattr("feddr.checkpoint.manager.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Checkpoints, "save", slow_save)
    problem = classes(composite=False)
    more: dict[str, Any] = {"checkpoint": feddr.Checkpoint(tmp_path / "kept"), "evaluate_every": 300}
    go(problem, feddr.FedAvg(), 300, local=SGD, callback=second, **more)
    assert saved == [59, 259, 300]
