"""One federation of four nodes, the quickest of the real ones: it starts, agrees with the reference loop, and ends."""

from collections.abc import Iterator

import pytest

from feddr import History
from feddr.deploy.address import parse
from feddr.deploy.check_link import link
from tests.deploy.harness import Federation
from tests.deploy.outcome import APP, counted_once, invariant, is_the_reference_run

pytestmark = pytest.mark.deploy


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Federation(tmp_path_factory.mktemp("quick")) as started:
        started.start_server()
        started.start_nodes(range(4))
        yield started


def test_rounds_on_four_nodes_are_the_reference_loop(federation: Federation) -> None:
    assert [finding for finding in link(parse(federation.address), None) if finding.verdict != "ok"] == []
    federation.submit(APP, clients=4, participants=2, feddr__rounds=2, feddr__name="quick")
    federation.wait_event("quick", "end", 60)
    folder = federation.run_folder("quick")
    is_the_reference_run(folder, 2, 4, participants=2)
    assert invariant(folder) <= 1e-15
    counted_once(federation.log("quick"), folder)
    history = History.from_csv(folder / "history.csv")
    assert [row.round for row in history.rows] == [0, 1, 2]
    assert history.last.bytes_up > 0
