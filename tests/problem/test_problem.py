from pathlib import Path
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

import feddr
from feddr import tree
from feddr.tree import Tree


def client_means(problem: feddr.Problem, x: Tree) -> list[float]:
    return [problem.client_value_and_gradient(i, x)[0] for i in range(problem.data.num_clients)]


@pytest.mark.parametrize("weights", ["uniform", "samples", [1.0, 2.0, 3.0, 4.0]])
def test_f_is_the_weighted_mean_of_client_means(class_data: feddr.FederatedData, weights: Any) -> None:
    problem = feddr.Problem.classification(feddr.models.mlp([5, 4, 3]), class_data, weights=weights)
    assert problem.client_weights.sum() == pytest.approx(1.0, abs=1e-15)
    x = problem.init
    assert problem.f(x) == pytest.approx(float(problem.client_weights @ client_means(problem, x)), rel=1e-13)
    gradients = [problem.client_value_and_gradient(i, x)[1] for i in range(4)]
    mean = tree.map(lambda *leaves: np.tensordot(problem.client_weights, np.stack(leaves), 1), *gradients)
    assert tree.norm(tree.sub(problem.gradient(x), mean)) < 1e-13


def test_weights_by_samples_is_the_pooled_mean(class_data: feddr.FederatedData) -> None:
    problem = feddr.Problem.classification(feddr.models.softmax(5, 3), class_data, weights="samples")
    # At zero every class has probability 1/3, whatever the sample.
    assert problem.f(problem.init) == pytest.approx(np.log(3), rel=1e-14)


def test_binary_and_softmax_cross_entropy_agree(class_data: feddr.FederatedData) -> None:
    """Logistic regression with scores (0, s) for two classes is logistic regression with score s."""
    part = class_data.train
    clients = [{"x": part.client(i)["x"], "y": part.client(i)["y"] % 2} for i in range(4)]
    data = feddr.FederatedData.from_clients(clients)
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=5), rng.normal()
    one = feddr.Problem.classification(feddr.models.linear(5), data)
    two = feddr.Problem.classification(feddr.models.softmax(5, 2), data)
    x1 = {"weight": weight, "bias": np.asarray(bias)}
    x2 = {"weight": np.stack([0 * weight, weight], axis=1), "bias": np.array([0.0, bias])}
    assert one.F(x1) == pytest.approx(two.F(x2), rel=1e-13)


def test_gradient_is_that_of_f(class_data: feddr.FederatedData) -> None:
    problem = feddr.Problem.classification(feddr.models.mlp([5, 4, 3], "tanh"), class_data, g=feddr.prox.L1(0.1))
    rng = np.random.default_rng(1)
    v = tree.map(lambda a: rng.normal(size=a.shape), problem.init)
    h = 1e-6
    ahead, behind = tree.axpy(h, v, problem.init), tree.axpy(-h, v, problem.init)
    slope = sum(
        float(np.vdot(a, b)) for a, b in zip(tree.leaves(problem.gradient(problem.init)), tree.leaves(v), strict=True)
    )
    assert (problem.f(ahead) - problem.f(behind)) / (2 * h) == pytest.approx(slope, rel=1e-6)


def test_gradient_mapping_is_the_gradient_without_g_and_zero_at_a_lasso_solution() -> None:
    # minimise (x - 3)^2 / 2 + |x|: the solution is 2.
    data = feddr.FederatedData.from_clients([{"y": np.array([3.0])}])

    def loss(params: Any, batch: Any) -> Any:
        return 0.5 * (params - batch["y"]) ** 2

    plain = feddr.Problem(loss, data, np.zeros(()))
    assert plain.gradient_mapping(np.asarray(1.0)) == pytest.approx(-2.0)
    lasso = feddr.Problem(loss, data, np.zeros(()), feddr.prox.L1(1.0))
    for eta in (0.1, 1.0, 5.0):
        assert abs(lasso.gradient_mapping(np.asarray(2.0), eta)) < 1e-14
        assert abs(lasso.gradient_mapping(np.asarray(2.5), eta)) > 0.1


def two(**arrays: Any) -> feddr.FederatedData:
    return feddr.FederatedData.from_clients([arrays, arrays])


