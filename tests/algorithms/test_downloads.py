"""Rounded broadcasts: clients of all engines read the same model, bytes are those of messages, metrics are at xbar."""

from typing import Any

import numpy as np
import pytest

import feddr
from feddr import tree
from feddr.algorithms import Algorithm
from feddr.compress import Compressor, Nonzero, Quantised, RandomK, Rounded, TopK
from feddr.testing import check_algorithm
from tests.algorithms.test_uploads import least_squares

HALF, EIGHT = Rounded("float16"), Quantised(8)
WAYS: list[Compressor] = [HALF, Rounded("bfloat16"), EIGHT, Nonzero(), Nonzero(HALF), Nonzero(EIGHT)]
LOCAL = feddr.local.SGD(lr=0.05, epochs=2)
METHODS: list[Algorithm] = [  # the first always, the others among the slow tests
    feddr.FedDR(eta=1.0, alpha=1.1, init="joining", mean="active", upload=Quantised(4), download=HALF),
    feddr.AsyncFedDR(eta=1.0, alpha=1.2, init="lazy", mean="all", download=EIGHT),
    feddr.FedAvg(download=Nonzero(HALF)),
    feddr.Scaffold(download=EIGHT),
    feddr.FedPD(eta=1.0, download=Rounded("bfloat16")),
    feddr.FedAdam(download=HALF),
    feddr.FedMid(download=Nonzero(HALF)),
    feddr.FedDualAvg(upload=Quantised(4), download=HALF),
    feddr.FedNova(download=EIGHT),
    feddr.MimeLite(download=Rounded("bfloat16")),
    feddr.CA2FL(buffer=2, upload=Quantised(4), download=EIGHT),
]


@pytest.mark.parametrize(
    "method", [*METHODS[:1], *(pytest.param(method, marks=pytest.mark.slow) for method in METHODS[1:])], ids=repr
)
def test_the_laws_of_algorithms_hold(method: Algorithm) -> None:
    check_algorithm(method)


@pytest.mark.parametrize("download", WAYS, ids=str)
def test_engines_agree_and_count_the_bytes_of_the_messages(download: Compressor) -> None:
    problem = least_squares(feddr.prox.L1(0.3))
    method = feddr.FedDR(eta=0.3, alpha=1.0, download=download)
    read: list[Any] = []
    arguments: dict[str, Any] = {"rounds": 5, "evaluate_every": 1, "sampling": feddr.sampling.Uniform(3), "seed": 3}
    plain = feddr.reference(problem, method, local=LOCAL, precision="float64", **arguments)
    fast = feddr.simulate(
        *(problem, method),
        local=LOCAL,
        precision="float64",
        callback=lambda progress: read.append(progress.state.server.xbar),
        **arguments,
    )
    np.testing.assert_allclose(fast.params, plain.params, rtol=0, atol=1e-12)
    assert [row.bytes_down for row in fast.history.rows] == [row.bytes_down for row in plain.history.rows]
    messages = [len(download.encode(xbar)) for xbar in read[:-1]]
    assert fast.history.last.bytes_down == 3 * sum(messages)
    F = problem.F(fast.state.server.xbar)
    assert pytest.approx(F, rel=1e-12) == fast.history.last.F, "a metric is at the server's own xbar"


def test_clients_read_the_rounded_model() -> None:
    """With alpha = 1 and x_i = y_i, y_i becomes the model that was read."""
    problem = least_squares()
    method = feddr.FedDR(eta=1.0, alpha=1.0, init="joining", mean="all", download=Quantised(2))
    problem = problem.starting_at(np.array([1.0, 0.3, -0.8, 0.1, -0.4]))
    result = feddr.simulate(problem, method, local=LOCAL, rounds=1, precision="float64")
    for c in result.state.clients.values():
        np.testing.assert_array_equal(c.y, [1.0, 0.0, -1.0, 0.0, 0.0])


