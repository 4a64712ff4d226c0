"""What both estimators share: the problem, the run that solves it, and the path.

They minimise sum_i w_i f_i + g, where f_i is the mean logistic loss, or half the mean squared error, over the rows of
client i, which stay with it. With w_i = n_i / N that is the objective of the pooled rows. FedDR runs with a certified
local solver and all clients in a round: on convex problems it converges for every eta, and ``ETA`` needs few rounds.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from feddr.algorithms import FedDR
from feddr.data import FederatedData
from feddr.data.tables import WEIGHT
from feddr.data.weighting import weighted
from feddr.engines.shared.state import Progress
from feddr.engines.simulate import simulate
from feddr.estimators.penalties import BIAS, regulariser
from feddr.local import Accelerated
from feddr.models import Model
from feddr.problem import Problem
from feddr.problem.losses import LinearCurvature
from feddr.tree import Tree

EVERY = 5
"""Rounds between two looks at whether the solution is good enough."""

ALPHA, ETA = 1.6, 3.0
"""Relaxation, and eta in units of 1 / L, L the weighted mean of the clients' smoothness."""


class RegularisationPath(NamedTuple):
    """Solutions for several strengths, the largest strength first.

    ``coef`` and ``intercept`` have a row for each strength, of the shapes of ``coef_`` and ``intercept_``; ``rounds``
    are those that each took.

    Examples
    --------
    >>> path = RegularisationPath(np.array([1.0, 0.1]), np.zeros((2, 3)), np.zeros(2), np.array([5, 10]))
    >>> path.coef[1].shape
    (3,)
    """

    strengths: NDArray[np.float64]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    rounds: NDArray[np.int64]