@pytest.mark.parametrize(
    ("y", "message"),
    [([0, 3], "client 0 has the label 3"), ([-1, 0], "label -1"), ([0.5, 1], "label 0.5")],
)
def test_labels_out_of_range_name_the_client(y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        feddr.Problem.classification(feddr.models.softmax(1, 3), two(x=np.ones((2, 1)), y=np.array(y)))


def test_a_bad_label_in_a_later_client_or_test_part_is_found() -> None:
    good, bad = {"x": np.ones((2, 1)), "y": np.array([0, 1])}, {"x": np.ones((2, 1)), "y": np.array([0, 7])}
    with pytest.raises(ValueError, match="train client 1 has the label 7"):
        feddr.Problem.classification(feddr.models.softmax(1, 3), feddr.FederatedData.from_clients([good, bad]))
    data = feddr.FederatedData.from_clients([good, good], [good, bad])
    with pytest.raises(ValueError, match="test client 1 has the label 7"):
        feddr.Problem.classification(feddr.models.softmax(1, 3), data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": "equal"}, "'equal'"),
        ({"weights": [1.0]}, "2 positive numbers"),
        ({"weights": [1.0, -1.0]}, "2 positive numbers"),
        ({"weights": [1.0, np.nan]}, "2 positive numbers"),
        ({"init": np.array([np.nan])}, "NaN"),
        ({"curvature": (1.0, -1.0)}, "l <= L"),
        ({"loss": lambda params, batch: (batch["x"] @ params).mean()}, "do not average"),
        ({"correct": lambda params, batch: True * (batch["x"] @ params).mean()}, "correct must return one value"),
    ],
)
def test_bad_problems_are_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "loss": lambda params, batch: batch["x"] @ params,
        "data": two(x=np.ones((2, 1))),
        "init": np.zeros(1),
    }
    with pytest.raises(ValueError, match=message):
        feddr.Problem(**(arguments | change))


@pytest.mark.parametrize(
    "make",
    [
        lambda: feddr.models.mlp([3]),
        lambda: feddr.models.mlp([3, 0]),
        lambda: feddr.models.mlp([3, 2], "sine"),
        lambda: feddr.models.linear(-1),
    ],
)
def test_bad_models_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"width|activation"):
        make()


@pytest.mark.parametrize(
    "precisions", [["float64"], pytest.param(["float32", "float64", "float32"], marks=pytest.mark.slow)]
)
def test_a_loss_may_refer_to_arrays_in_either_precision(precisions: list[str]) -> None:
    rng, offset = np.random.default_rng(0), np.array([0.5, -1.0, 2.0])
    clients = [{"x": rng.normal(size=(n, 3)), "y": rng.normal(size=n)} for n in (5, 9)]
    data = feddr.FederatedData.from_clients(clients)

    def loss(params: Any, batch: Any) -> Any:
        return 0.5 * (batch["x"] @ (params + offset) - batch["y"]) ** 2

    for precision in precisions:
        problem = feddr.Problem(loss, data, np.zeros(3))
        local = feddr.local.SGD(lr=0.1, epochs=300, batch_size=None)
        found = feddr.simulate(problem, feddr.FedDR(eta=1.0), local=local, rounds=300, precision=precision).params
        x, y = (np.concatenate([client[name] / np.sqrt(len(client["y"])) for client in clients]) for name in "xy")
        solution = np.linalg.lstsq(x, y)[0] - offset
        np.testing.assert_allclose(found, solution, rtol=1e-3 if precision == "float32" else 1e-9)


def squares(init: Any, **settings: Any) -> feddr.Problem:
    data = feddr.FederatedData.from_clients([{"y": np.array([2.5, 1.5])}, {"y": np.array([3.0])}])
    return feddr.Problem(lambda params, batch: 0.5 * (params["a"] - batch["y"]) ** 2, data, {"a": init}, **settings)


