"""The paper's experiments: every method is measured at xbar, and separately at the clients' own models.

The modules::

    figures           which experiments there are, and what the paper says of them
    figure            a figure: rows of panels, each an experiment in TOML
    plan              which runs are missing, how long they will take, and the loop that makes them
    runs              one run, cached under a digest of its settings
    client_models     FedAvg and FedProx with clients that store their models, for personalised metrics
    estimates         how long runs took, to predict others
    bands             several seeds as one line with a band
    formatting        tables and sentences computed from a figure's numbers
    standings         methods ranked by F at xbar within equal budgets, over all figures
    output            files: pictures, tables, text
    view              progress on the terminal
"""

from feddr.reproduce.figure import SEEDS, Experiment, Figure, PanelRow, rows
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
    "make",
    "rows",
    "serial",
]