@pytest.mark.parametrize("download", [HALF, Nonzero()], ids=str)
def test_the_network_of_the_clock_has_the_bytes_of_the_messages(download: Compressor) -> None:
    """Computing takes no time, so all of it is on the wire."""
    problem = least_squares(feddr.prox.L1(0.3))
    method = feddr.FedDR(eta=0.3, alpha=1.0, upload=Quantised(4), download=download)
    delays = feddr.delays.Combined([feddr.delays.Fixed(1e-12), feddr.delays.Network(latency=0.0, bandwidth=1.0)])
    result = feddr.simulate(problem, method, local=LOCAL, rounds=4, clock=feddr.Clock(delays), evaluate_every=1)
    last, clients = result.history.last, problem.data.num_clients
    assert last.time == pytest.approx((last.bytes_up + last.bytes_down) / clients, rel=1e-9)


@pytest.mark.parametrize("download", [HALF, Nonzero()], ids=str)
def test_an_asynchronous_run_resumes_with_the_bytes_that_its_jobs_began_with(
    tmp_path: Any, download: Compressor
) -> None:
    problem = least_squares(feddr.prox.L1(0.3))
    method = feddr.AsyncFedDR(eta=0.3, alpha=1.1, download=download)
    delays = feddr.delays.Combined([feddr.delays.UniformSpeed(1.0, 2.0), feddr.delays.Network(bandwidth=50.0)])
    arguments: dict[str, Any] = {"local": LOCAL, "clock": feddr.Clock(delays), "evaluate_every": 4}
    whole = feddr.simulate_async(problem, method, updates=12, **arguments)
    feddr.simulate_async(problem, method, updates=6, checkpoint=feddr.Checkpoint(tmp_path), **arguments)
    again = feddr.simulate_async(
        problem, method, updates=12, checkpoint=feddr.Checkpoint(tmp_path, resume=True), **arguments
    )
    assert tree.norm(tree.sub(again.params, whole.params)) == 0
    assert again.history.last.bytes_down == whole.history.last.bytes_down
    assert again.history.last.time == whole.history.last.time
    assert again.events == whole.events


@pytest.mark.parametrize("download", [TopK(0.5), RandomK(0.5), Quantised(8, stochastic=True), "float16"], ids=str)
def test_what_does_not_round_is_refused(download: Any) -> None:
    with pytest.raises(ValueError, match="download must be Rounded"):
        feddr.simulate(least_squares(), feddr.FedDR(download=download), local=LOCAL, rounds=1)


@pytest.mark.parametrize("upload", [Nonzero(), 4], ids=str)
def test_an_upload_has_one_length(upload: Any) -> None:
    with pytest.raises(ValueError, match="upload must be Quantised, Rounded, TopK or RandomK"):
        feddr.simulate(least_squares(), feddr.FedDR(upload=upload), local=LOCAL, rounds=1)


@pytest.mark.parametrize("download", [None, HALF, EIGHT], ids=str)
def test_where_a_rounded_read_comes_to_rest(download: Compressor | None) -> None:
    """At a q on the grid from which a gradient step of length eta leads nowhere else: q = round(q - eta grad f(q)).

    Everybody takes part, with a certified prox. All x_i are then q, what is read, and xbar = q - eta grad f(q).
    """
    problem, eta = least_squares(), 0.3
    result = feddr.simulate(
        *(problem, feddr.FedDR(eta=eta, alpha=1.0, download=download)),
        local=feddr.local.Accelerated(tol=1e-12),
        rounds=200,
        precision="float64",
    )
    xbar, samples = result.state.server.xbar, problem.data.train.samples
    q = xbar if download is None else download.compress(xbar)
    gradient = samples["x"].T @ (samples["x"] @ q - samples["y"]) / len(samples["y"])
    for c in result.state.clients.values():
        np.testing.assert_allclose(c.x, q, atol=1e-9)
    np.testing.assert_allclose(xbar, q - eta * gradient, atol=1e-9)
    assert (np.linalg.norm(gradient) < 1e-9) == (download is None)
