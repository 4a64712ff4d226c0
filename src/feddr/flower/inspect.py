"""Reads the folder of a run, while it is in progress or afterwards, and audits it; changes nothing."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import Algorithm, Deployable, Roles
from feddr.algorithms.step_sizes import StepSizes
from feddr.flower import secure_ledger
from feddr.flower.federation import Federation
from feddr.flower.ledger import roles
from feddr.flower.records import Entry
from feddr.prox.compiled import compiled_prox
from feddr.storage import tensors


@dataclass(frozen=True)
class LedgerSnapshot:
    """What the server counted when it last wrote its state.

    Parameters
    ----------
    version
        How often it has aggregated.
    server
        The arrays of its state by name, such as ``xtilde`` and ``xbar``.
    entries
        The clients that have sent an update.
    pending
        Uploads accepted and not aggregated.
    weights
        The weights w_i of the problem.
    step_sizes
        ``eta``, one number or a list with one for each client, and ``alpha``: whichever of them the method has.
    left
        The clients that have left for good.

    Examples
    --------
    >>> ledger = read_run("state/server/hearts")  # doctest: +SKIP
    >>> ledger.version, ledger.numbers  # doctest: +SKIP
    """

    folder: Path
    uid: str
    version: int
    settings: dict[str, Any]
    weights: list[float]
    server: tensors.Arrays
    entries: dict[int, Entry]
    pending: int
    step_sizes: dict[str, Any]
    left: frozenset[int] = frozenset()

    @property
    def mean_weights(self) -> list[float]:
        """The weights v_i of the clients in xtilde: those of the problem, unless they have step sizes of their own."""
        eta = self.step_sizes.get("eta")
        own = SimpleNamespace(eta=StepSizes(eta) if isinstance(eta, list) else eta)
        return [float(v) for v in Roles(own, np.array(self.weights)).mean_weights]

    @property
    def numbers(self) -> dict[int, int]:
        """The last update accepted from each client that has sent one."""
        return {client: entry.number for client, entry in self.entries.items()}

    def table(self, client: int) -> tensors.Arrays:
        """Return the arrays of what was accepted last from a client, such as its xhat_i."""
        return tensors.read(self.folder / self.entries[client].accepted).arrays


def read_run(folder: str | Path) -> LedgerSnapshot:
    """Return the newest undamaged state of a run; the folder is that of the run, ``.../server/<name>``.

    Raises
    ------
    FileNotFoundError
        Where there is no run in the folder.

    Examples
    --------
    >>> read_run("state/server/nobody")
    Traceback (most recent call last):
    FileNotFoundError: There is no ledger of a run in state/server/nobody; the folder is <root>/server/<name>.
    """
    folder = Path(folder)
    record = _newest(folder)[1]
    header = record.header
    entries = {int(client): Entry(*entry) for client, entry in header["clients"].items()}
    return LedgerSnapshot(
        folder,
        header["uid"],
        header["version"],
        header["settings"],
        header["weights"],
        record.arrays,
        entries,
        len(header["pending"]),
        header["step_sizes"],
        frozenset(header.get("left", [])),
    )


def audit(folder: str | Path, algorithm: Algorithm, federation: Federation) -> float:
    """Return how far the server's state is from the table on the disk, relative to its size: (INV).

    The algorithm is the one that the apps were given. It is 0 for methods whose server does not remember clients.

    Raises
    ------
    ValueError
        Where the run is one of another algorithm.
    FileNotFoundError
        Where there is no run in the folder.

    Examples
    --------
    >>> import numpy as np, feddr
    >>> hospitals = feddr.flower.Federation(init=np.zeros(13), clients=4)
    >>> audit("state/server/hearts", feddr.FedDR(eta=1.0, alpha=1.2), hospitals)  # doctest: +SKIP
    """
    folder = Path(folder)
    serial, record = _newest(folder)
    header = record.header
    if not isinstance(algorithm, Deployable) or repr(algorithm) != header["settings"]["algorithm"]:
        raise ValueError(f"The run in {folder} is one of {header['settings']['algorithm']}, got {algorithm}.")
    x0 = tree.cast(federation.init, np.dtype(header["settings"]["precision"]))
    prox = compiled_prox(federation.regulariser)
    kind = secure_ledger.kind(header["settings"])
    ledger = kind(folder, roles(algorithm, header), prox, x0, header["settings"], header["uid"])
    ledger.load(serial, record)
    return ledger.audit()


def _newest(folder: Path) -> tuple[int, tensors.Snapshot]:
    for generation in tensors.Generations(folder / "state").undamaged():
        return generation
    raise FileNotFoundError(f"There is no ledger of a run in {folder}; the folder is <root>/server/<name>.")
