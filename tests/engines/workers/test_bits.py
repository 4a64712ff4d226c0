"""Runs on workers have the bits of ``simulate``, whatever the number of workers, and whoever of them dies when."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr.certify import certificate
from feddr.engines.workers import run as run_module
from tests.engines.workers.in_process import FLEETS, InProcess, in_process
from tests.engines.workers.small_runs import (
    arguments,
    assert_equal,
    assert_same,
    assert_same_certificate,
    certified,
    problem,
)

__all__ = ["in_process"]

FEDDR = feddr.FedDR(eta=1.0, alpha=1.5)

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_any_number_of_workers_has_the_bits_of_one_machine(precision: str) -> None:
    expected = feddr.simulate(problem(), FEDDR, **arguments(precision=precision))
    for workers in (1, 2, 5):
        found = feddr.simulate_cluster(problem(), FEDDR, workers=workers, **arguments(precision=precision))
        assert_same(expected, found)
        assert len(FLEETS[-1].members) == workers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        (feddr.FedAvg(), {}),
        (feddr.FedDR(eta=1.0, init="full"), {"rounds": 2}),
        (feddr.FedDR(eta=0.01, alpha=1.0), {"local": feddr.local.Accelerated(1e-3), "rounds": 2}),
        (feddr.FedDR(eta=1.0), {"clock": feddr.Clock(feddr.delays.UniformSpeed(1.0, 2.0), deadline=7.0)}),
    ],
    ids=["without-states", "full-start", "certified-solver", "clock"],
)
def test_other_ways_to_run(algorithm: Any, changes: dict[str, Any]) -> None:
    common = arguments(personal=False, per_client=False, metrics=(), **changes)
    g = feddr.Problem.classification if isinstance(algorithm, feddr.FedAvg) else None
    one = problem() if g is None else g(feddr.models.mlp([4, 5, 3]), problem().data)
    assert_same(feddr.simulate(one, algorithm, **common), feddr.simulate_cluster(one, algorithm, workers=3, **common))


@pytest.mark.slow
def test_fewer_clients_than_shards_and_workers() -> None:
    common = arguments(sampling=feddr.sampling.Full(), rounds=2)
    expected = feddr.simulate(problem(3), FEDDR, **common)
    assert_same(expected, feddr.simulate_cluster(problem(3), FEDDR, workers=5, **common))
    assert len(FLEETS[-1].members) == 3


def test_more_workers_than_shards_are_refused() -> None:
    with pytest.raises(ValueError, match=r"workers must be at most 64, .*, got 65; give each of fewer workers more"):
        feddr.simulate_cluster(problem(), FEDDR, workers=65, **arguments())
    assert not FLEETS


def test_workers_for_whom_there_is_no_shard_are_not_started_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for progress, words in (("words", "2 workers, with room for 64: .* of the 64 shards 2 have clients"), (False, "")):
        common = arguments(sampling=feddr.sampling.Full(), rounds=1, progress=progress)
        feddr.simulate_cluster(problem(2), FEDDR, threads=1, **common)
        assert re.fullmatch(f".*{words}.*" if words else "", capsys.readouterr().err, re.DOTALL)
        assert len(FLEETS[-1].members) == 2


def test_samples_on_demand() -> None:
    def make(i: int) -> dict[str, Any]:
        rng = np.random.default_rng(i)
        return {"x": rng.normal(size=(3, 4)).astype(np.float32), "y": rng.integers(0, 3, 3)}

    data = feddr.FederatedData.generated(make, sizes=np.full(100_000, 3), panel=50)
    one = feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), data)
    common = arguments(rounds=2, personal=False)
    assert_same(feddr.simulate(one, FEDDR, **common), feddr.simulate_cluster(one, FEDDR, workers=2, **common))


def test_samples_in_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(20):
        x, y = rng.normal(size=(3, 4)).astype(np.float32), rng.integers(0, 3, 3)
        np.savez(tmp_path / f"{i:02}.npz", x=x, y=y)
    data = feddr.datasets.client_files(str(tmp_path / "*.npz"), panel=5)
    one = feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), data)
    common = arguments(sampling=feddr.sampling.Uniform(6), rounds=2, personal=False)
    assert_same(feddr.simulate(one, FEDDR, **common), feddr.simulate_cluster(one, FEDDR, workers=2, **common))
    (tmp_path / "03.npz").unlink()
    with pytest.raises(ValueError, match=r"Client 3 needs the file .*03.npz, which is not there; on a cluster"):
        feddr.simulate_cluster(one, FEDDR, workers=2, **common | {"sampling": feddr.sampling.Full()})


@pytest.mark.parametrize("checkpoint", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_worker_that_dies_in_mid_round_changes_no_bit(
    checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InProcess, "deaths", {2: 0, 4: 1, 5: 0})
    common = arguments(rounds=6)
    kept = feddr.Checkpoint(tmp_path / "kept", every=3) if checkpoint else None
    found = feddr.simulate_cluster(problem(), FEDDR, workers=2, checkpoint=kept, **common)
    assert [member.replaced for member in FLEETS[-1].members] == [2, 1]
    assert_same(feddr.simulate(problem(), FEDDR, **common), found)


def test_workers_that_join_take_shards_over_and_change_no_bit(
    in_process: type[InProcess],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One worker; from the second round on there is room for four; one of these dies after that."""
    monkeypatch.setattr(run_module, "BALANCED", 2)
    monkeypatch.setattr(in_process, "joined", 4)
    monkeypatch.setattr(in_process, "deaths", {5: 2})
    found = feddr.simulate_cluster(problem(), FEDDR, threads=64, **arguments(rounds=6))
    assert len(FLEETS[-1].members) == 4
    assert FLEETS[-1].members[2].replaced == 1
    assert_same(feddr.simulate(problem(), FEDDR, **arguments(rounds=6)), found)


