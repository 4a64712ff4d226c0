"""The workers of a run as actors of Ray: started on the machines of a cluster, asked, and replaced when they die."""

import os
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from feddr.engines.shared.errors import WorkerWarning
from feddr.engines.workers import connection, pickling
from feddr.engines.workers.placement import Range
from feddr.engines.workers.worker import Duty, Worker
from feddr.validation import scalars

TRIES = 3
"""Workers that may die in a row with one and the same call."""

SCHEDULED = 60.0
"""Seconds within which a new worker has cores of its own, if the cluster has any."""


class Actor:
    """A worker in a process of its own."""

    def meet(self) -> tuple[str, int, dict[str, str]]:
        """Return the machine, the process and the versions there."""
        return platform.node(), os.getpid(), connection.versions()

    def start(self, duty: Duty, threads: int) -> None:
        """Make the worker."""
        self.worker = Worker(duty, threads)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker."""
        return getattr(self.worker, method)(*arguments)


@dataclass
class Member:
    """A worker as the driver sees it: its actor, its shards, its machine and process, and what it has done so far."""

    actor: Any
    shards: Range
    machine: str = ""
    process: int = 0
    seconds: float = 0.0
    lately: float = 0.0
    replaced: int = 0


@dataclass
class Fleet:
    """Workers on the machines of a cluster, each with its own shards.

    Parameters
    ----------
    ray
        The module.
    duty
        What all of them have to know.
    part
        From shards to the part of the problem that has their samples.
    threads
        Clients that each computes at a time.
    options
        Options of the actors: ``num_cpus``, ``num_gpus``, ``resources``.
    """

    ray: Any
    duty: Duty
    part: Callable[[int, int], Any]
    threads: int
    options: dict[str, Any]
    members: list[Member] = field(default_factory=list)
    restore: Callable[[int], Any] = int  # until a run says how the clients of a worker are restored
    sent: int = 0
    received: int = 0

    def start(self, shards: list[Range]) -> None:
        """Start a worker for each block of shards, all at the same time."""
        pickling.register(self.ray)
        self._duty = self.ray.put(self.duty)
        self.members = [Member(self._actor(self.options), block) for block in shards]
        self._settle(self.members)

    def room(self) -> int:
        """Return how many workers there is room for, those that there are among them."""
        each = max(self.options.get("num_cpus", 1), 1)
        return sum(int(node["Resources"].get("CPU", 0) // each) for node in self.ray.nodes() if node["Alive"])

    def regroup(self, shards: list[Range]) -> list[int]:
        """Give workers other shards, and new workers theirs; return those whose clients have to be sent to them.

        Where new workers do not get their cores in time, others have them, and nothing changes.
        """
        changed = [j for j, block in enumerate(shards) if j >= len(self.members) or self.members[j].shards != block]
        new = [Member(self._actor(self.options), block) for block in shards[len(self.members) :]]
        met = [member.actor.meet.remote() for member in new]
        if met and len(self.ray.wait(met, num_returns=len(met), timeout=SCHEDULED)[0]) < len(met):
            for member in new:
                self.ray.kill(member.actor)
            return []
        for member, block in zip(self.members, shards, strict=False):
            member.shards = block
        self._settle(new)
        self.members += new
        old = [j for j in changed if self.members[j] not in new]
        self.ask({j: ("assign", self.part(*shards[j]), shards[j]) for j in old})
        return changed

    def close(self) -> None:
        """End all workers."""
        for member in self.members:
            self.ray.kill(member.actor)

    def ask(self, calls: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of some workers at the same time, each with its arguments; a worker that dies is replaced."""
        under_way = {self.members[j].actor.call.remote(*call): j for j, call in calls.items()}
        answers: dict[int, Any] = {}
        tries = dict.fromkeys(calls, 0)
        while under_way:
            # With a timeout, so that Ctrl-C is noticed.
            ready, _ = self.ray.wait(list(under_way), num_returns=1, timeout=0.5)
            for reference in ready:
                j = under_way.pop(reference)
                try:
                    answers[j] = self._get(reference)
                except self._deaths as death:
                    tries[j] += 1
                    self._replace(j, tries[j], death)
                    under_way[self.members[j].actor.call.remote(*calls[j])] = j
        return answers

    def tell(self, j: int, *call: Any) -> Any:
        """Call a method of one worker, which is not replaced here."""
        return self._get(self.members[j].actor.call.remote(*call))

    def _get(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None

    @property
    def _deaths(self) -> tuple[type[BaseException], ...]:
        errors = self.ray.exceptions
        return errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError

    def _actor(self, options: dict[str, Any]) -> Any:
        return self.ray.remote(Actor).options(**options).remote()

    def _settle(self, members: list[Member]) -> None:
        """Wait for actors to be there, compare their versions, and give them their shards, all at the same time."""
        for member, met in [(member, member.actor.meet.remote()) for member in members]:
            member.machine, member.process, there = self._get(met)
            connection.check_versions(member.machine, there, connection.versions())
        begun = [member.actor.start.remote(self._duty, self.threads) for member in members]
        begun += [member.actor.call.remote("assign", self.part(*member.shards), member.shards) for member in members]
        for reference in begun:
            self._get(reference)

    def _replace(self, j: int, tries: int, death: BaseException) -> None:
        """Put a new worker into the place of one that died, on whatever machine is left, and restore its clients."""
        while True:
            if tries > TRIES:
                raise RuntimeError(
                    f"Worker {j} died {TRIES} times in a row ({type(death).__name__}), the last on "
                    f"{self.members[j].machine}; look at its memory, or give it fewer clients with more workers."
                ) from death
            member = self.members[j]
            warnings.warn(
                f"Worker {j} on {member.machine} died ({type(death).__name__}); another one takes its place, and "
                "computes its clients' rounds since the last checkpoint again.",
                WorkerWarning,
                stacklevel=2,
            )
            try:
                self.ray.kill(member.actor)
                member.actor = self._actor(self.options)
                if not self.ray.wait([member.actor.meet.remote()], timeout=SCHEDULED)[0]:
                    # Its machine is gone, and no other has cores left: it shares those of another worker.
                    self.ray.kill(member.actor)
                    member.actor = self._actor(self.options | {"num_cpus": 0})
                member.replaced += 1
                self._settle([member])
                self.restore(j)
            except self._deaths as error:
                tries, death = tries + 1, error
            else:
                return


def actor_options(threads: int, resources: Mapping[str, float] | None) -> dict[str, Any]:
    """Return the options of actors with so many threads each, and ``resources`` such as ``{"gpu": 0.25}``.

    Examples
    --------
    >>> actor_options(1, {"gpu": 0.25})
    {'num_cpus': 1, 'num_gpus': 0.25}
    """
    options: dict[str, Any] = {"num_cpus": threads}
    others = {}
    for name, amount in (resources or {}).items():
        amount = float(scalars.number(f"resources[{name!r}]", amount))
        if name in ("cpu", "gpu"):
            options[f"num_{name}s"] = amount
        else:
            others[name] = amount
    return options | ({"resources": others} if others else {})
