"""The experiments that feddr brings, as TOML files beside this one: those to start from, and in ``paper/`` the paper's.

``feddr example`` lists them and copies one; ``feddr reproduce`` runs the paper's. The modules::

    catalogue       the files of the experiments, their names and descriptions
"""

from feddr.experiments.catalogue import FOLDER, PAPER, shipped, summary

__all__ = ["FOLDER", "PAPER", "shipped", "summary"]