@pytest.mark.slow
def test_runs_resume_from_each_others_checkpoints(tmp_path: Path) -> None:
    expected = feddr.simulate(problem(), FEDDR, **arguments(rounds=6))
    engines: list[Any] = [feddr.simulate, feddr.simulate_cluster]
    for j, (first, second) in enumerate([engines, engines[::-1], [engines[1]] * 2]):
        kept = feddr.Checkpoint(tmp_path / str(j), every=1)
        first(problem(), FEDDR, **arguments(rounds=3), checkpoint=kept)
        resumed = feddr.Checkpoint(tmp_path / str(j), every=1, resume=True)
        found = second(problem(), FEDDR, **arguments(rounds=6), checkpoint=resumed)
        # The last row of three rounds is one that a run of six does not have.
        np.testing.assert_array_equal(found.history.column("F")[-1], expected.history.column("F")[-1])
        assert_equal(found.params, expected.params)
        assert_equal(dict(found.state.clients), dict(expected.state.clients))


def test_a_callback_sees_how_busy_workers_are() -> None:
    seen: list[Any] = []
    run = feddr.simulate_cluster(
        problem(), FEDDR, workers=2, callback=lambda report: seen.append(report.workers), **arguments(rounds=2)
    )
    assert all(len(load.busy) == 2 and all(0 <= share <= 1 for share in load.busy) for load in seen)
    assert seen[0].busy == (0.0, 0.0)
    assert 0 < sum(seen[-1].busy) <= 1, "in this process they compute one after the other"
    assert 0 < seen[0].bytes < seen[1].bytes <= run.settings["cluster"]["bytes"]


def test_a_client_that_sends_nothing_finite_is_named_or_skipped_alike() -> None:
    one = problem()
    one.data.train.samples["x"][one.data.train.offsets[5]] = np.inf
    common = arguments(sampling=feddr.sampling.Full(), rounds=2, personal=False, per_client=False, metrics=())
    errors = []
    for engine in (feddr.simulate, feddr.simulate_cluster):
        with pytest.raises(feddr.DivergedError) as caught:
            engine(one, FEDDR, **common)
        errors.append((str(caught.value), caught.value.client, caught.value.round, caught.value.step))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("init", ["lazy", pytest.param("full", marks=pytest.mark.slow)])
def test_workers_certify_with_the_bits_of_one_machine(init: str) -> None:
    expected = certified(feddr.simulate, init=init)
    assert certificate(expected).bound > 0
    for workers in (2, 3):
        there = certified(feddr.simulate_cluster, init=init, workers=workers)
        assert len(FLEETS[-1].members) == workers
        assert_same_certificate(expected, there)


def test_a_worker_that_dies_while_it_measures_changes_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement of a round needs the models before it, which its new worker computes again."""
    monkeypatch.setattr(InProcess, "lethal", "measure")
    monkeypatch.setattr(InProcess, "deaths", {2: 0, 4: 1})
    there = certified(feddr.simulate_cluster, workers=2)
    assert [member.replaced for member in FLEETS[-1].members] == [1, 1]
    assert_same_certificate(certified(feddr.simulate), there)


@pytest.mark.slow
def test_certificates_resume_on_workers(tmp_path: Path) -> None:
    certified(feddr.simulate, rounds=2, checkpoint=feddr.Checkpoint(tmp_path / "kept", every=1))
    resumed = feddr.Checkpoint(tmp_path / "kept", every=1, resume=True)
    there = certified(feddr.simulate_cluster, rounds=4, workers=2, checkpoint=resumed)
    assert_same_certificate(certified(feddr.simulate, rounds=4), there)
