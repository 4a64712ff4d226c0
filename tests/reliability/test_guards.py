"""Numbers that are not finite: who, when, why, and what is left."""

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddr
from feddr import certify, delays, sampling, tree
from feddr.checkpoint import Checkpoints
from feddr.engines.shared import server as run_module
from feddr.engines.shared.errors import DivergenceWarning
from tests.checkpoint.small_runs import ROUGH, SGD, digest, go, squares
from tests.conftest import make_regression

BAD = 3


def poisoned(value: float = np.nan) -> feddr.Problem:
    """The least squares of ``squares``, with one number of client 3 that is not finite; its fourth row."""
    data = make_regression((7, 40, 12, 25, 3), 6, seed=1)
    x = data.train.samples["x"].copy()
    x[data.train.offsets[BAD] + 4, 2] = value
    part = type(data.train)({**data.train.samples, "x": x}, data.train.offsets)
    return feddr.Problem.regression(feddr.models.linear(6), feddr.FederatedData(part), curvature=(0.0, 1.0))


def without_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run begin whose loss at xbar is not finite, which would stop it at once."""
    monkeypatch.setattr(
        "feddr.engines.shared.evaluation.Evaluator.at", lambda *_: {"F": 0.0, "f": 0.0, "gradient_mapping": 0.0}
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_samples_are_named_before_the_first_round(value: float) -> None:
    with pytest.raises(feddr.DivergedError) as error:
        go(poisoned(value), feddr.FedDR(eta=0.7), 2)
    assert (error.value.client, error.value.round) == (BAD, 0)
    assert "At xbar at the start, f is nan" in str(error.value)
    assert f"The samples of client {BAD} hold a NaN or an infinity (row 4 of x): clean them" in str(error.value)


def test_bad_samples_are_named_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of four from 25 samples: the step is the one whose batch has the row."""
    without_metrics(monkeypatch)
    with pytest.raises(feddr.DivergedError) as error:
        go(poisoned(), feddr.FedDR(eta=0.7), 2)
    rows = SGD.batches(25, np.random.default_rng([0, 3, BAD, 0]))  # the randomness of its first update
    assert rows is not None
    expected = next(t for t in range(7) if 4 in rows.rows[t][: rows.used[t]]) + 1
    assert (error.value.client, error.value.round, error.value.step) == (BAD, 1, expected)
    assert f"Local step {expected} of 7 was the first to leave the finite numbers. Its samples hold" in str(error.value)


def one_dimensional(curvature: float) -> feddr.Problem:
    """f(x) = curvature * x^2 / 2 for one client, started at 1."""
    return feddr.Problem(
        loss=lambda x, batch: 0.5 * curvature * batch["one"] * x**2,
        data=feddr.FederatedData.from_clients([{"one": np.ones(1)}]),
        init=np.float64(1.0),
    )


def test_the_step_that_left_the_finite_numbers_is_found() -> None:
    """x := (1 - lr a - lr / eta) x + lr / eta overflows float32 at a step that one can compute."""
    x, expected, lr, a, eta = np.float32(1), 0, 1000.0, 5.0, 1e6
    with np.errstate(over="ignore"):
        while np.isfinite(x):
            x, expected = np.float32(x - lr * (a * x + (x - 1) / eta)), expected + 1
    local = feddr.local.SGD(lr=lr, epochs=50, batch_size=None)
    with pytest.raises(feddr.DivergedError) as error:
        go(one_dimensional(a), feddr.FedDR(eta=eta), 1, local=local)
    assert error.value.step == expected
    assert f"Local step {expected} of 50 was the first" in str(error.value)
    assert "The local steps are probably too long: lower the learning rate of SGD(lr=1000.0" in str(error.value)


def test_an_algorithm_without_an_eta_is_not_told_to_lower_it() -> None:
    local = feddr.local.SGD(lr=1000.0, epochs=50, batch_size=None)
    with pytest.raises(feddr.DivergedError, match=r"lower the learning rate of SGD\(.*\)\.$"):
        go(one_dimensional(5.0), feddr.FedAvg(), 1, local=local)


def test_an_eta_that_is_too_small_for_the_learning_rate_is_named() -> None:
    local = feddr.local.SGD(lr=1.0, epochs=300, batch_size=None)
    with pytest.raises(feddr.DivergedError, match=r"With eta = 0\.1 the proximal term alone makes steps of lr = 1"):
        go(one_dimensional(0.5), feddr.FedDR(eta=0.1), 5, local=local)


