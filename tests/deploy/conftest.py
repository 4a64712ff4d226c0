"""One federation of two nodes for all faults that do not need one of their own: starting it costs more than a fault."""

from collections.abc import Iterator

import pytest

from tests.deploy.harness import Federation


@pytest.fixture(scope="session")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Federation(tmp_path_factory.mktemp("two-nodes")) as started:
        started.start_server()
        started.start_nodes(range(2))
        yield started


@pytest.fixture
def federation(two_nodes: Federation) -> Federation:
    """The two nodes, told to behave; tests that take them are in the xdist_group "two nodes"."""
    for i in two_nodes.nodes:
        for pattern in ("faults", "held*", "release*", "previous"):
            for path in two_nodes.node_state(i).glob(pattern):
                path.unlink()
    return two_nodes
