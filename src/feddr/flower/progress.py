"""Terminal output of a deployed run: its version, and each client: connected or not, last answer, staleness."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table

from feddr.history import Row
from feddr.runs.progress import say

EVERY = 5.0
"""Seconds between lines."""

MOST = 12
"""Clients in a line or a table; of more, those not heard from for longest."""


@dataclass
class ClientStatus:
    """The status of a client; ``last`` is when an upload of it was accepted."""

    here: bool = False
    working: bool = False
    last: float = -math.inf
    staleness: int = 0
    number: int = 0

    def words(self, now: float) -> str:
        """Return it in a few words."""
        if math.isinf(self.last):
            return "not heard yet" if self.here else "no node yet"
        stale = f", {self.staleness} stale" if self.staleness else ""
        return f"{now - self.last:.0f} s ago{stale}" + ("" if self.here else ", no node")


class ProgressTable:
    """Shows a table that is redrawn in place in a terminal, and a line now and then elsewhere."""

    def __init__(self, name: str, what: str, rounds: int, console: Console | None = None) -> None:
        self.name, self.what, self.rounds = name, what, rounds
        self.console = Console(stderr=True) if console is None else console
        self.row = Row(round=0)
        self.live = Live(console=self.console, refresh_per_second=2) if self.console.is_terminal else None
        self._shown, self._line = -math.inf, ""

    def __enter__(self) -> "ProgressTable":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, version: int, standings: Mapping[int, ClientStatus], now: float, final: bool = False) -> None:
        """Show the state of the run, unless it was shown a moment ago."""
        if self.live is not None:
            self.live.update(self._table(version, standings, now), refresh=final)
            return
        moment = time.monotonic()
        line = self._head(version, standings)
        if final or (moment >= self._shown + EVERY and line != self._line):
            self._shown, self._line = moment, line
            each = [f"{i}: {standing.words(now)}" for i, standing in _longest_silent(standings)]
            say(self.console, f"{line}; {'; '.join(each)}")

    def say(self, text: str) -> None:
        """Show a line at once, such as a complaint."""
        say(self.console, f"{self.name}: {text}")

    def _head(self, version: int, standings: Mapping[int, ClientStatus]) -> str:
        here = sum(standing.here for standing in standings.values())
        F = "-" if math.isnan(self.row.F) else f"{self.row.F:.6g}"
        count = f"{max(version, 0)}/{self.rounds}"
        return f"{self.name}: {self.what} {count}, F {F}, {here} of {len(standings)} nodes"

    def _table(self, version: int, standings: Mapping[int, ClientStatus], now: float) -> Table:
        table = Table(title=self._head(version, standings), box=None, header_style="dim", title_justify="left")
        for title in ("client", "node", "updates", "last accepted", "staleness"):
            table.add_column(title, justify="right")
        for i, one in _longest_silent(standings):
            node = "working" if one.working else "idle" if one.here else "-"
            last = "-" if math.isinf(one.last) else f"{now - one.last:.0f} s ago"
            table.add_row(str(i), node, str(one.number), last, str(one.staleness))
        return table


def _longest_silent(standings: Mapping[int, ClientStatus]) -> list[tuple[int, ClientStatus]]:
    chosen = sorted(standings.items(), key=lambda one: one[1].last)[:MOST]
    return sorted(chosen, key=lambda one: one[0])
