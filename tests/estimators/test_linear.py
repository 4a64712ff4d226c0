"""The estimators: scikit-learn's own checks, its solvers on the pooled rows, paths, pipelines and searches."""

import warnings
from typing import Any

import numpy as np
import pytest

sklearn: Any = pytest.importorskip("sklearn")

from sklearn import config_context  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import GridSearchCV, GroupKFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator  # noqa: E402

from feddr.estimators import FederatedClassifier, FederatedRegressor, cross_validate_by_client  # noqa: E402

RNG = np.random.default_rng(0)
CLIENTS = np.repeat(["north", "east", "south"], [25, 40, 15])
X = RNG.normal(size=(80, 5)) + 0.5 * (CLIENTS == "east")[:, None] + 3.0
Y = X @ np.array([1.0, -2.0, 0.0, 0.5, 0.0]) + 0.5 * RNG.normal(size=80)
TWO = np.where(Y + RNG.normal(size=80) > np.median(Y), "yes", "no")
THREE = np.digitize(Y + RNG.normal(size=80), np.quantile(Y, [0.3, 0.7]))


@pytest.mark.parametrize(
    ("penalty", "peer"),
    [
        ("l1", Lasso(0.1, tol=1e-12)),
        pytest.param("l2", Ridge(0.1 * 80), marks=pytest.mark.slow),
        ("elasticnet", ElasticNet(0.1, l1_ratio=0.3, tol=1e-12)),
        pytest.param("none", LinearRegression(), marks=pytest.mark.slow),
    ],
)
def test_regressions_are_those_of_the_pooled_rows(penalty: str, peer: Any) -> None:
    found = FederatedRegressor(penalty, 0.1, l1_ratio=0.3).fit(X, Y, clients=CLIENTS)
    peer.fit(X, Y)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)
    assert found.intercept_ == pytest.approx(peer.intercept_, abs=1e-4)
    assert found.score(X, Y) == pytest.approx(peer.score(X, Y), abs=1e-5)
    if penalty == "l1":
        assert np.array_equal(found.coef_ == 0, peer.coef_ == 0)
        assert np.any(found.coef_ == 0)


@pytest.mark.parametrize(
    ("y", "ratio"),
    [
        (TWO, 1.0),
        (THREE, 0.0),
        *(pytest.param(y, ratio, marks=pytest.mark.slow) for y in (TWO, THREE) for ratio in (0.0, 0.5, 1.0)),
    ],
)
def test_classifications_are_those_of_the_pooled_rows(y: Any, ratio: float) -> None:
    penalty = {1.0: "l1", 0.0: "l2", 0.5: "elasticnet"}[ratio]
    found = FederatedClassifier(penalty, 0.02, l1_ratio=ratio).fit(X, y, clients=CLIENTS)
    scaled = X - X.mean(axis=0)  # saga is slow on features that are not centred, and their weights are the same
    peer = LogisticRegression(C=1 / (80 * 0.02), l1_ratio=ratio, solver="saga", tol=1e-9, max_iter=100_000)
    peer.fit(scaled, y)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)
    assert found.classes_.tolist() == peer.classes_.tolist()
    np.testing.assert_allclose(found.predict_proba(X), peer.predict_proba(scaled), atol=1e-5)
    np.testing.assert_array_equal(found.predict(X), peer.predict(scaled))


@pytest.mark.slow
def test_without_an_intercept() -> None:
    found = FederatedRegressor("l1", 0.1, fit_intercept=False).fit(X, Y, clients=CLIENTS)
    peer = Lasso(0.1, fit_intercept=False, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)
    assert found.intercept_ == 0


def test_weights_may_be_nonnegative_or_bounded() -> None:
    peer = Lasso(0.1, positive=True, tol=1e-12).fit(X, Y)
    found = FederatedRegressor("l1", 0.1, constraint="nonnegative").fit(X, Y, clients=CLIENTS)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)
    bounded = FederatedRegressor("l2", 0.1, constraint=(-0.5, 0.25)).fit(X, Y, clients=CLIENTS)
    assert bounded.coef_.min() == -0.5
    assert bounded.coef_.max() == 0.25


