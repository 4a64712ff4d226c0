"""Real workers of a real Ray: several of them, on two nodes, killed in mid-round; ``make test-cluster`` runs these."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import feddr
from feddr import reproduce
from feddr.commands import main
from feddr.config import ConfigError
from feddr.engines import cluster
from feddr.engines.workers import connection, placement
from feddr.engines.workers import fleet as fleets
from feddr.engines.workers import run as run_module
from feddr.history import History
from feddr.tune import Ray, RunSpec
from tests.engines.workers.small_runs import arguments, assert_same, assert_same_certificate, certified, problem
from tests.reproduce.small_figures import TINY, experiments

ray = pytest.importorskip("ray", reason="pip install 'feddr[ray]'")

# Ray leaves files open, and starts the processes of a second node by a fork, of which JAX warns.
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

FEDDR = feddr.FedDR(eta=1.0, alpha=1.5)
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """Give a Ray of two nodes, the second of which may be removed; both are on this machine."""
    from ray import cluster_utils

    memory = {"object_store_memory": 100_000_000}
    make: Any = cluster_utils.Cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = make(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False, **memory})
        nodes.other = nodes.add_node(num_cpus=2, **memory)
        ray.init(address=nodes.address, **QUIET)
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[fleets.Fleet]:
    """Give the fleets that are started."""
    found: list[fleets.Fleet] = []

    class Recorded(fleets.Fleet):
        def start(self, shards: Any) -> None:
            found.append(self)
            super().start(shards)

    monkeypatch.setattr(cluster, "Fleet", Recorded)
    return found


def on_demand(make_first: Callable[[int], None] = int) -> feddr.Problem:  # type: ignore[assignment]
    """Return a problem of 10^5 clients that make their samples when these are needed; a function is called before."""

    def make(i: int) -> dict[str, Any]:
        make_first(i)
        rng = np.random.default_rng(i)
        return {"x": rng.normal(size=(3, 4)).astype(np.float32), "y": rng.integers(0, 3, 3)}

    data = feddr.FederatedData.generated(make, sizes=np.full(100_000, 3), panel=50)
    return feddr.Problem.classification(feddr.models.mlp([4, 5, 3]), data)


def test_no_cluster_at_an_address_is_said() -> None:
    """It comes first: a process that is connected to a Ray uses that one."""
    with pytest.raises(ValueError, match="address must be that of a Ray cluster"):
        feddr.simulate_cluster(problem(), FEDDR, address="nonsense://", **arguments())


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.parametrize("workers", [2, 5])
def test_workers_on_two_nodes_have_the_bits_of_one_machine(workers: int) -> None:
    for precision in ("float32", "float64"):
        common = arguments(precision=precision)
        found = feddr.simulate_cluster(problem(), FEDDR, workers=workers, threads=1, **common)
        assert_same(feddr.simulate(problem(), FEDDR, **common), found)


@pytest.mark.usefixtures("two_nodes")
def test_certificates_of_workers_on_two_nodes_have_the_bits_of_one_machine() -> None:
    there = certified(feddr.simulate_cluster, workers=3, threads=1)
    assert_same_certificate(certified(feddr.simulate), there)


@pytest.mark.usefixtures("two_nodes")
def test_a_worker_that_is_killed_in_mid_round_changes_no_bit(tmp_path: Path, started: list[fleets.Fleet]) -> None:
    """One of 10^5 clients kills the process that makes its samples, with SIGKILL, once."""
    flag, driver = tmp_path / "kill", os.getpid()
    common = arguments(rounds=5, personal=False, sampling=feddr.sampling.Uniform(50))

    def kill(i: int) -> None:
        if i >= 60_000 and os.getpid() != driver and flag.exists():
            flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def callback(progress: Any) -> None:
        if progress.round == 2:
            flag.touch()

    expected = feddr.simulate(on_demand(), FEDDR, **common)
    found = feddr.simulate_cluster(on_demand(kill), FEDDR, workers=2, threads=1, callback=callback, **common)
    assert [member.replaced for member in started[0].members] == [0, 1]
    assert_same(expected, found)


def test_a_node_that_is_lost_changes_no_bit(two_nodes: Any, started: list[fleets.Fleet], tmp_path: Path) -> None:
    """There are five workers on two nodes with five cores; those of the lost node go on where no core is free."""
    common = arguments(rounds=5)

    def callback(progress: Any) -> None:
        if progress.round == 3:
            two_nodes.remove_node(two_nodes.other, allow_graceful=False)

    kept = feddr.Checkpoint(tmp_path / "kept", every=2)
    patience, fleets.SCHEDULED = fleets.SCHEDULED, 10.0
    try:
        found = feddr.simulate_cluster(
            problem(), FEDDR, workers=5, threads=1, callback=callback, checkpoint=kept, **common
        )
    finally:
        fleets.SCHEDULED = patience
        two_nodes.other = two_nodes.add_node(num_cpus=2, object_store_memory=100_000_000)
    # A new worker may be put on the lost node, too, until Ray has noticed.
    assert sum(member.replaced > 0 for member in started[0].members) == 2
    assert_same(feddr.simulate(problem(), FEDDR, **common), found)


def test_a_node_that_joins_gets_a_worker(
    two_nodes: Any, started: list[fleets.Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers of two threads on the two nodes; a third node comes after the first round."""
    monkeypatch.setattr(run_module, "BALANCED", 2)
    monkeypatch.setattr(placement, "GAIN", 0.0)
    joined = []

    def callback(progress: Any) -> None:
        if progress.round == 1:
            joined.append(two_nodes.add_node(num_cpus=2, object_store_memory=100_000_000))

    try:
        found = feddr.simulate_cluster(problem(), FEDDR, threads=2, callback=callback, **arguments(rounds=5))
    finally:
        two_nodes.remove_node(joined[0])
    assert len(started[0].members) == 3
    assert_same(feddr.simulate(problem(), FEDDR, **arguments(rounds=5)), found)


