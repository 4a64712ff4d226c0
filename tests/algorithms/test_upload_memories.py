"""Compressed uploads of methods with a memory of their own, and of those that keep one beside: the same limit."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.compress import Compressor, Quantised, RandomK, Rounded, TopK
from feddr.testing import check_algorithm
from tests.algorithms.test_uploads import least_squares, pooled_lasso

FOUR = Quantised(4)
METHODS: list[Algorithm] = [  # the first two always, the others among the slow tests
    feddr.FedNova(upload=FOUR),
    feddr.FedDecoupled(upload=FOUR),
    feddr.FedMid(upload=FOUR),
    feddr.FedMid(proximal="server", upload=TopK(0.4)),
    feddr.FedDualAvg(upload=FOUR),
    feddr.FedDualAvg(upload=RandomK(0.5)),
    feddr.Scaffnew(p=0.2, upload=FOUR),
    feddr.CA2FL(buffer=2, upload=FOUR),
    feddr.MimeLite(upload=FOUR),
]
COMPRESSORS = [FOUR, TopK(0.2), Quantised(2), RandomK(0.4), TopK(0.4, Quantised(3)), Rounded("bfloat16")]


@pytest.mark.parametrize(
    "method", [*METHODS[:2], *(pytest.param(method, marks=pytest.mark.slow) for method in METHODS[2:])], ids=repr
)
def test_the_laws_of_algorithms_hold(method: Algorithm) -> None:
    check_algorithm(method)


def play(problem: feddr.Problem, method: Algorithm, rounds: int, **more: Any) -> feddr.Result:
    settings: dict[str, Any] = {"local": feddr.local.SGD(0.05, epochs=4, batch_size=None)} | more
    return feddr.simulate(problem, method, rounds=rounds, evaluate_every=rounds, precision="float64", **settings)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_feddecoupled_reaches_the_pooled_lasso_with_every_compressor(compressor: Compressor) -> None:
    problem = least_squares(feddr.prox.L1(0.1))
    result = play(problem, feddr.FedDecoupled(upload=compressor), 300)
    np.testing.assert_allclose(result.params, pooled_lasso(problem, 0.1), atol=1e-6)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_scaffnew_reaches_the_joint_solution_with_every_compressor(compressor: Compressor) -> None:
    problem = least_squares()
    samples = problem.data.train.samples
    x, y = np.asarray(samples["x"], np.float64), np.asarray(samples["y"], np.float64)
    exact = np.linalg.lstsq(x, y)[0]
    result = play(problem, feddr.Scaffnew(p=0.25, upload=compressor), 300)
    np.testing.assert_allclose(result.params, exact, atol=1e-6)


def mean_of(result: feddr.Result, name: str) -> float:
    """Return ||sum_i w_i v_i|| of a variable of the clients, over its size."""
    values = {i: np.asarray(getattr(c, name)) for i, c in result.state.clients.items()}
    weights = result.problem.client_weights
    size = max(np.abs(value).max() for value in values.values())
    return float(np.abs(sum(weights[i] * value for i, value in values.items())).max() / size)


def test_control_variates_of_scaffnew_sum_to_zero_because_they_follow_what_is_counted() -> None:
    problem = least_squares()
    result = play(problem, feddr.Scaffnew(p=0.25, upload=Quantised(2)), 7)
    assert mean_of(result, "control") < 1e-13
    counted = sum(w * result.state.clients[i].x for i, w in enumerate(problem.client_weights))
    np.testing.assert_allclose(result.state.server.xbar, counted, atol=1e-13)


def test_the_memory_of_ca2fl_is_the_mean_of_what_is_counted() -> None:
    problem = least_squares()
    result = feddr.simulate_async(
        problem,
        feddr.CA2FL(buffer=2, server_lr=0.3, upload=TopK(0.4)),
        local=feddr.local.SGD(0.05, batch_size=None),
        updates=30,
        precision="float64",
    )
    total = sum(problem.client_weights[i] * c.change for i, c in result.state.clients.items())
    np.testing.assert_allclose(result.state.server.memory, total, atol=1e-13)


@pytest.mark.parametrize(
    "method",
    [feddr.FedMid(), feddr.FedMid(proximal="server"), feddr.FedDualAvg(), feddr.FedNova(), feddr.MimeLite(beta=0.5)],
    ids=repr,
)
def test_what_is_left_out_is_made_up_for(method: Any) -> None:
    """Over many rounds the largest number of five gets about as far as all of them; without a memory it would not."""
    problem = least_squares(feddr.prox.L1(0.05) if method.composite else None)
    local = feddr.local.SGD(0.02, epochs=1, batch_size=None)
    plain = play(problem, method, 200, local=local)
    fields: dict[str, Any] = {"upload": TopK(0.2)}
    compressed = play(problem, dataclasses.replace(method, **fields), 200, local=local)
    far = tree.norm(tree.sub(plain.params, problem.init))
    assert tree.norm(tree.sub(compressed.params, plain.params)) < 0.05 * far


def test_a_length_travels_as_it_is_beside_the_compressed_part() -> None:
    problem = least_squares()
    like = tree.cast(problem.init, np.float64)
    for method in (feddr.FedNova, feddr.FedMid, feddr.FedDualAvg, feddr.FedDecoupled):
        result = play(problem, method(upload=FOUR), 2)
        assert result.history.last.bytes_up == 2 * 6 * (len(FOUR.encode(like)) + 8), method
    assert play(problem, feddr.Scaffnew(0.2, upload=FOUR), 2).history.last.bytes_up == 2 * 6 * len(FOUR.encode(like))
    both = play(problem, feddr.MimeLite(upload=FOUR), 2).history.last.bytes_up
    assert both == 2 * 6 * 2 * len(FOUR.encode(like))


@pytest.mark.parametrize(
    "method", [feddr.FedMid(), feddr.FedDualAvg(), feddr.FedDecoupled(), feddr.FedNova()], ids=repr
)
def test_names_of_runs_without_compression_stay(method: Algorithm) -> None:
    assert "load" not in repr(method)


def test_methods_whose_clients_need_the_mean_itself_have_no_download() -> None:
    for name in ("Scaffnew", "FedDecoupled"):
        table = {"name": name, "download": {"name": "Rounded"}, **({"p": 0.2} if name == "Scaffnew" else {})}
        with pytest.raises(feddr.config.ConfigError, match=f"download is not a setting of {name}"):
            feddr.config.parse({**feddr.config.schema.EXAMPLE, "algorithm": [table]})
