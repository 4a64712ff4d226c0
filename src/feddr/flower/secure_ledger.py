"""``SecureLedger``: what the server counts in a run of secure rounds, in which it knows no site's value.

It has the sum of all that was counted, in whole numbers, and which update of each site is in it. So

    xtilde = sum_i v_i xhat_i        (INV)

holds though only the sites know their xhat_i: the sum is exact, and a site goes on from the update that the server
names. A site that has lost that update cannot be told what was counted for it, and the server cannot take it out again.
Then all are counted anew (``enrol``): the server forgets the sum, and every site joins again at xbar.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from feddr import tree
from feddr.algorithms import FedDR, Uploads
from feddr.engines.shared.errors import check_finite
from feddr.flower.ledger import Ledger
from feddr.flower.records import Entry
from feddr.secure import SecureAggregation
from feddr.secure.ring import Levels
from feddr.storage import tensors
from feddr.tree import Tree

TOTAL = "secure_total"
"""The name of the sum among the arrays of a state."""


class SecureLedger(Ledger):
    """A run's ledger without anybody's value.

    Parameters
    ----------
    arguments
        Those of ``Ledger``; the settings have an entry ``secure``.

    Attributes
    ----------
    members
        The clients that are in the sum, each with the serial of the round in which it was counted last.
    enrolment
        How often the sites have been counted anew.
    last_serial
        Of the newest round that was counted.
    identities
        The public key of each site that has taken part.
    spending
        What each site has said that it has spent of its privacy, also one whose vector is in no sum.
    total
        Sum of all levels that were counted, in whole numbers.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.secure = SecureAggregation(**self.settings["secure"])
        self.members: dict[int, int] = {}
        self.enrolment, self.last_serial = 0, 0
        self.identities: dict[int, bytes] = {}
        self.spending: dict[int, float] = {}
        self.total: Levels = np.zeros(tree.size(self.initial), np.int64)

    def spent(self, clients: Iterable[int]) -> list[float]:
        """Return what the sites of these clients have said that they have spent of their privacy."""
        return [self.spending[client] for client in clients if client in self.spending]

    @property
    def unit(self) -> float:
        """A power of two that no weight v_i exceeds."""
        return float(2.0 ** math.ceil(math.log2(self.roles.mean_weights.max())))

    def weight(self, client: int) -> float:
        """Return the weight of a client relative to the unit."""
        return float(self.roles.mean_weights[client]) / self.unit

    @property
    def scale(self) -> float:
        """What one level of a sum stands for, a power of two."""
        return self.secure.fixed_point().step * self.unit

    def count(self, serial: int, clients: Sequence[int], levels: Levels, message: Tree) -> None:
        """Aggregate the sum of a round, and write the state to disk, the single commit point.

        Parameters
        ----------
        serial
            The round's.
        clients
            The sites that are in the sum.
        levels
            The sum, in whole numbers.
        message
            The broadcast as the sites have read it.
        """
        v, w = self.roles.mean_weights, np.asarray(self.weights)
        new = [i for i in clients if i not in self.members]
        weight = math.fsum(v[list(clients)])
        change = tree.unravel(levels * self.scale, tree.cast(self.initial, np.float64))
        uploads = Uploads(
            tree.axpy(weight, self._origin(message), change), weight, math.fsum(v[new]), math.fsum(w[new])
        )
        server = self.algorithm.aggregate(self.server, uploads, self.prox)
        check_finite(server, clients[-1], self.version + 1, "the clients", self.algorithm)
        self.server = server
        if isinstance(self.algorithm, FedDR):
            self.total = self.total + levels
        for i in clients:
            self.entries[i] = Entry(self.number(i) + 1, "", None)
            self.members[i] = serial
        self.last_serial = serial
        self.version += 1
        self.commit()

    def enrol(self) -> None:
        """Forget what was counted, so that every site joins again at xbar."""
        self.enrolment += 1
        self.members, self.total = {}, np.zeros_like(self.total)
        self.server = self.server._replace(weight=0.0, share=0.0)
        self.commit()

    def leave(self, client: int) -> None:
        """Refuse to take a site out of the mean: nobody but the site knows what is counted for it."""
        check_leave(self.settings, client)

    def audit(self) -> float:
        """Return how far the server's state is from the sum, relative to its size: (INV)."""
        weights = self.roles.mean_weights.tolist()
        start = tree.scale(math.fsum(weights), tree.cast(self.initial, np.float64))  # zeros where sites join
        total = tree.add(start, tree.unravel(self.total * self.scale, start))
        return self.algorithm.invariant_gap(self.server, total) / max(1.0, tree.norm(total))

    def _origin(self, message: Tree) -> Tree:
        """Return what a site that has sent zeros stands for: nothing new for FedDR, the broadcast for FedAvg."""
        rules: Any = self.algorithm
        message = tree.cast(message, np.float64)
        nothing = tree.zeros_like(message)
        return rules.increment(rules.base(nothing, message), nothing, message)

    def _header(self) -> dict[str, Any]:
        secure = {
            "members": {str(client): serial for client, serial in self.members.items()},
            "enrolment": self.enrolment,
            "serial": self.last_serial,
            "identities": {str(client): key.hex() for client, key in self.identities.items()},
            "spending": {str(client): spent for client, spent in self.spending.items()},
        }
        return {**super()._header(), "secure": secure}

    def _arrays(self) -> tensors.Arrays:
        return {**super()._arrays(), TOTAL: self.total}

    def load(self, serial: int, record: tensors.Snapshot) -> None:
        """Load a state that was written."""
        arrays, secure = dict(record.arrays), record.header["secure"]
        self.total = arrays.pop(TOTAL)
        self.members = {int(client): counted for client, counted in secure["members"].items()}
        self.enrolment, self.last_serial = secure["enrolment"], secure["serial"]
        self.identities = {int(client): bytes.fromhex(key) for client, key in secure["identities"].items()}
        self.spending = {int(client): spent for client, spent in secure.get("spending", {}).items()}
        super().load(serial, record._replace(arrays=arrays))


def check_leave(settings: dict[str, Any], client: int) -> None:
    """Refuse to let a client leave a run of secure rounds for good; ``settings`` are those of the run."""
    if "secure" in settings:
        raise ValueError(
            f"In secure rounds the server does not know what it counts for one site, such as client {client}; begin a "
            "run without that site, under another name."
        )


def plain_settings(secure: SecureAggregation | None) -> dict[str, Any]:
    """Return what the identity of a run says of secure rounds; nothing where it has none."""
    return {} if secure is None else {"secure": asdict(secure)}


def kind(settings: dict[str, Any]) -> type[Ledger]:
    """Return the class of the ledger of a run with these settings."""
    return SecureLedger if "secure" in settings else Ledger
