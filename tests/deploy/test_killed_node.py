"""A node killed with its disk gone: it comes back as a stranger to itself, begins at xbar and says so."""

import shutil

import pytest

from tests.deploy.faults import record
from tests.deploy.harness import Federation, wait_for
from tests.deploy.outcome import APP, counted_once, distance, invariant, was_missed

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("two nodes")]


def test_a_node_that_lost_its_disk_begins_again_at_xbar(federation: Federation) -> None:
    (federation.node_state(1) / "faults").write_text("\n\nhold-before")
    federation.submit(APP, clients=2, feddr__rounds=6, feddr__name="node", alpha=1.9)
    folder = federation.run_folder("node")
    wait_for((federation.node_state(1) / "held").exists, 60, "node 1 in its third update", federation.explain)
    federation.kill_supervisor(1)
    federation.kill_node(1)
    assert invariant(folder) <= 1e-15
    shutil.rmtree(federation.node_state(1))
    federation.start_nodes([1])
    (rejoined,) = federation.wait_event("node", "accepted", 120, where=lambda line: line["rejoined"])
    assert invariant(folder) <= 1e-15
    federation.wait_event("node", "end", 150)
    log = federation.log("node")

    assert was_missed(log, client=1)
    assert (rejoined["client"], rejoined["number"]) == (1, 3), "its numbers continue where the server's books say"
    assert invariant(folder) <= 1e-15
    counted_once(log, folder)
    assert distance(folder, 2) < 1e-4
    record(
        31,
        "kill -9 of a node in mid-update, without a key, and its disk lost",
        "the node gone, after a minute; a new node of the same partition, whose upload says `rejoined`",
        "it begins again at xbar, its old value is replaced, not added to; the right solution",
    )