class FederatedLinear(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: parameters, the run, and the path."""

    def __init__(
        self,
        penalty: str = "l2",
        strength: float = 0.01,
        *,
        l1_ratio: float = 0.5,
        groups: Sequence[Sequence[int]] | None = None,
        constraint: Any = None,
        fit_intercept: bool = True,
        weights: str = "samples",
        max_rounds: int = 2000,
        tol: float = 1e-7,
    ) -> None:
        self.penalty = penalty
        self.strength = strength
        self.l1_ratio = l1_ratio
        self.groups = groups
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.weights = weights
        self.max_rounds = max_rounds
        self.tol = tol

    def fit(self, X: Any, y: Any, clients: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to the rows of all clients.

        Parameters
        ----------
        X
            Features, shape (rows, features).
        y
            Labels or targets, shape (rows,).
        clients
            Whose each row is, shape (rows,): any labels, such as names of hospitals. None for one client. Pipelines and
            searches pass it on where they are asked to: ``set_fit_request(clients=True)``.
        sample_weight
            Weights of the rows in the loss, shape (rows,), not negative: a weight of 2 is as having the row twice, one
            of 0 as not having it. With ``weights="samples"`` a client counts by the sum of its rows' weights.
        """
        data, centre = self._data(X, y, clients, sample_weight)
        params, self.n_iter_ = self._solve(data, self.strength, None)
        self.coef_, self.intercept_ = self._coefficients(params, centre)
        return self

    def path(
        self,
        X: Any,
        y: Any,
        clients: ArrayLike | None,
        strengths: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> RegularisationPath:
        """Return the solutions for several strengths, each run started where the one before has ended.

        ``X``, ``y``, ``clients`` and ``sample_weight`` are as in ``fit``; strengths may have any order.
        """
        data, centre = self._data(X, y, clients, sample_weight)
        chosen = np.sort(np.asarray(strengths, np.float64).ravel())[::-1]
        params: Tree | None = None
        solutions = []
        for strength in chosen:
            params, rounds = self._solve(data, float(strength), params)
            solutions.append((*self._coefficients(params, centre), np.array(rounds)))
        coef, intercept, taken = (np.stack(part) for part in zip(*solutions, strict=True))
        return RegularisationPath(chosen, coef, intercept, taken)

    def _outputs(self) -> int:
        """Return the width of the output, 0 for one number."""
        return 0

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return features, and targets as numbers."""
        raise NotImplementedError

    def _data(
        self, X: Any, y: Any, clients: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[FederatedData, NDArray[np.float64]]:
        """Return the rows of each client, and the mean that was subtracted from all of them.

        Where there is an intercept, centred features have the same solution but for it, in far fewer rounds; the mean
        is a sum of sums, for which clients need not share rows.
        """
        X, y = self._read(X, y)
        owners = np.zeros(len(X)) if clients is None else column_or_1d(clients)
        check_consistent_length(X, owners)
        missing = np.flatnonzero(pd.isna(owners))
        if len(missing):
            raise ValueError(f"Every row needs a client, row {missing[0]} has none; name it, or leave the row out.")
        arrays = {"x": X, "y": y}
        if sample_weight is not None:
            arrays[WEIGHT] = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            some = arrays[WEIGHT] > 0
            if not some.any():
                raise ValueError("sample_weight must be positive for some row, got zeros alone; leave it out.")
            owners, arrays = owners[some], {name: array[some] for name, array in arrays.items()}
        centre = np.zeros(X.shape[1])
        if self.fit_intercept:
            centre = np.average(arrays["x"], axis=0, weights=arrays.get(WEIGHT))
            arrays["x"] = arrays["x"] - centre
        names, codes = np.unique(owners, return_inverse=True)
        parts = [{name: array[codes == k] for name, array in arrays.items()} for k in range(len(names))]
        return FederatedData.from_clients(parts), centre

    def _problem(self, data: FederatedData, strength: float) -> Problem:
        features, outputs, intercept = data.train.samples["x"].shape[1], self._outputs(), bool(self.fit_intercept)
        shape = (features, outputs) if outputs else (features,)
        offset = (outputs or 1) if intercept else 0  # bias comes before weight
        g = regulariser(self.penalty, strength, self.l1_ratio, self.groups, self.constraint, shape, offset)

        def init(seed: int) -> Tree:
            del seed
            return {"weight": np.zeros(shape)} | ({BIAS: np.zeros(shape[1:])} if intercept else {})

        def apply(params: Tree, x: Any) -> Any:
            scores = x @ params["weight"]
            return scores + params[BIAS] if intercept else scores

        model = Model(init, apply, outputs)
        data, weights = weighted(data, self.weights)
        if isinstance(self, RegressorMixin):
            curvature = LinearCurvature(data, 1.0)
            return Problem.regression(model, data, g=g, weights=weights, curvature=curvature)
        curvature = LinearCurvature(data, 0.5 if outputs else 0.25)
        return Problem.classification(model, data, g=g, weights=weights, curvature=curvature)

    def _solve(self, data: FederatedData, strength: float, init: Tree | None) -> tuple[Tree, int]:
        """Return the solution, and the rounds that it took."""
        problem = self._problem(data, strength)
        smoothness = sum(w * problem.known_curvature(i)[1] for i, w in enumerate(problem.client_weights))  # type: ignore[index]
        first: list[float] = []

        def good(progress: Progress) -> bool:
            if progress.row is None:
                return False
            first.append(progress.row.gradient_mapping)
            return progress.row.gradient_mapping <= self.tol * max(1.0, first[0])

        result = simulate(
            problem,
            FedDR(eta=ETA / smoothness, alpha=ALPHA, init="lazy", start="xbar", mean="all"),
            local=Accelerated(tol=self.tol / 100),
            rounds=self.max_rounds,
            init=init,
            precision="float64",
            evaluate_every=EVERY,
            callback=good,
            progress=False,  # a search fits many times
        )
        if first[-1] > self.tol * max(1.0, first[0]):
            warnings.warn(
                f"The gradient mapping is {first[-1]:.2g} after max_rounds={self.max_rounds}, above tol={self.tol:g}; "
                "scale the features, or raise max_rounds.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return result.params, result.history.last.round

    def _coefficients(
        self, params: Tree, centre: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weights and intercept for features that are not centred."""
        weight = np.asarray(params["weight"])
        return weight.T, np.asarray(params.get(BIAS, np.zeros(weight.shape[1:])) - centre @ weight)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ self.coef_.T + self.intercept_)