def test_a_loss_that_has_no_gradient_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """sqrt(|x - 1|) is finite at 1, where it starts, and its gradient is not."""
    without_metrics(monkeypatch)
    problem = feddr.Problem(
        loss=lambda x, batch: batch["one"] * jnp.sqrt(jnp.abs(x - 1.0)),
        data=feddr.FederatedData.from_clients([{"one": np.ones(1)}]),
        init=np.float64(1.0),
    )
    with pytest.raises(feddr.DivergedError, match="Its gradient is not finite where it began") as error:
        go(problem, feddr.FedAvg(), 1)
    assert error.value.step == 1


def test_a_metric_that_is_not_finite_stops_the_run() -> None:
    """log x, minimised by steps that do not overflow, from 1 to where there is no logarithm."""
    problem = feddr.Problem(
        loss=lambda x, batch: batch["one"] * jnp.log(x),
        data=feddr.FederatedData.from_clients([{"one": np.ones(1)}]),
        init=np.float64(1.0),
    )
    local = feddr.local.SGD(lr=0.3, batch_size=None)
    with pytest.raises(feddr.DivergedError, match=r"f is nan, though xbar is finite. The loss of client 0") as error:
        go(problem, feddr.FedAvg(), 50, local=local, evaluate_every=1)
    assert 1 <= error.value.round <= 3
    assert error.value.history.column("round") == list(range(error.value.round))


class Overflow:
    """A regulariser with a wrong prox."""

    def value(self, x: Any) -> jax.Array:
        return jnp.sum(0.0 * x["weight"])

    def prox(self, x: Any, eta: Any) -> Any:  # noqa: ARG002
        return jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), x)