@pytest.mark.parametrize(
    "three",
    [3, 3.0, np.array(3), np.array(3, np.int8), np.array(3, np.uint64), jnp.asarray(3), np.array(3, object)],
)
def test_a_problem_is_what_it_is_at_whole_numbers(three: Any) -> None:
    problem = squares(np.zeros(()), g=feddr.prox.L1(0.3))
    x, real = {"a": three}, {"a": np.array(3.0)}
    assert problem.f(x) == problem.f(real) == 0.5 * (0.5 * (0.25 + 2.25) / 2 + 0.0)
    assert problem.F(x) == problem.F(real) > 1.0
    assert problem.gradient(x) == problem.gradient(real) == {"a": 0.5}
    assert problem.client_value_and_gradient(0, x) == (0.625, {"a": 1.0})
    assert problem.gradient_mapping(x) == problem.gradient_mapping(real)
    assert problem.gradient_mapping(x)["a"].dtype == np.float64
    found = feddr.problem.gradient_mapping(problem.regulariser, x, {"a": 0.5}, 1.0)
    assert found["a"] == pytest.approx(0.8, abs=1e-15)


@pytest.mark.parametrize(
    "init", [3, np.array(3), np.array(True), np.array(3, np.float16), np.array(3, ml_dtypes.bfloat16)]
)
def test_a_start_of_any_type_of_number_becomes_real(init: Any) -> None:
    problem = squares(init)
    assert problem.init["a"].dtype in (np.float32, np.float64)
    assert problem.init["a"] == float(init)
    assert problem.F(problem.init) == squares(np.asarray(float(init))).F({"a": np.asarray(float(init))})


def test_a_start_of_real_numbers_is_taken_as_it_is() -> None:
    for dtype in (np.float32, np.float64):
        init = np.zeros((), dtype)
        assert squares(init).init["a"] is init


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.array(1j), "The parameter a must be real or whole numbers, got complex128"),
        (np.array("b"), "The parameter a must be real or whole numbers, got <U1"),
        (np.array(None), "The parameter a must be real or whole numbers, got objects of type NoneType"),
        (np.array(np.inf), "The start must be finite, init holds a NaN or infinity"),
        (np.zeros((0, 3)), "A start needs at least one number"),
        ({}, "A start needs at least one number"),
        ({"d": {"e": 0.0}, "d.e": 0.0}, r"Parameters need names of their own, got a\.d\.e twice; rename"),
    ],
)
def test_a_start_that_is_none_is_refused(init: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        squares(init)


def test_accuracy_at_whole_numbers() -> None:
    data = two(x=np.array([[0.4], [-0.4]]), y=[1, 0])
    problem = feddr.Problem.classification(feddr.models.linear(1), data)
    x = {"weight": np.array([1]), "bias": np.array(0)}
    assert problem.accuracy(x, data.train) == 1.0


@pytest.mark.parametrize("largest", [1e308, 1e-308, 5e-324])
def test_weights_of_any_size_are_scaled(largest: float) -> None:
    weights = squares(0.0, weights=[largest, largest]).client_weights
    np.testing.assert_array_equal(weights, [0.5, 0.5])
    np.testing.assert_allclose(squares(0.0, weights=[1e308, 3e307]).client_weights, [1 / 1.3, 0.3 / 1.3], rtol=1e-15)


def test_weights_that_vanish_beside_others_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights must be numbers that can be added up, got 1e-308 beside 1e\+308"):
        squares(0.0, weights=[1e308, 1e-308])
    with pytest.raises(ValueError, match="weights must be real or whole numbers, got complex128"):
        squares(0.0, weights=np.array([1j, 1.0]))


def test_a_saved_model_has_the_shapes_of_the_parameters(tmp_path: Path) -> None:
    problem = squares(np.zeros(()))
    result = feddr.reference(problem, feddr.FedAvg(), local=feddr.local.SGD(lr=0.1), rounds=1)
    found = load_file(result.save(tmp_path) / "model.safetensors")
    assert found["a"].shape == result.params["a"].shape == ()
    assert found["a"] == result.params["a"]


def test_a_problem_knows_its_model_and_what_it_is_for(class_data: feddr.FederatedData) -> None:
    model = feddr.models.mlp([5, 4, 3], activation="tanh")
    problem = feddr.Problem.classification(model, class_data)
    assert problem.model is model
    assert problem.task == "classification"
    assert model.spec == {"name": "mlp", "sizes": [5, 4, 3], "activation": "tanh"}
    assert feddr.models.linear(5).spec == {"name": "linear", "num_features": 5}
    assert feddr.models.softmax(5, 3).spec == {"name": "softmax", "num_features": 5, "num_classes": 3}
    assert feddr.Problem.regression(feddr.models.linear(5), class_data).task == "regression"
