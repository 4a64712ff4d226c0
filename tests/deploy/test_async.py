"""AsyncFedDR on three nodes of different speed: it converges, and its files show staleness and balanced books."""

from pathlib import Path

import numpy as np
import pytest

from feddr import History
from tests.deploy.harness import Federation
from tests.deploy.outcome import APP, counted_once, distance, invariant

pytestmark = pytest.mark.deploy

DELAYS = (0.0, 2.0, 6.0)
SETTINGS = {"eta": 0.4, "alpha": 1.8, "feddr__rounds": 18, "feddr__name": "async", "feddr__evaluate_every": 3}


def test_nodes_of_different_speed_reach_the_pooled_solution(tmp_path: Path) -> None:
    with Federation(tmp_path / "async") as federation:
        federation.start_server()
        for i, delay in enumerate(DELAYS):
            federation.start_node(i, "--config", f"delay={delay}")
        for i in range(len(DELAYS)):
            federation.wait_joined(i, 1)
        federation.submit(APP, mode="async", clients=3, **SETTINGS)
        federation.wait_event("async", "end", 150)
        log, folder = federation.log("async"), federation.run_folder("async")

    version, staleness, by_client = 0, [], dict.fromkeys(range(3), 0)
    for line in log:
        if line["event"] == "accepted":
            assert line["staleness"] == version - line["version"] >= 0
            staleness.append(line["staleness"])
            by_client[line["client"]] += 1
        version = line["version"] if line["event"] == "step" else version
    assert version == len(staleness) == SETTINGS["feddr__rounds"]
    assert max(staleness) >= 1, "three clients at once, so an update meets those of others"
    assert by_client[0] > by_client[2], "the fast client does not wait for the slow one"

    assert invariant(folder) <= 1e-12
    counted_once(log, folder)
    rows = History.from_csv(folder / "history.csv").rows
    assert np.nanmax([row.staleness_max for row in rows]) == max(staleness)
    assert distance(folder, 3) < 1e-2
    assert rows[-1].gradient_mapping < 1e-2 * rows[0].gradient_mapping
