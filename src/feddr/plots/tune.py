"""A search as a picture: one panel for each algorithm, or for each of its keys where it has more than two."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from feddr.metrics import better
from feddr.tune.axes import Choice, Range
from feddr.tune.ranking import short, value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    from feddr.tune.plan import Search
    from feddr.tune.ranking import RankedSetting

BEST, BAD = "#D55E00", "#555555"
DECADES = 1e3
"""Values beyond this factor of the best share the last colour: a setting that is that bad needs no shade of its own."""


class SettingsPanel(NamedTuple):
    """The settings of one algorithm over one or two of its keys."""

    label: str
    keys: tuple[str, ...]
    standings: "Sequence[RankedSetting]"


def figure(search: "Search", ranking: "Mapping[str, Sequence[RankedSetting]]") -> "Figure | None":
    """Return the settings and how good they are; None where nothing varies or no run has ended.

    Two keys make a map, one makes a line with the spread over seeds, more make a scatter for each key. Settings that
    diverged, or came to nothing otherwise, are marked with a cross, the best of each algorithm with a star.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from feddr.plots.notebook import NotebookFigure

    panels = [panel for label, standings in ranking.items() for panel in _panels(search, label, standings)]
    if not panels:
        return None
    columns = min(3 if len(panels) != 4 else 2, len(panels))
    rows = -(-len(panels) // columns)
    size = (max(4.3 * columns, 5.5), 3.5 * rows + 0.7)
    drawing = NotebookFigure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    seeds = f", mean of {len(search.seeds)} seeds" if len(search.seeds) > 1 else ""
    drawing.suptitle(
        f"{search.config.name}: {search.metric} at the global model{seeds}".replace("$", r"\$"), fontsize=13
    )
    norm = _norm(search, ranking)
    mapped: ScalarMappable | None = None
    maps, lines = [], []
    for number, panel in enumerate(panels, start=1):
        axes = drawing.add_subplot(rows, columns, number)
        axes.set_title(panel.label.replace("$", r"\$"), fontsize=11)
        if len(panel.keys) == 2:
            mapped = _map(axes, search, panel, norm)
            maps.append(axes)
        else:
            _line(axes, search, panel)
            lines.append(axes)
    for axes in lines[1:]:
        axes.sharey(lines[0])  # one scale, so that algorithms can be compared
    if lines:
        lines[0].autoscale(axis="y")
    if mapped is not None:
        drawing.colorbar(mapped, ax=maps, label=search.metric, extend=_extend(search, ranking))
    _legend(drawing, any(one.mean is None for panel in panels for one in panel.standings))
    return drawing


def _legend(drawing: "Figure", bad: bool) -> None:
    from matplotlib.lines import Line2D

    star = Line2D([], [], linestyle="none", marker="*", color=BEST, markersize=13, label="best")
    cross = Line2D([], [], linestyle="none", marker="x", color=BAD, markersize=8, label="a run diverged or was refused")
    handles = [star, cross] if bad else [star]
    drawing.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def _panels(search: "Search", label: str, standings: "Sequence[RankedSetting]") -> list[SettingsPanel]:
    tried = [one for one in standings if one.records]
    keys = [key for key in search.space.axes[label] if len({value(one.settings[key]) for one in tried}) > 1]
    drawn = search.space.axes[label]
    lists = all(isinstance(drawn[key], Choice) for key in keys)
    if len(keys) == 2 and (lists or all(_numeric(drawn[key]) for key in keys)):
        return [SettingsPanel(label, tuple(keys), tried)]
    return [SettingsPanel(label, (key,), tried) for key in keys]


def _map(axes: "Axes", search: "Search", panel: SettingsPanel, norm: "Normalize") -> "ScalarMappable":
    """Draw cells where both keys are lists, points where one is a range."""
    across, up = panel.keys
    own = search.space.axes[panel.label]
    if isinstance(own[across], Choice) and isinstance(own[up], Choice):
        mapped = _cells(axes, search, panel, norm)
    else:
        for key, scale in ((across, axes.set_xscale), (up, axes.set_yscale)):
            if _logarithmic(own[key]):
                scale("log")
        good = [one for one in panel.standings if one.mean is not None]
        bad = [one for one in panel.standings if one.mean is None]
        mapped = axes.scatter(
            [_place(one, across) for one in good],
            [_place(one, up) for one in good],
            c=_means({panel.label: good}),
            norm=norm,
            cmap=_colours(search),
            s=60,
            edgecolors="white",
            linewidths=0.5,
        )
        axes.plot([_place(one, across) for one in bad], [_place(one, up) for one in bad], "x", color=BAD, markersize=7)
        for one in good[:1]:
            axes.plot(_place(one, across), _place(one, up), "*", color=BEST, markersize=16, markeredgecolor="white")
        axes.grid(alpha=0.25, linewidth=0.6)
    mapped.set_cmap(_colours(search))
    axes.set_xlabel(short(across))
    axes.set_ylabel(short(up))
    return mapped


def _cells(axes: "Axes", search: "Search", panel: SettingsPanel, norm: "Normalize") -> "ScalarMappable":
    import numpy as np

    across, up = ([value(one) for one in _ordered(panel, key)] for key in panel.keys)
    grid = np.full((len(up), len(across)), np.nan)
    cells = {}
    for one in panel.standings:
        x, y = (value(one.settings[key]) for key in panel.keys)
        cell = up.index(y), across.index(x)
        cells[cell] = one
        grid[cell] = np.nan if one.mean is None else one.mean
    mapped = axes.imshow(grid, norm=norm, origin="lower", aspect="auto")
    few = grid.size <= 64
    for (row, column), one in cells.items():
        if one.mean is None:
            axes.plot(column, row, "x", color=BAD, markersize=9, markeredgewidth=2)
        elif few:
            colour = "black" if _lightness(search, norm, one.mean) > 0.55 else "white"
            axes.text(column, row, f"{one.mean:.3g}", ha="center", va="center", fontsize=8, color=colour)
        if one.rank == 1:
            axes.plot(column, row + (0.3 if few else 0), "*", color=BEST, markersize=13, markeredgecolor="white")
    axes.set_xticks(range(len(across)), across, rotation=45 if len(across) > 6 else 0)
    axes.set_yticks(range(len(up)), up)
    return mapped


def _line(axes: "Axes", search: "Search", panel: SettingsPanel) -> None:
    """Draw the metric over one key: a line where it is all that varies, points otherwise."""
    (key,) = panel.keys
    single = len(search.space.axes[panel.label]) == 1
    good = sorted((one for one in panel.standings if one.mean is not None), key=lambda one: _order(one.settings[key]))
    bad = [one for one in panel.standings if one.mean is None]
    own = search.space.axes[panel.label][key]
    numeric = _numeric(own)
    names = [value(one) for one in _ordered(panel, key)]

    def places(ranked: "Sequence[RankedSetting]") -> list[float]:
        return [_place(one, key) if numeric else names.index(value(one.settings[key])) for one in ranked]

    means = _means({panel.label: good})
    spreads = [one.spread or 0.0 for one in good] if single else None
    style: Any = {"marker": "o", "linestyle": "-" if single else "none", "color": "#0072B2", "markersize": 4.5}
    axes.errorbar(places(good), means, yerr=spreads, capsize=2.5, linewidth=1.5, elinewidth=0.9, **style)
    if good:
        top = min(good, key=lambda one: one.rank or math.inf)
        axes.plot(places([top]), _means({"": [top]}), "*", color=BEST, markersize=15, markeredgecolor="white", zorder=3)
    if bad:
        edge, height = axes.get_xaxis_transform(), 0.97 if better(search.metric) == "min" else 0.03  # the bad end
        axes.plot(places(bad), [height] * len(bad), "x", color=BAD, transform=edge, markersize=8, markeredgewidth=2)
    if numeric and _logarithmic(own):
        axes.set_xscale("log")
    elif not numeric:
        axes.set_xticks(range(len(names)), names)
    if means and min(means) > 0 and max(means) > 10 * min(means):
        axes.set_yscale("log")
    if not good:
        axes.set_yticks([])
    axes.set_xlabel(short(key))
    axes.set_ylabel(search.metric)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _norm(search: "Search", ranking: "Mapping[str, Sequence[RankedSetting]]") -> "Normalize":
    """Return one scale of colours for all algorithms; logarithmic where values differ by more than a factor of ten."""
    from matplotlib.colors import LogNorm, Normalize

    means = _means(ranking)
    if not means:
        return Normalize(0.0, 1.0)
    low, high = min(means), max(means)
    if better(search.metric) == "min" and low > 0 and high > 10 * low:
        return LogNorm(low, min(high, DECADES * low))
    return Normalize(low, high if high > low else low + 1.0)


def _extend(search: "Search", ranking: "Mapping[str, Sequence[RankedSetting]]") -> str:
    means = _means(ranking)
    clipped = means and better(search.metric) == "min" and 0 < min(means) * DECADES < max(means)
    return "max" if clipped else "neither"


def _means(ranking: "Mapping[str, Sequence[RankedSetting]]") -> list[float]:
    return [one.mean for standings in ranking.values() for one in standings if one.mean is not None]


def _colours(search: "Search") -> str:
    """Return a map of colours in which the better end is the lighter one."""
    return "viridis_r" if better(search.metric) == "min" else "viridis"


def _lightness(search: "Search", norm: "Normalize", mean: float) -> float:
    """Return how light the colour of a mean is, from 0 to 1."""
    share = float(norm(mean))
    return 1.0 - share if better(search.metric) == "min" else share


def _ordered(panel: SettingsPanel, key: str) -> list[Any]:
    """Return the values of a key, each once, numbers in order."""
    values = {value(one.settings[key]): one.settings[key] for one in panel.standings}
    return sorted(values.values(), key=_order)


def _order(one: Any) -> tuple[bool, float, str]:
    return (False, float(one), "") if _is_number(one) else (True, 0.0, value(one))


def _is_number(one: Any) -> bool:
    return isinstance(one, int | float) and not isinstance(one, bool)


def _numeric(axis: Choice | Range) -> bool:
    return isinstance(axis, Range) or all(map(_is_number, axis.values))


def _place(one: "RankedSetting", key: str) -> float:
    return float(one.settings[key])


def _logarithmic(axis: Choice | Range) -> bool:
    if isinstance(axis, Range):
        return axis.scale == "log"
    values = [one for one in axis.values if _is_number(one)]
    return bool(values) and min(values) > 0 and max(values) >= 20 * min(values)
