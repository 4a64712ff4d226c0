"""Figures of runs, made with matplotlib.

The modules::

    curves       metrics of one or several methods against rounds, bytes and time
    styles       a colour for each method, dashes and markers
    notebook     a figure that notebooks show by themselves
    bands        means over several seeds, with bands
    clients      how each client fares with the global model
    timeline     what clients did when, on a virtual clock
    federation   how many samples and which labels each client has
    theory       the admissible step sizes
    tune         what a search found
    reproduce    the figures of the paper
"""

from feddr.plots.bands import bands
from feddr.plots.clients import clients
from feddr.plots.curves import curves, has_curves, has_personal, has_time, personal_curves, save, time_curves
from feddr.plots.styles import COLOURS, LINES, MARKERS, line_styles
from feddr.plots.timeline import timeline

__all__ = [
    "COLOURS",
    "LINES",
    "MARKERS",
    "bands",
    "clients",
    "curves",
    "has_curves",
    "has_personal",
    "has_time",
    "line_styles",
    "personal_curves",
    "save",
    "time_curves",
    "timeline",
]