def test_groups_vanish_together() -> None:
    groups = [[0, 1], [2, 4], [3]]
    found = FederatedRegressor("group", 0.3, groups=groups).fit(X, Y, clients=CLIENTS)
    residual = Y - found.predict(X)
    slope = -(X - X.mean(axis=0)).T @ residual / len(X)
    for group in groups:  # the conditions of optimality
        w, limit = found.coef_[group], 0.3 * np.sqrt(len(group))
        if np.any(w):
            np.testing.assert_allclose(slope[group], -limit * w / np.linalg.norm(w), atol=1e-5)
        else:
            assert np.linalg.norm(slope[group]) <= limit
    assert np.all(found.coef_[[2, 4]] == 0)
    assert np.all(found.coef_[[0, 1]] != 0)


@pytest.mark.slow
def test_a_feature_vanishes_for_all_classes() -> None:
    several = FederatedClassifier("group", 0.1).fit(X, THREE, clients=CLIENTS)
    assert set((several.coef_ == 0).sum(axis=0)) == {0, 3}


@pytest.mark.slow
def test_clients_change_nothing_but_where_the_rows_are() -> None:
    pooled = FederatedClassifier("l1", 0.02).fit(X, TWO)
    apart = FederatedClassifier("l1", 0.02).fit(X, TWO, clients=CLIENTS)
    np.testing.assert_allclose(pooled.coef_, apart.coef_, atol=1e-5)
    uniform = FederatedClassifier("l1", 0.02, weights="uniform").fit(X, TWO, clients=CLIENTS)
    assert np.abs(uniform.coef_ - apart.coef_).max() > 1e-3


def test_a_path_has_warm_starts_and_the_same_solutions() -> None:
    path = FederatedRegressor("l1").path(X, Y, CLIENTS, [0.03, 0.3, 0.03])
    assert path.strengths.tolist() == [0.3, 0.03, 0.03]
    for strength, coef, intercept in zip(path.strengths, path.coef, path.intercept, strict=True):
        peer = Lasso(strength, tol=1e-12).fit(X, Y)
        np.testing.assert_allclose(coef, peer.coef_, atol=1e-5)
        assert intercept == pytest.approx(float(peer.intercept_), abs=1e-4)
    assert path.rounds[2] == 0 < path.rounds[1]  # it starts at the solution


@pytest.mark.slow
def test_every_client_is_left_out_once() -> None:
    table = cross_validate_by_client(FederatedRegressor("l2", 0.1), X, Y, CLIENTS)
    assert table["rows"].to_dict() == {"east": 40, "north": 25, "south": 15}
    out = CLIENTS == "east"
    peer = Ridge(0.1 * 40).fit(X[~out], Y[~out])
    assert table.loc["east", "score"] == pytest.approx(peer.score(X[out], Y[out]), abs=1e-5)
    with pytest.raises(ValueError, match="needs at least two clients, got 1"):
        cross_validate_by_client(FederatedRegressor(), X, Y, ["a"] * 80)


@pytest.mark.slow
def test_pipelines_and_searches_pass_clients_on() -> None:
    with config_context(enable_metadata_routing=True):
        model = FederatedClassifier("l1").set_fit_request(clients=True)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"federatedclassifier__strength": [0.02, 10.0]},
            cv=GroupKFold(3),
            error_score="raise",
        )
        search.fit(X, TWO, clients=CLIENTS, groups=CLIENTS)
    assert search.best_params_ == {"federatedclassifier__strength": 0.02}
    assert set(search.predict(X)) == {"yes", "no"}
    pipeline = make_pipeline(StandardScaler(), FederatedClassifier("l1", 0.02))
    pipeline.fit(X, TWO, federatedclassifier__clients=CLIENTS)
    np.testing.assert_allclose(pipeline[-1].coef_, search.best_estimator_[-1].coef_, atol=1e-5)


