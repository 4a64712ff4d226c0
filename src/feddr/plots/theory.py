"""The admissible region of (alpha, eta) as a figure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from feddr import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from feddr.theory import Curve


def region(
    curves: "Sequence[Curve]",
    point: tuple[float, float] | None = None,
    *,
    L: float = 1.0,
    label: str = "",
    title: str = "Admissible step sizes",
) -> "Figure":
    """Return the boundaries of ``feddr.theory.region``: a pair in the shade below a curve is admissible.

    Parameters
    ----------
    curves
        In the order of the legend.
    point
        A pair (alpha, eta) to mark.
    L
        The smoothness that the curves are for; eta is drawn in units of 1/L.
    label
        What the legend calls the point.
    title
        Above the axes.

    Examples
    --------
    >>> from feddr import theory
    >>> figure = region(theory.region(L=2.0, n=30, taus=(0, 15)), (0.75, 0.12), L=2.0, label="mine")
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['FedDR', 'asyncFedDR, tau = 0', 'asyncFedDR, tau = 15', 'mine']
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from feddr.plots.notebook import NotebookFigure

    figure = NotebookFigure(figsize=(8.4, 4.6), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    axes = figure.add_subplot()
    for i, curve in enumerate(curves):
        colour = plots.COLOURS[i % len(plots.COLOURS)]
        # One colour for all areas: they lie one in another, so that the smaller ones come out darker.
        axes.fill_between(curve.alpha, L * curve.eta, color="black", alpha=0.05, linewidth=0)
        line = plots.LINES[i % len(plots.LINES)]
        axes.plot(curve.alpha, L * curve.eta, color=colour, linestyle=line, linewidth=1.8, label=curve.label)
    if point is not None:
        axes.plot(
            [point[0]],
            [L * point[1]],
            linestyle="none",
            marker="*",
            markersize=15,
            color="black",
            markeredgecolor="white",
            label=label or f"alpha = {point[0]:.3g}, eta = {point[1]:.3g}",
            clip_on=False,
            zorder=3,
        )
    axes.set_title(title, fontsize=12)
    axes.set_xlabel("relaxation alpha")
    axes.set_ylabel("step size eta, in units of 1/L")
    axes.set_xlim(0, max(float(curve.alpha[-1]) for curve in curves))
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        title="admissible: below the curve",
        loc="outside right upper",
        frameon=False,
        handlelength=3.0,
        alignment="left",
    )
    return figure


def boundaries(L: float, n: int, tau: int | None = None, *, gamma4: float = 0.0) -> "tuple[Curve, ...]":
    """Return the curves for FedDR, and for asyncFedDR with delays 0, n/2, n, 2n and the given tau.

    Delays up to sqrt(n/2) cost nothing; they share one curve.

    Examples
    --------
    >>> [curve.label for curve in boundaries(L=1.0, n=30, tau=5)][:3]
    ['FedDR', 'asyncFedDR, tau <= 3', 'asyncFedDR, tau = 5']
    """
    from feddr import theory

    free = math.isqrt(n // 2)
    taus = (0, *sorted(delay for delay in {n // 2, n, 2 * n, tau or 0} if delay > free))
    sync, cheap, *others = theory.region(L, n, taus, gamma4=gamma4)
    sync = replace(sync, label=f"FedDR, gamma4 = {gamma4:.4g}") if gamma4 else sync
    return sync, replace(cheap, label=f"asyncFedDR, tau <= {free}"), *others
