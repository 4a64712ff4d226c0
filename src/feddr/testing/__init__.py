"""Checks for algorithms and regularisers of your own: the laws that engines and theorems rely on.

The modules::

    algorithm     check_algorithm: pure rules that every engine runs alike, and a ledger that adds up
    regulariser   check_regulariser: a prox that is one
    laws          how a broken law is reported, and when two trees are the same
"""

from feddr.testing.algorithm import check_algorithm
from feddr.testing.regulariser import check_regulariser

__all__ = ["check_algorithm", "check_regulariser"]
