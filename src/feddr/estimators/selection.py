"""Cross-validation by client: how well a model does at a site that it has never seen."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, column_or_1d


def cross_validate_by_client(estimator: Any, X: Any, y: Any, clients: ArrayLike) -> pd.DataFrame:
    """Fit an estimator once without each client, and return how well it does on the rows of that one.

    Parameters
    ----------
    estimator
        A ``FederatedClassifier``, a ``FederatedRegressor``, or any estimator whose ``fit`` takes ``clients``; it is
        cloned.
    X, y, clients
        As in ``fit``: rows, labels, and whose each row is.

    Returns
    -------
    pandas.DataFrame
        A row for each client that was left out: ``rows``, how many it has, and ``score``, that of the estimator.

    Raises
    ------
    ValueError
        Where there are fewer than two clients.

    Examples
    --------
    >>> from feddr.estimators import FederatedRegressor
    >>> X = np.random.default_rng(0).normal(size=(12, 2))
    >>> table = cross_validate_by_client(FederatedRegressor("none"), X, X[:, 0], clients=list("abc") * 4)
    >>> table["score"].round(3).to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 1.0}
    """
    owners = column_or_1d(clients)
    check_consistent_length(X, y, owners)
    names = np.unique(owners)
    if len(names) < 2:
        raise ValueError(f"Leaving one client out needs at least two clients, got {len(names)}; use cross_validate.")
    y = np.asarray(y)
    rows = []
    for name in names:
        out = owners == name
        inside = clone(estimator).fit(_rows(X, ~out), y[~out], clients=owners[~out])
        rows.append({"rows": int(out.sum()), "score": float(inside.score(_rows(X, out), y[out]))})
    return pd.DataFrame(rows, index=pd.Index(names, name="client"))


def _rows(X: Any, chosen: Any) -> Any:
    return X.loc[chosen] if hasattr(X, "loc") else np.asarray(X)[chosen]