DRIVER = """
import os, signal, sys, feddr
from tests.engines.workers.small_runs import arguments, problem

def callback(progress):
    if progress.round == 3:
        os.kill(os.getpid(), signal.SIGKILL)

kept = feddr.Checkpoint(sys.argv[1], every=1)
common = arguments(rounds=5, workers=2, threads=1, callback=callback, checkpoint=kept)
feddr.simulate_cluster(problem(), feddr.FedDR(eta=1.0, alpha=1.5), **common)
"""


def test_a_driver_that_is_killed_resumes_here(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    killed = subprocess.run([sys.executable, "-c", DRIVER, str(folder)], check=False, cwd=Path(__file__).parents[3])
    assert killed.returncode == -signal.SIGKILL
    resumed = feddr.Checkpoint(folder, every=1, resume=True)
    found = feddr.simulate(problem(), FEDDR, checkpoint=resumed, **arguments(rounds=5))
    assert_same(feddr.simulate(problem(), FEDDR, **arguments(rounds=5)), found)


@pytest.mark.usefixtures("two_nodes")
def test_other_versions_are_refused_with_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    there = connection.versions()
    monkeypatch.setattr(connection, "versions", lambda: there | {"jax": "0.0.1", "Python": "2.7"})
    with pytest.raises(ValueError, match=r"Python .* \(here 2.7\), jax .* \(here 0.0.1\); install the same there"):
        feddr.simulate_cluster(problem(), FEDDR, workers=1, threads=1, **arguments())


@pytest.mark.usefixtures("two_nodes")
def test_more_workers_than_cores_are_refused() -> None:
    with pytest.raises(ValueError, match="got 6 of 1 threads"):
        feddr.simulate_cluster(problem(), FEDDR, workers=6, threads=1, **arguments())


@pytest.mark.usefixtures("two_nodes")
def test_runs_of_the_reproduction_are_tasks_of_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feddr.experiments.PAPER", experiments(tmp_path))
    monkeypatch.setattr(reproduce, "FIGURES", {"tiny": TINY})
    kept = []
    for name, more in (("here", ["--workers", "0"]), ("there", ["--ray", "auto"])):
        command = ["reproduce", "tiny", "--seeds", "3", "--out", str(tmp_path / name), *more]
        result = CliRunner().invoke(main.app, command)
        assert result.exit_code == 0, result.output
        runs = sorted((tmp_path / name / "runs").glob("*.csv"))
        kept.append({path.name: History.from_csv(path).column("F") for path in runs})
    assert "2 to make, about" in result.stderr
    assert "with 5 at a time" in result.stderr
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2


@pytest.mark.usefixtures("two_nodes")
def test_tasks_on_machines_with_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    there = connection.versions()
    monkeypatch.setattr("feddr.tune.cluster.versions", lambda: there | {"jax": "0.0.1"})
    job = RunSpec("FedDR", 0, 1, {}, {"name": "none"}, "F", "last")
    with pytest.raises(ConfigError, match=r"jax .* \(here 0.0.1\); install the same there"):
        list(Ray("auto")(iter([job])))