@pytest.mark.parametrize("algorithm", [feddr.FedDR(eta=0.7), feddr.AsyncFedDR(eta=0.7)], ids=["rounds", "clock"])
def test_an_xbar_that_is_not_finite_stops_the_run(algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_metrics(monkeypatch)
    data = make_regression((7, 40), 6, seed=1)
    problem = feddr.Problem.regression(feddr.models.linear(6), data, g=Overflow(), curvature=(0.0, 1.0))
    with pytest.raises(feddr.DivergedError, match="xbar is not finite after round 1, though all uploads were") as error:
        go(problem, algorithm, 3)
    assert error.value.client is None


def test_growth_is_told_once_and_early() -> None:
    """x := (1 - lr a) x = -9 x: F grows 81 times a round, and beyond 1000 in the second."""
    local = feddr.local.SGD(lr=1.0, batch_size=None)
    with pytest.warns(DivergenceWarning, match=r"F is 3.28e\+04 after round 2, it was 5 in the first row") as caught:
        go(one_dimensional(10.0), feddr.FedAvg(), 6, local=local, evaluate_every=1)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go(one_dimensional(10.0), feddr.FedAvg(), 1, local=local, evaluate_every=1)


@pytest.mark.parametrize("init", ["lazy", "joining"])
def test_skipping_keeps_the_books(init: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run continues without the client: (INV) holds, and every skipped update is counted."""
    without_metrics(monkeypatch)
    problem, algorithm = poisoned(), feddr.FedDR(eta=0.7, alpha=1.2, init=init)
    drawn = sum(BAD in sampling.Uniform(2).draw(5, np.random.default_rng([1, 3, k])) for k in range(1, 31))
    result = go(problem, algorithm, 30, sampling=sampling.Uniform(2), on_bad_client="skip")
    assert drawn > 5
    assert result.history.last.skipped == result.state.skipped == drawn
    assert BAD not in result.state.clients
    assert sum(result.state.updates.values()) == 60 - drawn
    assert certify.bookkeeping_gap(problem, algorithm, result.state) < 1e-12
    assert all(np.isfinite(leaf).all() for leaf in tree.leaves(result.state.server))


def test_what_is_skipped_in_a_round_has_not_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    without_metrics(monkeypatch)
    result = go(
        poisoned(),
        feddr.FedDR(eta=0.7, alpha=1.2),
        4,
        clock=feddr.Clock(delays.UniformSpeed(1.0, 2.0)),
        on_bad_client="skip",
    )
    assert result.state.skipped == 4
    assert {event.kind for event in result.events if event.client == BAD} == {"lost"}  # it is the slowest
    arrived = [event.client for event in result.events if event.arrived >= 0]
    assert {i: arrived.count(i) for i in set(arrived)} == result.state.updates


@pytest.mark.parametrize("buffer", [1, 3])
def test_skipping_keeps_the_books_of_the_clock(buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without_metrics(monkeypatch)
    problem, algorithm = poisoned(), feddr.AsyncFedDR(eta=0.7, alpha=1.2, buffer=buffer)
    result = go(problem, algorithm, 30, clock=feddr.Clock(ROUGH), on_bad_client="skip")
    assert result.state.skipped > 3
    assert sum(result.state.updates.values()) == 30 * buffer
    assert BAD not in result.state.clients
    assert certify.bookkeeping_gap(problem, algorithm, result.state) < 1e-12
    arrived = [event.client for event in result.events if event.arrived >= 0]
    assert len(arrived) == 30 * buffer
    assert BAD not in arrived
    assert "lost" in {event.kind for event in result.events if event.client == BAD}


def test_a_run_in_which_nobody_sends_anything_finite_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "PATIENCE", 20)
    wild = feddr.local.SGD(lr=1e30, epochs=3)
    for algorithm in (feddr.FedDR(eta=1.0), feddr.AsyncFedDR(eta=1.0)):
        with pytest.raises(feddr.DivergedError, match="20 updates in a row held a NaN or an infinity and were skipped"):
            go(squares(), algorithm, 1000, local=wild, on_bad_client="skip")


def test_methods_that_need_everybody_cannot_skip() -> None:
    with pytest.raises(ValueError, match='FedPD needs every client in every round, got on_bad_client="skip"'):
        go(poisoned(), feddr.FedPD(eta=1.0), 3, on_bad_client="skip")
    with pytest.raises(ValueError, match='on_bad_client must be "stop" or "skip", got \'ignore\''):
        go(poisoned(), feddr.FedDR(eta=1.0), 3, on_bad_client="ignore")


CUT = [
    (feddr.FedDR(eta=0.7), {"sampling": sampling.Uniform(1), "clock": feddr.Clock(delays.UniformSpeed(1.0, 2.0))}),
    (feddr.AsyncFedDR(eta=0.7), {"clock": feddr.Clock(delays.Fixed([1.0, 1.1, 1.3, 3.0, 1.7]))}),
    (feddr.AsyncFedDR(eta=0.7, buffer=4), {"clock": feddr.Clock(delays.Fixed([1.0, 1.1, 1.3, 3.0, 1.7]))}),
]


@pytest.mark.parametrize(("algorithm", "more"), CUT, ids=["rounds", "clock", "buffer"])
def test_a_run_resumes_from_the_last_good_state(
    algorithm: Any, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by a bad client in the midst of a run, then told to skip it: the same as skipping from the start."""
    without_metrics(monkeypatch)
    problem, kept = poisoned(), tmp_path / "kept"
    with pytest.raises(feddr.DivergedError) as error:
        go(problem, algorithm, 20, **more, checkpoint=kept)
    assert error.value.round > 1
    assert error.value.last_good_round == error.value.round - 1
    assert Checkpoints(kept).numbers() == [error.value.last_good_round]
    assert f"The state after round {error.value.last_good_round} is in {kept}." in str(error.value)
    result = go(problem, algorithm, 20, **more, checkpoint=feddr.Checkpoint(kept, resume=True), on_bad_client="skip")
    assert result.state.skipped > 0
    assert digest(result) == digest(go(problem, algorithm, 20, **more, on_bad_client="skip"))


def test_configs_have_the_switch() -> None:
    from feddr import config

    table: dict[str, Any] = {
        "name": "small",
        "rounds": 1,
        "on_bad_client": "skip",
        "data": {"name": "synthetic", "r": 1.0, "s": 1.0, "num_clients": 3},
        "model": {"name": "softmax", "num_features": 60, "num_classes": 10},
        "local": {"name": "SGD", "lr": 0.01},
        "algorithm": {"name": "FedDR", "eta": 1.0},
    }
    found = config.parse(table)
    assert found.on_bad_client == "skip"
    assert 'on_bad_client = "skip"' in config.dumps(found)
    with pytest.raises(config.ConfigError, match="algorithm FedPD: FedPD needs every client in every round"):
        config.build(config.parse({**table, "algorithm": {"name": "FedPD", "eta": 1.0}}))
    with pytest.raises(config.ConfigError, match='on_bad_client must be "stop" or "skip", got "no"'):
        config.parse({**table, "on_bad_client": "no"})
