"""Secure rounds on real processes: a site that is killed, one that replays, one whose vector is damaged."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import flower
from feddr.flower.secure_ledger import TOTAL
from feddr.flower.secure_site import LEVELS
from feddr.secure import SecureAggregation
from feddr.storage import tensors
from tests.deploy.app.faults.task import LOCAL, problem
from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP

pytestmark = pytest.mark.deploy

SITES, ROUNDS = 4, 2


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Federation(tmp_path_factory.mktemp("secure")) as started:
        started.start_server()
        started.start_nodes(range(SITES), timeout=120.0)
        yield started


def newest(folder: Path) -> tensors.Snapshot:
    return next(tensors.Generations(folder / "state").undamaged())[1]


def site_levels(federation: Federation, run: str, client: int, number: int) -> Any:
    """Return what a site counts for itself, in whole numbers, from its own disk."""
    folder = federation.node_state(client) / "node" / run / f"client-{client}" / "state"
    return tensors.read(folder / f"{number}{tensors.SUFFIX}").arrays[LEVELS]


def adds_up_and_holds_no_site(federation: Federation, run: str, numbers: dict[int, int]) -> None:
    """The server's integers are the sum of those on the sites' disks, and its own disk has none of these.

    Parameters
    ----------
    numbers
        The update of each site that was counted last.
    """
    folder = federation.run_folder(run)
    levels = {i: site_levels(federation, run, i, number) for i, number in numbers.items()}
    total = newest(folder).arrays[TOTAL]
    np.testing.assert_array_equal(total, sum(levels.values()))
    on_disk = b"".join(path.read_bytes() for path in federation.state.rglob("*") if path.is_file())
    assert total.tobytes() in on_disk, "the search finds what is there"
    for one in levels.values():
        for kind in ("<i8", "<i4", "<u4"):
            assert one.astype(kind).tobytes() not in on_disk


def reference() -> Any:
    """Return xbar of the plain loop, undisturbed, with the same fixed point; the weights are 1/4, as the unit is."""
    point = SecureAggregation(3, bits=28, clip=4.0).fixed_point()
    method = feddr.FedDR(0.5, 1.5, "lazy", mean="all", upload=point)
    pooled = problem(list(range(SITES)))
    return feddr.reference(pooled, method, local=LOCAL, rounds=ROUNDS, seed=0, precision="float64").params


def test_faults_in_secure_rounds_leave_no_trace(federation: Federation) -> None:
    """One is killed between its state and its reply, in the first round; in the second one damages and one replays."""
    held = federation.node_state(0) / "held1"
    (federation.node_state(0) / "faults").write_text("hold-after 1")
    (federation.node_state(1) / "faults").write_text("\ndamage")
    (federation.node_state(2) / "faults").write_text("\nrepeat")
    federation.submit(APP, clients=SITES, threshold=3, feddr__rounds=ROUNDS, feddr__name="secure")
    folder = federation.run_folder("secure")
    wait_for(lambda: held.exists() and held.read_text() != "", 150, str(held), federation.explain)
    os.kill(int(held.read_text()), signal.SIGKILL)
    federation.wait_event("secure", "end", 300)
    log = federation.log("secure")

    assert [(line["client"], line["code"]) for line in log if line["event"] == "error"] == [(0, 8)]
    refused = sorted((line["client"], line["reason"]) for line in log if line["event"] == "refused")
    assert refused == [(1, "malformed"), (2, "repeated")]
    assert [line["clients"] for line in log if line["event"] == "counted"] == [[0, 1, 2, 3]] * ROUNDS

    xbar = flower.read_run(folder).server["xbar"]
    np.testing.assert_allclose(xbar, reference(), rtol=0, atol=1e-12)
    adds_up_and_holds_no_site(federation, "secure", dict.fromkeys(range(SITES), ROUNDS))
    again = "asked again, it sends the same masked vector; the undisturbed run, to 1e-12"
    record(66, "secure rounds: kill -9 when the vector was masked and the reply had not left", "error 8", again)
    record(
        67,
        "secure rounds: a masked vector with a damaged bit, and one of an earlier round",
        "refused: malformed, and repeated",
        "asked again, both send the right one; the undisturbed run, to 1e-12, and the integers of all disks add up",
    )
