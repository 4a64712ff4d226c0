"""The paper's experiments again, every method measured at the same point: at xbar, and apart from it personalised.

The rooms: ``figures`` (which experiments), ``figure`` (from TOML to lines of panels), ``present`` (which data are
there), ``plan`` (what is to be made, and the loop), ``runs`` and ``worker`` (one run, kept under a digest of its
settings), ``keeping`` (own models for methods that forget them), ``costs`` (how long), ``bands`` (several seeds as one
line), ``words`` (what a figure shows), ``standings`` (who is first, over all figures), ``output`` (files) and ``view``
(the terminal).
"""

from feddr.reproduce.figure import SEEDS, Experiment, Figure, PanelRow, experiments_folder, rows
from feddr.reproduce.figures import FIGURES
from feddr.reproduce.plan import Plan, make, serial
from feddr.reproduce.runs import Finished, Runs, digest, execute

__all__ = [
    "FIGURES",
    "SEEDS",
    "Experiment",
    "Figure",
    "Finished",
    "PanelRow",
    "Plan",
    "Runs",
    "digest",
    "execute",
    "experiments_folder",
    "make",
    "rows",
    "serial",
]
