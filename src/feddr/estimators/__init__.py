"""Estimators with the interface of scikit-learn: sparse and constrained linear models of several sites' tables.

The modules::

    base         what both share: the problem, the run, the path
    linear       FederatedClassifier and FederatedRegressor
    penalties    the words for g: penalty, strength, constraint
    selection    cross-validation that leaves out one client at a time

They need the extra ``sklearn``: pip install 'feddr[sklearn]'.
"""

from feddr.validation import kinds as _kinds

try:
    import sklearn as _sklearn  # noqa: F401
except ModuleNotFoundError:
    raise _kinds.missing("feddr.estimators", "scikit-learn", "'feddr[sklearn]'") from None

from feddr.estimators.base import RegularisationPath
from feddr.estimators.linear import FederatedClassifier, FederatedRegressor
from feddr.estimators.selection import cross_validate_by_client

__all__ = ["FederatedClassifier", "FederatedRegressor", "RegularisationPath", "cross_validate_by_client"]
