"""The timeline of a run on the virtual clock: one row for each client, and the server's versions above."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from feddr.engines.clock.events import SERVER, Event

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class EventStyle(NamedTuple):
    """How a kind of event is drawn; hatches tell kinds apart without colours."""

    colour: str
    hatch: str = ""


STYLES = {
    "receiving": EventStyle("#56B4E9", "\\\\\\"),
    "computing": EventStyle("#0072B2"),
    "sending": EventStyle("#E69F00", "///"),
    "idle": EventStyle("#FFFFFF"),
    "offline": EventStyle("#BBBBBB", "xxx"),
    "lost": EventStyle("#CC79A7", "..."),
}
"""Colours of Okabe and Ito (2008), told apart with every common kind of colour blindness."""

WIDTH = 9.0


def timeline(
    events: Sequence[Event],
    title: str = "",
    *,
    clients: Sequence[int] | None = None,
    start: float = 0.0,
    end: float | None = None,
) -> "Figure":
    """Return what clients did when: receiving, computing, sending, idle, offline, or work that was lost.

    The number in a bar is the version of xbar that the client began with, and the numbers above are the server's
    versions, each where it was made: an update is as stale as the one is behind the other.

    Parameters
    ----------
    events
        As in ``result.events``.
    title
        Of the figure.
    clients
        Who is shown; the first twenty by default.
    start, end
        Which time is shown; the end is where the clients have sent about five updates each by default.

    Examples
    --------
    >>> figure = timeline([Event(0, "computing", 0.0, 1.0, read=0, arrived=0), Event(1, "idle", 0.0, 1.0)])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['server', 'client 0', 'client 1']
    """
    from feddr.plots.notebook import NotebookFigure

    if not events:
        raise ValueError("A timeline needs events, got none; run with delays, and max_events above 0.")
    rows = sorted({event.client for event in events} - {SERVER})[:20] if clients is None else list(clients)
    if end is None:
        sent = sorted(event.end for event in events if event.arrived >= 0 and event.client in rows)
        last = max(event.end for event in events)
        end = min(1.02 * sent[5 * len(rows)], last) if len(sent) > 5 * len(rows) else last
    figure = NotebookFigure(figsize=(WIDTH + 2.6, max(0.36 * len(rows) + 1.5, 2.6)), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=13)
    axes = figure.add_subplot()
    axes.set_xlim(start, end)
    axes.set_ylim(len(rows) + 0.6, -0.9)
    axes.set_yticks(range(len(rows) + 1), ["server", *(f"client {i}" for i in rows)])
    axes.set_xlabel("virtual time (s)")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    _server(axes, events, start, end)
    row_of = {client: row for row, client in enumerate(rows, start=1)}
    shown = [e for e in events if e.client in row_of and e.end > start and e.start < end]
    drawn = {}
    for kind, style in STYLES.items():
        of_kind = [event for event in shown if event.kind == kind]
        for event in of_kind:
            drawn[kind] = axes.broken_barh(
                [(event.start, event.end - event.start)],
                (row_of[event.client] - 0.36, 0.72),
                facecolor=style.colour,
                edgecolor="#222222" if kind != "idle" else "#CCCCCC",
                hatch=style.hatch,
                linewidth=0.6,
                zorder=2,
            )
        if kind == "computing":
            _versions(axes, of_kind, row_of, start, end)
    figure.legend(drawn.values(), drawn, loc="outside right upper", frameon=False, handlelength=2.2)
    return figure


def _versions(axes: "Axes", computing: Sequence[Event], row_of: dict[int, int], start: float, end: float) -> None:
    """Write into each bar that has room the version that it began with."""
    for event in computing:
        left, right = max(event.start, start), min(event.end, end)
        if (right - left) / (end - start) * WIDTH > 0.1 + 0.08 * len(str(event.read)):
            text = str(event.read)
            middle = (left + right) / 2
            axes.text(middle, row_of[event.client], text, ha="center", va="center", color="white", fontsize=8, zorder=3)


def _server(axes: "Axes", events: Sequence[Event], start: float, end: float) -> None:
    """Mark where each version was made."""
    made = {0: 0.0} | {event.read: event.start for event in events if event.client == SERVER}
    shown = {version: t for version, t in made.items() if start <= t <= end}
    axes.vlines(list(shown.values()), -0.25, len(axes.get_yticks()) - 0.4, color="#888888", linewidth=0.5, zorder=1)
    axes.plot(list(shown.values()), [0] * len(shown), "|", color="#222222", markersize=11, zorder=2)
    free = -1.0
    for version, t in shown.items():
        # A number takes some room; where versions follow each other faster, only some are written.
        width = (0.08 + 0.075 * len(str(version))) / WIDTH * (end - start)
        if t - width / 2 >= free:
            axes.text(t, -0.42, str(version), ha="center", va="bottom", fontsize=8)
            free = t + width / 2
