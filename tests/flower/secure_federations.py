"""Small federations with secure rounds in one process, and what their files say."""

from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message
from numpy.typing import NDArray

import feddr
from feddr import flower
from feddr.algorithms import Algorithm
from feddr.flower.secure_ledger import TOTAL
from feddr.flower.secure_site import LEVELS
from feddr.history import History
from feddr.secure import SecureAggregation
from feddr.storage import tensors
from tests.conftest import make_regression
from tests.flower.fake_grid import FakeGrid, FakeNode, Fate
from tests.flower.federations import app_for, deploy, federation_of, populated, squares

SITES = 5
SECURE = SecureAggregation(threshold=3, bits=28, clip=4.0)
METHOD = feddr.FedDR(eta=0.5, alpha=1.2, init="lazy", mean="all")
JOINING = feddr.FedDR(eta=0.5, alpha=1.2)
LOCAL = feddr.local.SGD(lr=0.05, epochs=2, batch_size=5)  # each update has randomness of its own


@cache
def five(g: bool = True) -> feddr.Problem:
    """Return a regression over five uneven clients."""
    data = make_regression(sizes=(20, 12, 30, 9, 15), dimension=6, seed=1)
    return feddr.Problem(squares, data, np.zeros(6), feddr.prox.L1(0.3) if g else None)


def run(
    grid: FakeGrid, folder: Path, method: Algorithm = METHOD, problem: feddr.Problem | None = None, **settings: Any
) -> History:
    """Deploy with secure rounds."""
    chosen = five() if problem is None else problem
    if not grid.nodes:
        populated(grid, app_for(chosen, method, LOCAL, secure=SECURE), range(SITES), folder)
    usual: dict[str, Any] = {"rounds": 3, "seed": 3, "precision": "float64", "secure": SECURE}
    return deploy(grid, federation_of(chosen), method, folder, **(usual | settings))


def stage_of(message: Message) -> str:
    """Return the stage that a message of the server asks for, "" for a plain one."""
    record = message.content.get("secure")
    return str(record["stage"]) if isinstance(record, ConfigRecord) else ""


def losing(stage: str, clients: Collection[int], serials: int = 1, lost: str = "task") -> Callable[..., Fate]:
    """Return a fate in which these clients do not answer at this stage, in so many first attempts at a round."""
    seen: list[Any] = []

    def decide(node: FakeNode, message: Message) -> Fate:
        if stage_of(message) != stage or node.client not in clients:
            return Fate()
        serial = message.content["secure"]["serial"]
        if serial not in seen:
            seen.append(serial)
        return Fate(lost=lost) if seen.index(serial) < serials else Fate()

    return decide


def site_folder(folder: Path, client: int) -> Path:
    return folder / f"disk-{client}" / "node" / "feddr" / f"client-{client}"


def levels_of(folder: Path, client: int) -> NDArray[np.int64]:
    """Return what a site counts for itself, of the update that the server has counted last."""
    header = server_state(folder).header
    number = header["clients"][str(client)][0]
    record = tensors.read(site_folder(folder, client) / "state" / f"{number}{tensors.SUFFIX}")
    assert record.header["serial"] == header["secure"]["members"][str(client)]
    return np.asarray(record.arrays[LEVELS], np.int64)


def server_state(folder: Path) -> tensors.Snapshot:
    return next(tensors.Generations(folder / "server" / "feddr" / "state").undamaged())[1]


def is_balanced(folder: Path, method: Algorithm = METHOD, problem: feddr.Problem | None = None) -> None:
    """The server's sum is that of the sites' own files, in whole numbers, and xtilde is what it stands for."""
    state = server_state(folder)
    members = [int(i) for i in state.header["secure"]["members"]]
    total = sum((levels_of(folder, i) for i in members), np.zeros(6, np.int64))
    np.testing.assert_array_equal(state.arrays[TOTAL], total)
    federation = federation_of(five() if problem is None else problem)
    assert flower.audit(folder / "server" / "feddr", method, federation) <= 1e-14