@pytest.mark.parametrize("nobody", [None, float("nan")])
def test_a_row_without_a_client_is_refused(nobody: Any) -> None:
    owners = np.array(["a"] * 2 + [nobody] + ["b"] * 77, object)
    with pytest.raises(ValueError, match="Every row needs a client, row 2 has none; name it, or leave the row out"):
        FederatedRegressor().fit(X, Y, owners)


def test_one_class_is_named_as_it_is_written() -> None:
    with pytest.raises(ValueError, match="at least two classes, got one class, 'yes'"):
        FederatedClassifier().fit(X, ["yes"] * 80)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"penalty": "l3"}, "penalty must be one of l1, l2, elasticnet, group, none, got 'l3'"),
        ({"strength": -1.0}, "strength must be a number of 0 or more, got -1"),
        ({"l1_ratio": 2.0}, "l1_ratio must lie from 0 to 1, got 2"),
        ({"groups": [[0]]}, "groups belong to penalty=\"group\", got penalty='l2'"),
        ({"penalty": "group", "groups": [[9]]}, "lists of features from 0 to 4, got 9"),
        ({"constraint": "positive"}, 'constraint must be None, "nonnegative" or the bounds'),
        ({"constraint": (2, 1)}, "lower <= upper"),
        ({"penalty": "group", "constraint": (0, 1)}, 'goes with the constraint "nonnegative" alone'),
        ({"weights": "equal"}, 'weights must be "uniform", "samples"'),
    ],
)
def test_what_an_estimator_does_not_know_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FederatedRegressor(**changes).fit(X, Y)


def test_too_few_rounds_are_said() -> None:
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="after max_rounds=5, above tol=1e-07; scale"):
        FederatedRegressor("l1", max_rounds=5).fit(X, Y, CLIENTS)


COUNTS = RNG.integers(0, 3, 80)


@pytest.mark.parametrize(("estimator", "y"), [(FederatedRegressor("l1", 0.1), Y), (FederatedClassifier("l2"), TWO)])
@pytest.mark.parametrize("weights", ["samples", pytest.param("uniform", marks=pytest.mark.slow)])
def test_a_weight_is_as_having_the_row_so_often(estimator: Any, y: Any, weights: str) -> None:
    """Also for clients: with "samples" they count by the sum of their weights, and 0 is as not having the row."""
    estimator = clone(estimator).set_params(weights=weights)
    often = np.repeat(np.arange(80), COUNTS)
    weighted = clone(estimator).fit(X, y, clients=CLIENTS, sample_weight=COUNTS)
    repeated = clone(estimator).fit(X[often], y[often], clients=CLIENTS[often])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-5)
    plain = clone(estimator).fit(X, y, clients=CLIENTS)
    assert not np.allclose(weighted.coef_, plain.coef_, atol=1e-3)


def test_weighted_rows_are_those_of_scikit_learn() -> None:
    weights = RNG.uniform(0.5, 2.0, 80)
    found = FederatedRegressor("l1", 0.1).fit(X, Y, CLIENTS, weights)
    peer = Lasso(0.1, tol=1e-12).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)


def test_weights_that_cannot_be_are_refused() -> None:
    for wrong in (np.zeros(80), -np.ones(80), np.ones(3)):
        with pytest.raises(ValueError, match=r"[Ss]ample[_ ]weight"):
            FederatedRegressor().fit(X, Y, CLIENTS, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [FederatedRegressor(), FederatedClassifier()])
def test_all_checks_of_scikit_learn_pass(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some checks use features of very different sizes, or are skipped
        check_estimator(estimator)


CHECKS = (
    *("check_no_attributes_set_in_init", "check_get_params_invariance", "check_set_params", "check_mixin_order"),
    *("check_estimators_unfitted", "check_estimators_nan_inf", "check_fit1d", "check_requires_y_none"),
)


@pytest.mark.parametrize("estimator", [FederatedRegressor(), FederatedClassifier()])
def test_some_checks_of_scikit_learn_pass(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = {check.func.__name__: check for _, check in estimator_checks_generator(estimator)}
        for name in CHECKS:
            checks[name](clone(estimator))
