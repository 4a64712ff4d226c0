"""``FederatedClassifier`` and ``FederatedRegressor``: penalised and constrained linear models, by FedDR."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from feddr.estimators.base import FederatedLinear
from feddr.tree import Tree


class FederatedClassifier(ClassifierMixin, FederatedLinear):  # type: ignore[misc]
    """Logistic regression over the rows of several clients; with several classes, multinomial.

    Parameters
    ----------
    penalty, strength
        g on the weights, not on the intercept: ``"l1"`` is strength ||w||_1, ``"l2"`` strength/2 ||w||^2,
        ``"elasticnet"`` strength (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2), ``"group"`` strength times the sum of
        sqrt(|G|) ||w_G||, ``"none"`` nothing. In scikit-learn's LogisticRegression C = 1 / (N strength).
    l1_ratio
        For ``"elasticnet"``.
    groups
        For ``"group"``: lists of features; by default each feature is one, with its weights for all classes.
    constraint
        ``"nonnegative"`` weights, or bounds (lower, upper) on each; None for none.
    fit_intercept
        Whether there is one.
    weights
        ``"samples"``, as if the rows were pooled, or ``"uniform"``, where every client counts alike.
    max_rounds, tol
        The run ends when the norm of the gradient mapping is at most tol, or tol times that of the start where that
        is larger.

    Attributes
    ----------
    coef_ : shape (1, features), or (classes, features)
    intercept_ : shape (1,), or (classes,)
    classes_ : the labels
    n_iter_ : rounds

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> hospitals = ["north", "south", "north", "south"]
    >>> model = FederatedClassifier("l1", 0.1).fit(X, ["well", "well", "ill", "ill"], clients=hospitals)
    >>> model.predict([[3.0, 1.0]]).tolist(), model.coef_.shape, float(model.coef_[0, 1])
    (['ill'], (1, 2), 0.0)
    """

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores, shape (rows,), or (rows, classes) for more than two."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, shape (rows, classes)."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            scores = np.column_stack([np.zeros(len(scores)), scores[:, 0]])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def _outputs(self) -> int:
        return 0 if len(self.classes_) == 2 else len(self.classes_)

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        X, y = validate_data(self, X, y, dtype=np.float64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"A classification needs at least two classes, got one class, {self.classes_.tolist()[0]!r}."
            )
        return X, codes.astype(np.int32)

    def _coefficients(
        self, params: Tree, centre: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        coef, intercept = super()._coefficients(params, centre)
        return np.atleast_2d(coef), np.atleast_1d(intercept)


class FederatedRegressor(RegressorMixin, FederatedLinear):  # type: ignore[misc]
    """Linear regression over the rows of several clients: lasso, ridge, elastic net, group lasso, bounds.

    The parameters are those of ``FederatedClassifier``. In scikit-learn's Lasso and ElasticNet alpha is strength, in
    Ridge it is N strength.

    Attributes
    ----------
    coef_ : shape (features,)
    intercept_ : a number
    n_iter_ : rounds

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> model = FederatedRegressor("none").fit(X, 2 * X[:, 0] + 1, clients=[0, 0, 1, 1])
    >>> np.allclose(model.coef_, [2.0, 0.0], atol=1e-5), round(float(model.intercept_), 4)
    (True, 1.0)
    """

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted number of each row."""
        return self._scores(X)

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return X, np.asarray(column_or_1d(y, warn=True), np.float64)
