"""The rules on problems with known answers, and what each method refuses."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import feddr
from feddr.algorithms import Algorithm
from tests.conftest import make_regression


def squares(params: Any, batch: Any) -> Any:
    return 0.5 * (batch["x"] @ params - batch["y"]) ** 2


def problem(weights: str = "samples", g: feddr.prox.Regulariser | None = None) -> feddr.Problem:
    return feddr.Problem(squares, make_regression((9, 30, 14), 3, seed=11), np.zeros(3), g, weights)


def solution(p: feddr.Problem) -> Any:
    """The pooled weighted least-squares solution."""
    samples: Any = p.data.train.samples
    root = np.sqrt(p.sample_weights)
    return np.linalg.lstsq(samples["x"] * root[:, None], samples["y"] * root, rcond=None)[0]


EXACT: list[Algorithm] = [
    feddr.FedDR(eta=1.0, alpha=1.5),
    feddr.FedPD(eta=1.0),
    feddr.FedSplit(eta=1.0),
    feddr.Scaffold(),
    feddr.FedDyn(eta=1.0),
]


@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("algorithm", EXACT, ids=repr)
def test_methods_without_client_drift_reach_the_pooled_solution(algorithm: Algorithm, weights: str) -> None:
    """Several local steps on different clients, and still the joint solution: FedAvg and FedProx cannot."""
    p = problem(weights)
    local = feddr.local.SGD(lr=0.1, epochs=10, batch_size=None)
    result = feddr.simulate(p, algorithm, local=local, rounds=400, precision="float64", evaluate_every=400)
    assert np.max(np.abs(result.params - solution(p))) < 1e-8


@pytest.mark.parametrize("algorithm", [feddr.FedAvg(), feddr.FedProx(mu=0.5)], ids=repr)
def test_fedavg_and_fedprox_settle_elsewhere(algorithm: Algorithm) -> None:
    p = problem()
    local = feddr.local.SGD(lr=0.1, epochs=10, batch_size=None)
    result = feddr.simulate(p, algorithm, local=local, rounds=400, precision="float64", evaluate_every=400)
    distance = np.max(np.abs(result.params - solution(p)))
    assert 1e-3 < distance < 1.0


def test_fedavg_with_one_full_gradient_step_is_gradient_descent() -> None:
    p = problem()
    local = feddr.local.SGD(lr=0.1, epochs=1, batch_size=None)
    result = feddr.simulate(p, feddr.FedAvg(), local=local, rounds=20, precision="float64")
    x = np.zeros(3)
    for _ in range(20):
        x = x - 0.1 * p.gradient(x)
    assert np.max(np.abs(result.params - x)) < 1e-13


def test_fedavg_averages_over_the_active_clients_only() -> None:
    """With one active client, xbar is that client's model."""
    p = problem()
    local = feddr.local.SGD(lr=0.1, epochs=2000, batch_size=None)
    scheme = feddr.sampling.Uniform(1)
    result = feddr.simulate(p, feddr.FedAvg(), local=local, sampling=scheme, rounds=1, precision="float64")
    (client,) = result.state.updates
    samples: Any = p.data.train.client(client)
    own = np.linalg.lstsq(samples["x"], samples["y"], rcond=None)[0]
    assert np.max(np.abs(result.params - own)) < 1e-4


def test_scaffold_keeps_its_bookkeeping_law() -> None:
    """The server's control variate is the weighted sum of the clients', also when only some take part."""
    p = problem()
    result = feddr.simulate(
        p,
        feddr.Scaffold(),
        local=feddr.local.SGD(lr=0.02, epochs=2, batch_size=5),
        sampling=feddr.sampling.Uniform(2),
        rounds=30,
    )
    total = sum(p.client_weights[i] * c.control.astype(np.float64) for i, c in result.state.clients.items())
    assert np.max(np.abs(result.state.server.control - total)) < 1e-13


@pytest.mark.parametrize(
    "algorithm",
    [
        feddr.FedAvg(),
        feddr.FedProx(mu=1.0),
        feddr.FedPD(eta=1.0),
        feddr.FedSplit(eta=1.0),
        feddr.Scaffold(),
        feddr.Scaffnew(p=0.5),
        feddr.FedNova(),
        feddr.MimeLite(),
        feddr.FedDyn(eta=1.0),
        feddr.FedOpt(optax.sgd(1.0)),
        feddr.FedAvgM(),
        feddr.FedAdam(),
        feddr.FedYogi(),
        feddr.FedAdagrad(),
    ],
    ids=repr,
)
def test_methods_without_composite_step_say_so(algorithm: Algorithm) -> None:
    name = type(algorithm).__name__
    message = rf"{name} has no composite step, got g=L1\(strength=0.01\); use FedDR, FedMid or FedDualAvg, or g=None."
    with pytest.raises(ValueError, match=message):
        feddr.simulate(problem(g=feddr.prox.L1(0.01)), algorithm, local=feddr.local.SGD(lr=0.1), rounds=1)


