"""One federation of two nodes for all faults that do not need one of their own: starting it costs more than a fault."""

from collections.abc import Iterator

import pytest

from feddr.deploy import certs, example
from tests.deploy.harness import Federation

SITES = 5


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


@pytest.fixture(scope="session")
def five_sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Five nodes with certificates and tables; tests that take them are in the xdist_group "five sites"."""
    folder = tmp_path_factory.mktemp("five-sites")
    certs.make(folder / "trial", [], nodes=SITES)
    example.write(folder / "sites")
    for i in range(SITES):
        name = example.HOSPITALS[i % len(example.HOSPITALS)][0]
        text = (folder / "sites" / f"{name}.toml").read_text(encoding="utf-8")
        (folder / "sites" / f"site-{i}.toml").write_text(text.partition("[rules]")[0], encoding="utf-8")
    with Federation(folder, certs=folder / "trial") as started:
        started.warm_apps()
        started.start_server(timeout=150.0)
        started.start_nodes(range(SITES), timeout=150.0, sites=folder / "sites")
        yield started
