"""How clients share compiled calls: the one place where that is decided, by measurement (docs/PERFORMANCE.md)."""

from collections.abc import Iterable
from typing import NamedTuple

import jax


class Load(NamedTuple):
    """A client, the shapes of its arguments, and its work: steps x samples in a step x parameters."""

    client: int
    shape: tuple[int, ...]
    work: float


class Plan(NamedTuple):
    """A way to compute the active clients of a round.

    On a CPU, threads go through the calls, and a client with much to do has a call of its own. A call costs about a
    third of a millisecond before its first step, so clients with little to do share one, in which they are computed one
    after the other: nobody is padded to the length of another. On an accelerator it is the other way round: calls
    follow each other, and the clients of a call are computed side by side.

    Which clients share a call does not depend on the number of threads, and what is computed for a client does not
    depend on who shares its call.

    Parameters
    ----------
    width
        Clients in a shared call, at most.
    enough
        Work that is worth a call of its own.
    side_by_side
        Whether the clients of a call are computed at the same time, each step waiting for the last of them.
    """

    width: int
    enough: float
    side_by_side: bool

    def shares(self, load: Load) -> bool:
        """Return whether a client shares its call, or would if there were others."""
        return load.work <= self.enough

    def calls(self, loads: Iterable[Load]) -> list[list[int]]:
        """Divide clients, given in order, into those that share a call: neighbours with arguments of one shape."""
        calls: list[list[int]] = []
        shape, work = None, 0.0
        for load in loads:
            work += load.work
            if load.shape != shape or work > self.enough or len(calls[-1]) == self.width:
                calls.append([])
                work = load.work
            calls[-1].append(load.client)
            shape = load.shape
        return calls


CPU = Plan(width=16, enough=1e6, side_by_side=False)
ACCELERATOR = Plan(width=64, enough=float("inf"), side_by_side=True)


def choose() -> Plan:
    """Return the plan for the device that JAX computes on."""
    return CPU if jax.default_backend() == "cpu" else ACCELERATOR