@pytest.mark.parametrize(
    "algorithm", [feddr.FedPD(eta=1.0), feddr.FedSplit(eta=1.0), feddr.FedDecoupled(), feddr.Scaffnew(p=0.5)], ids=repr
)
def test_methods_that_need_everybody_say_so(algorithm: Algorithm) -> None:
    with pytest.raises(ValueError, match=r"needs every client in every round, got Uniform\(m=2\)"):
        feddr.simulate(
            problem(), algorithm, local=feddr.local.SGD(lr=0.1), rounds=1, sampling=feddr.sampling.Uniform(2)
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: feddr.FedDR(eta=0.0),
        lambda: feddr.FedDR(eta=float("inf")),
        lambda: feddr.FedDR(eta=1.0, alpha=0.0),
        lambda: feddr.FedDR(eta=1.0, alpha=2.1),
        lambda: feddr.FedDR(eta=1.0, init="zeros"),
        lambda: feddr.FedProx(mu=0.0),
        lambda: feddr.FedPD(eta=-1.0),
        lambda: feddr.FedSplit(eta=float("nan")),
        lambda: feddr.Scaffold(server_lr=0.0),
        lambda: feddr.FedMid(server_lr=-1.0),
        lambda: feddr.FedMid(proximal="nowhere"),  # type: ignore[arg-type]
        lambda: feddr.FedDualAvg(server_lr=float("inf")),
        lambda: feddr.FedDecoupled(server_lr=0.0),
        lambda: feddr.FedNova(server_lr=0.0),
        lambda: feddr.Scaffnew(p=0.0),
        lambda: feddr.Scaffnew(p=1.1),
        lambda: feddr.local.Geometric(lr=0.1, p=0.0),
        lambda: feddr.local.Geometric(lr=0.1, p=0.5, seed=-1),
        lambda: feddr.MimeLite(beta=1.0),
        lambda: feddr.MimeLite(beta=-0.1),
        lambda: feddr.FedDyn(eta=0.0),
        lambda: feddr.FedDyn(eta=float("inf")),
        lambda: feddr.FedOpt("adam"),
        lambda: feddr.FedAvgM(server_lr=0.0),
        lambda: feddr.FedAvgM(momentum=1.0),
        lambda: feddr.FedAdam(server_lr=float("nan")),
        lambda: feddr.FedAdam(b1=-0.1),
        lambda: feddr.FedYogi(b2=1.0),
        lambda: feddr.FedYogi(tau=0.0),
        lambda: feddr.FedAdagrad(tau=float("inf")),
    ],
)
def test_bad_hyper_parameters_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda v: feddr.FedDR(eta=v, alpha=1.0), "eta"),
        (lambda v: feddr.FedDR(eta=1.0, alpha=v), "alpha"),
        (lambda v: feddr.FedProx(mu=v), "mu"),
        (lambda v: feddr.FedDyn(eta=v), "eta"),
        (lambda v: feddr.FedPD(eta=v), "eta"),
        (lambda v: feddr.FedSplit(eta=v), "eta"),
        (lambda v: feddr.Scaffold(server_lr=v), "server_lr"),
        (lambda v: feddr.FedMid(server_lr=v), "server_lr"),
        (lambda v: feddr.FedDualAvg(server_lr=v), "server_lr"),
        (lambda v: feddr.FedDecoupled(server_lr=v), "server_lr"),
        (lambda v: feddr.FedNova(server_lr=v), "server_lr"),
        (lambda v: feddr.Scaffnew(p=v), "p"),
        (lambda v: feddr.MimeLite(beta=v), "beta"),
        (lambda v: feddr.FedAvgM(momentum=v), "momentum"),
        (lambda v: feddr.FedAdam(server_lr=v), "server_lr"),
        (lambda v: feddr.FedAdagrad(tau=v), "tau"),
        (lambda v: feddr.FedAsync(alpha=v), "alpha"),
        (lambda v: feddr.local.SGD(lr=v), "lr"),
        (lambda v: feddr.local.SGD(lr=0.1, momentum=v), "momentum"),
    ],
)
def test_numbers_of_any_library_are_pythons_and_the_rest_is_refused(make: Any, field: str) -> None:
    """An array of float32 would take the digits of the server's float64 away."""
    for half in (0.5, np.float32(0.5), np.array(0.5), jnp.asarray(0.5)):
        found = getattr(make(half), field)
        assert (type(found), found) == (float, 0.5)
    for bad in (None, 1j, b"1", np.array([0.5]) if field != "eta" else {"a": 1}, len, np.datetime64("2020")):
        with pytest.raises(ValueError, match=rf"^{field} must be "):
            make(bad)
