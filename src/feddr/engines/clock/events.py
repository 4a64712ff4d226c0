"""Events on the virtual clock: intervals in which a client receives, computes, sends, waits or is offline."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from feddr.delays.delay import Online, Timing

SERVER = -1
"""Stands for the server where events have a client."""


class Event(NamedTuple):
    """An interval in which a client did one thing.

    Parameters
    ----------
    kind
        ``"receiving"``, ``"computing"`` or ``"sending"``; ``"lost"`` for such work in a job that was lost, or too late
        for its round; ``"idle"`` while it waits to be asked, ``"offline"`` while it is not there. ``"server"`` for the
        moment in which the server, as client -1, has made the version ``read``.
    read
        The version of xbar that the job began with; -1 between jobs. In a start-up round it is 0: clients read x^0,
        and what they send makes version 0 again.
    arrived
        The server's version when the upload arrived, at the end of its last interval; -1 elsewhere. The staleness of
        the update is ``arrived - read``.
    """

    client: int
    kind: str
    start: float
    end: float
    read: int = -1
    arrived: int = -1


class Piece(NamedTuple):
    """An interval of a job."""

    kind: str
    start: float
    end: float


def work(start: float, timing: Timing) -> float:
    """Return when a job that begins at ``start`` ends, by its upload or by a drop-out; infinity for never."""
    seconds = _share(timing) * (timing.receive + timing.compute + timing.send)
    if timing.online is None or seconds == math.inf:
        return start + seconds
    end = start
    for piece in pieces(start, timing):
        end = piece.end
    return end


def pieces(start: float, timing: Timing, until: float = math.inf, late: bool = False) -> Iterator[Piece]:
    """Yield the intervals of a job, offline ones among them, up to a time; the work of a ``late`` one is lost."""
    phases = [("receiving", timing.receive), ("computing", timing.compute), ("sending", timing.send)]
    if late or timing.lost_after is not None:
        phases = [("lost", _share(timing) * sum(duration for _, duration in phases))]
    t = start
    for kind, duration in phases:
        for piece in intervals(kind, t, duration, timing.online, until):
            yield piece
            t = piece.end


def intervals(kind: str, t: float, amount: float, online: Online | None, until: float = math.inf) -> Iterator[Piece]:
    """Yield when an amount of one kind is done, while the client is there, and the gaps in which it is not."""
    while amount > 0 and t < until:
        opens, closes = (t, math.inf) if online is None else online(t)
        if opens > t:
            yield Piece("offline", t, min(opens, until))
        if opens >= until:
            return
        room = closes - opens
        # The interval's own end where it is used up: adding the room to its start might miss it by a rounding error.
        t = closes if amount > room else opens + amount
        amount = amount - room if amount > room else 0.0
        yield Piece(kind, opens, min(t, until))


def _share(timing: Timing) -> float:
    return 1.0 if timing.lost_after is None else timing.lost_after


class EventRecorder:
    """Keeps events until there are too many."""

    def __init__(self, most: int) -> None:
        self.most, self.events = most, list[Event]()

    @property
    def full(self) -> bool:
        """Whether no more events are kept."""
        return len(self.events) >= self.most

    def job(
        self, client: int, start: float, timing: Timing, read: int, arrived: int, until: float, late: bool = False
    ) -> None:
        """Keep the intervals of a job; those of a ``late`` one are lost."""
        if self.full:
            return
        events = [Event(client, *piece, read) for piece in pieces(start, timing, until, late)]
        if events:
            self.events += [*events[:-1], events[-1]._replace(arrived=arrived)]

    def gap(self, client: int, start: float, end: float, online: Online | None) -> None:
        """Keep the time between two jobs."""
        if end > start and not self.full:
            idle = intervals("idle", start, math.inf, online, end)
            self.events.extend(Event(client, *piece) for piece in idle)

    def away(self, client: int, start: float, end: float) -> None:
        """Keep the time after a drop-out."""
        if end > start and not self.full:
            self.events.append(Event(client, "offline", start, end))

    def made(self, version: int, time: float) -> None:
        """Keep when the server has made a version of xbar."""
        if not self.full:
            self.events.append(Event(SERVER, "server", time, time, version))

    def truncate(self, end: float) -> None:
        """Truncate events at the end of the run."""
        kept = (event for event in self.events if event.start < end or event.client == SERVER)
        self.events = [event._replace(end=min(event.end, end)) for event in kept]
