"""The ledger: the server's state and the last value accepted from each client, written atomically before it counts.

The folder of a run holds the table of accepted values, a file for each client, and two generations of the server's
state. The state names the files of the table that belong to it. Writing it is the single commit point: before it, new
files count for nothing and the next start removes them; after it, they count. So whenever the power fails, the run
resumes from a moment at which

    xtilde = sum_i v_i xhat_i        (INV)

held for the table, with the weights v_i of the server's mean (``algorithms.step_sizes``), and every accepted update has
been counted once.
"""

import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import Deployable, Roles
from feddr.algorithms.algorithm import ClientWeights, Leavable
from feddr.engines.shared.aggregation import WeightedUpload, weighted_sum
from feddr.engines.shared.errors import check_finite
from feddr.engines.shared.shards import shard_of
from feddr.flower import steps
from feddr.flower.records import Counters, Entry, FileRetention, Pending, files
from feddr.flower.refused import Refused
from feddr.prox.regulariser import Prox
from feddr.storage import atomic, tensors
from feddr.tree import Tree

TOLERANCE = 1e-12
"""How far xtilde may be from the sum of the table, relative to its size."""


class Ledger:
    """A run's ledger: what the server counts for each client.

    Parameters
    ----------
    folder
        The run's.
    roles
        The algorithm with the numbers of the run, and the weights w_i of the problem.
    prox, x0
        prox_{eta g} and the start, in the precision of the run.
    settings
        The settings of the run; a run that is resumed must have the same.
    uid
        Tells this run from another one of its name.
    words
        How its step sizes were chosen; none where they were given.

    Attributes
    ----------
    version
        How often the server has aggregated; -1 before a start-up round.
    server
        The algorithm's state.
    entries
        The table: what was accepted last from each client that has sent anything.
    left
        The clients that have left for good.
    """

    def __init__(
        self,
        folder: Path,
        roles: Roles,
        prox: Prox,
        x0: Tree,
        settings: dict[str, Any],
        uid: str,
        words: str = "",
    ) -> None:
        algorithm: Deployable = roles.server
        self.folder, self.roles, self.algorithm, self.prox, self.x0 = folder, roles, algorithm, prox, x0
        self.settings, self.weights, self.uid, self.words = settings, roles.weights.tolist(), uid, words
        self.states = tensors.Generations(folder / "state")
        self.server: Any = algorithm.server(tree.cast(x0, np.float64))
        self.initial: Tree = algorithm.absolute_upload(algorithm.client(x0, self._message()), x0)
        self.version = -1 if algorithm.full_start else 0
        self.serial = 0
        self.entries: dict[int, Entry] = {}
        self.left: set[int] = set()
        self.counters = Counters()
        self.pending: list[Pending] = []
        self._changes: dict[str, Tree] = {}
        self._shelf = FileRetention(folder)

    @classmethod
    def start(
        cls,
        folder: Path,
        roles: Roles,
        prox: Prox,
        x0: Tree,
        settings: dict[str, Any],
        words: str = "",
    ) -> "Ledger":
        """Open the ledger of a new run."""
        ledger = cls(folder, roles, prox, x0, settings, secrets.token_hex(8), words)
        ledger.commit()
        return ledger

    @classmethod
    def resume(
        cls, folder: Path, algorithm: Deployable, prox: Prox, x0: Tree, settings: dict[str, Any]
    ) -> "Ledger | None":
        """Return the ledger as it was last written; None where there is none.

        Parameters
        ----------
        algorithm
            As the user has written it; what it leaves open is what the ledger says.

        Raises
        ------
        ValueError
            Where the run was asked to do something else.
        DamagedError
            Where both generations are damaged or do not add up.
        """
        states, problems = tensors.Generations(folder / "state"), []
        for number, record in states.undamaged():
            header = record.header
            _compare(folder, header["settings"], settings)
            ledger = cls(folder, roles(algorithm, header), prox, x0, settings, header["uid"], header["words"])
            try:
                ledger.load(number, record)
                error = ledger.audit()
            except (tensors.DamagedError, FileNotFoundError) as problem:
                problems.append(str(problem))
                continue
            if error <= TOLERANCE:
                ledger._sweep()
                return ledger
            problems.append(f"In state {number}, xtilde is {error:.1e} from the sum of the table.")
        if states.numbers():
            raise tensors.DamagedError(
                f"The run in {folder} cannot be resumed, each of its states is damaged. {' '.join(problems)} "
                "Put back a copy of the folder, or give the run another name."
            )
        return None

    @property
    def compresses(self) -> bool:
        """Whether uploads are compressed: the way from what is counted, not the value itself."""
        return getattr(self.algorithm, "upload", None) is not None

    def number(self, client: int) -> int:
        """Return the number of the last update that was accepted from a client, 0 for none."""
        return self.entries[client].number if client in self.entries else 0

    def value(self, client: int) -> Tree:
        """Return what was accepted last from a client, or what is counted for one that has sent nothing yet."""
        return self._table(self.entries[client].accepted) if client in self.entries else self.initial

    def spent(self, clients: Iterable[int]) -> list[float]:
        """Return what the sites of these clients have said that they have spent of their privacy."""
        return [self.entries[client].spent for client in clients if client in self.entries]

    def accept(
        self, client: int, number: int, counted: Tree, message: Tree, factor: float = 1.0, spent: float = 0.0
    ) -> None:
        """Store what the server is to count for a client; it counts once ``commit`` or ``step`` has returned."""
        if client in self.left:
            raise Refused("unknown", f"client {client} has left this run")
        if number <= self.number(client):
            raise Refused(
                "stale", f"client {client} has sent update {number}, its update {self.number(client)} is in the ledger"
            )
        change = self.algorithm.increment(counted, self.value(client), message)
        file = f"table/{client}-{number}{tensors.SUFFIX}"
        atomic.write(self.folder / file, tensors.pack({"client": client, "number": number}, tensors.flatten(counted)))
        pending = Pending(client, client not in self.entries, factor, f"pending/{client}-{number}{tensors.SUFFIX}")
        self.pending.append(pending)
        self._changes[pending.file] = change
        before = self.entries[client].counted if client in self.entries else None
        self.entries[client] = Entry(number, file, before, spent)

    def leave(self, client: int) -> None:
        """Take what is counted for a client out of the mean, for good, and commit; its open upload is dropped.

        Raises
        ------
        ValueError
            Where it has left before, nobody else would stay, or the method does not let clients go.
        """
        rules, v = self.algorithm, self.roles.mean_weights
        if client in self.left:
            raise ValueError(f"A client leaves once, client {client} has left this run.")
        if not isinstance(rules, Leavable) or not rules.partial:
            raise ValueError(f"{type(rules).__name__} has no rule by which a client leaves; use FedDR or FedAvg.")
        if len(self.left) + 1 >= len(v):
            raise ValueError(f"Somebody must stay, client {client} is the last one; end the run.")
        file = self.entries[client].counted if client in self.entries else None
        everybody = getattr(rules, "init", "lazy") == "lazy"  # also who has sent nothing yet
        counted = self._table(file) if file is not None else self.initial if everybody else None
        if counted is not None and not self._others(client, everybody):
            raise ValueError(f"The mean needs somebody, and has client {client} alone; let it leave after a round.")
        member = ClientWeights(float(v[client]), self.weights[client])
        self.server = rules.leave(self.server, counted, member, self.prox)
        for one in self.pending:
            if one.client == client:
                self._changes.pop(one.file, None)
        self.pending = [one for one in self.pending if one.client != client]
        self.entries.pop(client, None)
        self.left.add(client)
        self.commit()

    def _others(self, client: int, everybody: bool) -> bool:
        """Return whether the mean has others than this client."""
        return everybody or any(entry.counted for other, entry in self.entries.items() if other != client)

    def step(self, order: Sequence[int] | None = None) -> None:
        """Aggregate what has been accepted, in a shard in the order of arrival or in that of the clients given.

        Clients that are not among these, who are late from an earlier round, come last.
        """
        pending = self.pending
        if order is not None:
            position = {client: k for k, client in enumerate(order)}
            pending = sorted(pending, key=lambda one: position.get(one.client, len(position) + one.client))
        if pending:
            pending = sorted(pending, key=lambda one: self._shard(one.client))
            gathered = weighted_sum(self._read(one) for one in pending)
            server = self.algorithm.aggregate(self.server, gathered, self.prox)
            check_finite(server, pending[-1].client, self.version + 1, "the clients", self.algorithm)
            self.server = server
        for one in pending:
            self.entries[one.client] = self.entries[one.client]._replace(counted=self.entries[one.client].accepted)
        self.pending, self._changes = [], {}
        self.version += 1
        self.commit()

    def commit(self) -> None:
        """Write the state to disk, the single commit point; after this it counts."""
        for file, change in self._changes.items():
            atomic.write(self.folder / file, tensors.pack({}, tensors.flatten(change)))
        self._changes = {}
        self.states.save(self.serial + 1, self._header(), self._arrays())
        self.serial += 1
        self._shelf.turn(files(self.entries.values(), self.pending))

    def _header(self) -> dict[str, Any]:
        """Return what a state says besides its arrays."""
        return {
            "uid": self.uid,
            "settings": self.settings,
            "weights": self.weights,
            "step_sizes": steps.numbers(self.roles.algorithm),
            "words": self.words,
            "version": self.version,
            "left": sorted(self.left),
            "clients": {str(client): entry for client, entry in self.entries.items()},
            "pending": self.pending,
            "counters": asdict(self.counters),
        }

    def _arrays(self) -> tensors.Arrays:
        return tensors.flatten(self.server)

    def audit(self) -> float:
        """Return how far the server's state is from what the table says, relative to its size: (INV)."""
        counted = {client: entry.counted for client, entry in self.entries.items() if entry.counted}
        weights = self.roles.mean_weights.tolist()
        unheard = math.fsum(v for client, v in enumerate(weights) if client not in self.left.union(counted))
        total = tree.scale(unheard, tree.cast(self.initial, np.float64))
        for client, file in sorted(counted.items()):
            total = tree.axpy(weights[client], tree.cast(self._table(file), np.float64), total)
        return self.algorithm.invariant_gap(self.server, total) / max(1.0, tree.norm(total))

    def _message(self) -> Tree:
        return tree.cast(self.algorithm.broadcast(self.server), tree.leaves(self.x0)[0].dtype)

    def _table(self, file: str) -> Tree:
        return tensors.restore(self.initial, tensors.read(self.folder / file).arrays)

    def _read(self, pending: Pending) -> WeightedUpload:
        change = self._changes.get(pending.file)
        if change is None:
            template = self.algorithm.increment(self.initial, self.initial, self._message())
            change = tensors.restore(template, tensors.read(self.folder / pending.file).arrays)
        weight = float(self.roles.mean_weights[pending.client])
        share, shard = self.weights[pending.client], self._shard(pending.client)
        return WeightedUpload(shard, weight, share, pending.new, change, pending.factor)

    def _shard(self, client: int) -> int:
        return shard_of(client, len(self.weights))

    def load(self, serial: int, record: tensors.Snapshot) -> None:
        """Load a state that was written."""
        header = record.header
        self.serial, self.version = serial, header["version"]
        self.server = tensors.restore(self.server, record.arrays)
        self.entries = {int(client): Entry(*entry) for client, entry in header["clients"].items()}
        self.left = set(header.get("left", []))  # not there in ledgers of version 0.4
        self.pending = [Pending(*pending) for pending in header["pending"]]
        self.counters = Counters(**header["counters"])
        self._shelf.turn(files(self.entries.values(), self.pending))

    def _sweep(self) -> None:
        headers = [record.header for _, record in self.states.undamaged()]
        entries = [Entry(*entry) for header in headers for entry in header["clients"].values()]
        self._shelf.sweep(files(entries, [Pending(*one) for header in headers for one in header["pending"]]))


def roles(algorithm: Any, header: dict[str, Any]) -> Roles:
    """Return the algorithm, as the user has written it, with the numbers and the weights that a ledger has."""
    return Roles(steps.settled(algorithm, header["step_sizes"]), np.array(header["weights"]))


def _compare(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    other = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    if other:
        key = other[0]
        raise ValueError(
            f"A run is resumed with the settings that it began with, but {key} was {before.get(key)} in {folder} and "
            f"is {now.get(key)} now; give the new run another name."
        )
