"""Weights of samples and classes: the minimiser is scikit-learn's, and f_i is the weighted mean of client i."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import feddr
from feddr.data.weighting import weighted

RNG = np.random.default_rng(3)
SIZES = (30, 12, 45)


def clients(classes: int = 2, weights: bool = True) -> list[dict[str, Any]]:
    found = []
    for size in SIZES:
        x = RNG.normal(size=(size, 3))
        y = np.minimum((x[:, 0] + RNG.normal(size=size) > 0.8) * RNG.integers(1, classes, size), classes - 1)
        found.append({"x": x, "y": y} | ({"sample_weight": RNG.exponential(size=size)} if weights else {}))
    return found


def pooled(parts: list[dict[str, Any]], name: str) -> Any:
    return np.concatenate([part[name] for part in parts])


def minimiser(problem: feddr.Problem) -> Any:
    """Where the gradient of F vanishes, by Newton's method on the flat parameters."""
    import jax
    from jax.flatten_util import ravel_pytree

    with jax.enable_x64(True):
        flat, back = ravel_pytree(problem.init)
        samples = {name: np.asarray(a) for name, a in problem.data.train.samples.items()}
        w = problem.sample_weights

        def F(v: Any) -> Any:
            x = back(v)
            return w @ problem.loss(x, samples) + problem.regulariser.value(x)

        gradient, hessian = jax.jit(jax.grad(F)), jax.jit(jax.hessian(F))
        for _ in range(12):
            flat = flat - np.linalg.solve(hessian(flat), gradient(flat))
        assert np.abs(gradient(flat)).max() < 1e-10
        return back(flat)


RIDGE = feddr.prox.SquaredL2(0.1, mask=feddr.prox.leave("bias"))


@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 4.0}])
@pytest.mark.parametrize("weights", [True, False])
def test_logistic_regression_is_that_of_scikit_learn(weights: bool, class_weight: Any) -> None:
    parts = clients(weights=weights)
    x, y = pooled(parts, "x"), pooled(parts, "y")
    own = pooled(parts, "sample_weight") if weights else np.ones(len(y))
    problem = feddr.Problem.classification(
        feddr.models.linear(3),
        feddr.FederatedData.from_clients(parts),
        g=RIDGE,
        weights="samples",
        class_weight=class_weight,
    )
    found = minimiser(problem)
    totals = {c: float(own[y == c].sum()) for c in (0, 1)}
    per_class = {c: sum(totals.values()) / (2 * total) for c, total in totals.items()}
    if class_weight != "balanced":
        per_class = class_weight or {}
    raw = own * np.array([per_class.get(int(label), 1.0) for label in y])
    # Older versions of scikit-learn balance by the number of samples, not by their weights.
    theirs_too = class_weight if not weights else per_class
    theirs = LogisticRegression(C=1 / (0.1 * raw.sum()), class_weight=theirs_too, tol=1e-10, max_iter=1000)
    theirs.fit(x, y, sample_weight=own)
    np.testing.assert_allclose(found["weight"], theirs.coef_[0], atol=1e-4)
    np.testing.assert_allclose(found["bias"], theirs.intercept_[0], atol=1e-4)


def test_ridge_regression_is_that_of_scikit_learn() -> None:
    parts = clients()
    for part in parts:
        part["y"] = part["x"] @ [1.0, -2.0, 0.5] + RNG.normal(size=len(part["x"])) + 3
    problem = feddr.Problem.regression(
        feddr.models.linear(3), feddr.FederatedData.from_clients(parts), g=RIDGE, weights="samples"
    )
    found, raw = minimiser(problem), pooled(parts, "sample_weight")
    theirs = Ridge(alpha=0.1 * raw.sum()).fit(pooled(parts, "x"), pooled(parts, "y"), sample_weight=raw)
    np.testing.assert_allclose(found["weight"], theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(found["bias"], theirs.intercept_, atol=1e-6)


def test_the_loss_of_a_client_is_its_weighted_mean() -> None:
    parts = clients(classes=3)
    data = feddr.FederatedData.from_clients(parts)
    model = feddr.models.softmax(3, 3)
    problem = feddr.Problem.classification(model, data, class_weight="balanced")
    labels = pooled(parts, "y")
    totals = np.bincount(labels, pooled(parts, "sample_weight"))
    per_class = totals.sum() / (3 * totals)
    x = {"weight": RNG.normal(size=(3, 3)), "bias": RNG.normal(size=3)}
    for i, part in enumerate(parts):
        scores = part["x"] @ x["weight"] + x["bias"]
        losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(scores)), part["y"]]
        a = part["sample_weight"] * per_class[part["y"]]
        assert problem.client_value_and_gradient(i, x)[0] == pytest.approx(float(a @ losses / a.sum()), rel=1e-10)
    assert problem.client_weights.tolist() == pytest.approx([1 / 3] * 3)


