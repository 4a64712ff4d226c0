"""Checks for algorithms and regularisers of your own: the laws that engines and theorems rely on."""

from feddr.testing.algorithm import check_algorithm
from feddr.testing.regulariser import check_regulariser

__all__ = ["check_algorithm", "check_regulariser"]
