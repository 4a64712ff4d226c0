"""Batching policy: which clients share a compiled call, and with which options calls are compiled.

Its numbers are measured (docs/PERFORMANCE.md).
"""

import contextlib
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax

from feddr.xla import compilation_cache

FEW_PARAMETERS = 20_000
"""Up to so many, matrix products compiled with the step are faster than those of a library that is called."""

NO_LIBRARY = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""The option that compiles products with the rest; passes over all samples, too, are a tenth faster with it."""


class Workload(NamedTuple):
    """A client, the shapes of its arguments, and its work: steps x samples in a step x parameters."""

    client: int
    shape: tuple[int, ...]
    work: float


class BatchingPolicy(NamedTuple):
    """A way to compute the active clients of a round.

    On a CPU, threads go through the calls, and a client with much to do has a call of its own. A call costs about a
    tenth of a millisecond before its first step, so clients with little to do share one, in which they are computed one
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

    def shares(self, load: Workload) -> bool:
        """Return whether a client shares its call, or would if there were others."""
        return load.work <= self.enough

    def worth_a_thread(self, load: Workload) -> bool:
        """Return whether a call pays to be handed over to another thread.

        Little work on a CPU does not: it is almost all Python, which one thread executes at a time.
        """
        return self.side_by_side or not self.shares(load)

    def calls(self, loads: Iterable[Workload]) -> list[list[int]]:
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


CPU = BatchingPolicy(width=16, enough=1e6, side_by_side=False)
ACCELERATOR = BatchingPolicy(width=64, enough=float("inf"), side_by_side=True)


def prepare(work: float) -> None:
    """Set JAX up for a run whose mean client has so much work: steps x samples in a step x parameters.

    Where calls are computed is settled by the first run of a process, for all of its JAX.

    A client with much to do is computed by the thread that calls it: handed over to a thread of XLA's, it would wait
    until that one has a core, and the thread that has called would then wait for one, too. Where clients have little to
    do, XLA's threads are of use: one call is computed while the next is prepared.
    """
    compilation_cache.enable()
    if work > CPU.enough:
        with contextlib.suppress(AttributeError):  # a JAX without this option is as right, and a little slower
            jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]


def choose() -> BatchingPolicy:
    """Return the plan for the device that JAX computes on."""
    return CPU if jax.default_backend() == "cpu" else ACCELERATOR


def compiler_options(parameters: int) -> dict[str, Any] | None:
    """Return how XLA shall compile the local updates of a model with so many parameters.

    Clients run side by side, one on each thread; threads within a client would only get in each other's way, and would
    make the order of a sum, and so its last bit, depend on their number.
    """
    if jax.default_backend() != "cpu":
        return None
    wanted = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
    if parameters <= FEW_PARAMETERS:
        wanted |= NO_LIBRARY
    return {"xla_cpu_multi_thread_eigen": False, **_those_known(wanted)}


def without_library(parameters: int) -> bool:
    """Return whether the local updates of such a model call no library, so that they can be one kernel."""
    return NO_LIBRARY.items() <= (compiler_options(parameters) or {}).items()


def evaluation_options() -> dict[str, Any] | None:
    """Return how XLA shall compile passes over all samples: nothing else runs then, so they may have all threads."""
    return _those_known(NO_LIBRARY) if jax.default_backend() == "cpu" else None


def _those_known(wanted: dict[str, str]) -> dict[str, Any]:
    return {option: value for option, value in wanted.items() if _known(option, value)}


@functools.cache
def _known(option: str, value: str) -> bool:
    """Return whether this version of XLA takes a value for an option that may come and go."""
    try:
        jax.jit(lambda: 0, compiler_options={option: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