def test_known_curvature_bounds_the_weighted_loss() -> None:
    import jax

    parts = clients()
    problem = feddr.Problem.classification(feddr.models.linear(3), feddr.FederatedData.from_clients(parts))
    for i in range(len(parts)):
        samples = problem.data.client(i)
        s: Any = samples["sample_weight"]
        assert np.mean(s) == pytest.approx(1.0)
        design = np.column_stack([samples["x"], np.ones(len(s))])
        with jax.enable_x64(True):
            hessian = 0.25 * (design * s[:, None]).T @ design / len(s)
        bounds = problem.known_curvature(i)
        assert bounds is not None
        assert bounds[1] == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-9)


def test_a_run_uses_the_weights() -> None:
    """A sample of weight 0 is as good as none."""
    parts = clients()
    for part in parts:
        part["sample_weight"][::3] = 0.0
    kept = [{name: a[part["sample_weight"] > 0] for name, a in part.items()} for part in parts]
    found = []
    for given in (parts, kept):
        problem = feddr.Problem.classification(
            feddr.models.linear(3), feddr.FederatedData.from_clients(given), weights="samples"
        )
        result = feddr.simulate(
            problem,
            feddr.FedAvg(),
            local=feddr.local.SGD(0.1, epochs=2, batch_size=None),
            rounds=4,
            precision="float64",
        )
        found.append(result.params["weight"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_classes_are_named_as_in_the_data() -> None:
    x = np.arange(6.0)[:, None]
    data = feddr.FederatedData.from_arrays(x, ["no", "yes"] * 3, partition="iid", num_clients=2, test_share=0.3)
    found, _ = weighted(data, "uniform", {"yes": 3.0}, 2)
    for part, plain in ((found.train, data.train), (found.test, data.test)):
        assert part is not None
        assert plain is not None
        for i in range(2):
            y, s = plain.client(i)["y"], part.client(i)["sample_weight"]
            raw = np.where(y == 1, 3.0, 1.0)
            assert s == pytest.approx(raw * len(raw) / raw.sum() if len(raw) else raw)
    with pytest.raises(ValueError, match="class_weight must name classes, 'no', 'yes', got 'maybe'"):
        weighted(data, "uniform", {"maybe": 1.0}, 2)
    with pytest.raises(ValueError, match=r"finite and not negative, got -1\.0 for 'no'"):
        weighted(data, "uniform", {"no": -1.0}, 2)
    with pytest.raises(ValueError, match="class_weight must be \"balanced\" or a weight for each class, got 'equal'"):
        weighted(data, "uniform", "equal", 2)  # type: ignore[arg-type]


def test_samples_made_on_demand_have_weights() -> None:
    parts = clients()
    data = feddr.FederatedData.generated(lambda i: parts[i], SIZES, panel=[1])
    found, weights = weighted(data, "uniform")
    assert weights == "uniform"
    whole, _ = weighted(feddr.FederatedData.from_clients(parts), "uniform")
    for i in range(3):
        assert found.client(i)["sample_weight"].tolist() == pytest.approx(whole.client(i)["sample_weight"].tolist())
    assert found.train.samples["sample_weight"].tolist() == whole.client(1)["sample_weight"].tolist()
    with pytest.raises(ValueError, match='weights="samples" needs the sample weights of all clients'):
        weighted(data, "samples")
    with pytest.raises(ValueError, match='class_weight="balanced" counts the labels of all clients'):
        weighted(data, "uniform", "balanced", 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "must be one finite number >= 0 a sample, .* least of -1"),
        ([1.0, np.nan], "must be one finite number"),
        ([0.0, 0.0], "a sample of positive weight, client 0 has none"),
        ([[1.0], [1.0]], r"got shape \(2, 1\)"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, message: str) -> None:
    data = feddr.FederatedData.from_clients([{"x": np.ones((2, 1)), "y": [0, 1], "sample_weight": weights}])
    with pytest.raises(ValueError, match=message):
        weighted(data, "uniform")


def test_arrays_that_are_not_used_are_named() -> None:
    rows: dict[str, Any] = {"x": np.ones((2, 1)), "y": [0, 1]}
    model = feddr.models.linear(1)
    with pytest.warns(UserWarning, match="The arrays age are not used by the loss; leave them out"):
        feddr.Problem.classification(model, feddr.FederatedData.from_clients([{**rows, "age": [1, 2]}]))
    weighted_rows = feddr.FederatedData.from_clients([{**rows, "sample_weight": [1.0, 2.0]}])
    with pytest.warns(UserWarning, match="The array sample_weight is not used by the loss"):
        feddr.Problem(lambda w, batch: (batch["x"] @ w - batch["y"]) ** 2, weighted_rows, np.zeros(1))
    feddr.Problem(lambda w, b: b["sample_weight"] * (b["x"] @ w - b["y"]) ** 2, weighted_rows, np.zeros(1))


def test_labels_in_a_column_are_refused() -> None:
    data = feddr.FederatedData.from_clients([{"x": np.ones((2, 1)), "y": np.ones((2, 1))}])
    for make in (feddr.Problem.classification, feddr.Problem.regression):
        with pytest.raises(ValueError, match=r"needs one label a sample, .*y of shape \(2, 1\); use y\[:, 0\]"):
            make(feddr.models.linear(1), data)
